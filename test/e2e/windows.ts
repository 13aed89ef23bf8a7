import { expect } from '@jest/globals';
import type { ScheduleHandle, WorkflowHandle } from '@temporalio/client';
import type { WindowState } from '../../activities/contract.ts';
import type { Job } from '../../api/core.ts';
import type { MaintenanceWindow, MaintenanceWindowSpec } from '../../api/maintenanceWindow.ts';
import { NODE_BUDGET_NAME, WINDOW_LABEL, WORK_NAMESPACE, windowWorkflowIdOf } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { resources } from '../../kube/resources.ts';
import type { WindowOutcome } from '../../workflows/maintenanceWindow.ts';
import type { WindowAnswer } from '../../workflows/windowRun.ts';
import { eventually } from '../kit/eventually.ts';
import { ofPool } from '../kit/readiness.ts';
import type { World } from './world.ts';

type Differs = Omit<Partial<MaintenanceWindowSpec>, 'rollout' | 'schedule' | 'work'> & {
  /** Value of the label `pool` of its nodes. */
  pool: string;
  rollout?: object;
  schedule?: object;
  work?: object;
};

/** Its own schedule opens it in years: what opens it is the test. */
const someDay = { timeZone: 'UTC', duration: '1h', calendar: [{ time: '02:00', years: [2099] }] };

/** The verbs in which tests of maintenance windows are written. */
export class Windows {
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  applied(name: string, { pool, schedule = someDay, ...differs }: Differs): Promise<MaintenanceWindow> {
    const spec = { schedule, nodeSelector: ofPool(pool), ...differs } as unknown as MaintenanceWindowSpec;
    return this.#world.kube.create(resources.maintenanceWindows, { metadata: { name }, spec });
  }

  patched(name: string, spec: object): Promise<MaintenanceWindow> {
    return this.#world.kube.mergePatch(resources.maintenanceWindows, { name }, { spec });
  }

  async now(name: string): Promise<MaintenanceWindow> {
    return (await this.#world.kube.get(resources.maintenanceWindows, { name })) as MaintenanceWindow;
  }

  /** As a person does, from the Temporal UI or CLI. */
  open(name: string, id = windowWorkflowIdOf(name)): Promise<WorkflowHandle> {
    return this.#world.temporal.workflow.start('maintenanceWindow', {
      workflowId: id,
      taskQueue: 'node-maintenance',
      args: [{ name }],
    });
  }

  /** `kubectl delete mw NAME --wait=false` */
  async deleted(name: string): Promise<void> {
    const { uid = '' } = (await this.now(name)).metadata;
    await this.#world.kube.delete(resources.maintenanceWindows, { name }, { uid });
  }

  async gone(name: string): Promise<void> {
    await eventually(`window ${name} to be gone`, async () => expect(await this.now(name)).toBeUndefined());
  }

  scheduleOf(name: string): ScheduleHandle {
    return this.#world.temporal.schedule.getHandle(windowWorkflowIdOf(name));
  }

  /** Has a Schedule fire now; resolves with what the window came to. */
  async triggered(schedule: ScheduleHandle): Promise<WindowOutcome> {
    await schedule.trigger();
    const workflowId = await eventually('the Schedule to have fired', async () => {
      const [last] = (await schedule.describe()).info.recentActions;
      expect(last).toBeDefined();
      return last?.action.workflow.workflowId ?? '';
    });
    return (await this.#world.temporal.workflow.getHandle(workflowId).result()) as WindowOutcome;
  }

  /** Resolves when the turns of just these nodes are under way. */
  underWay(run: WorkflowHandle, ...nodes: string[]): Promise<WindowState> {
    return eventually(`the turns of ${nodes.join(', ') || 'no node'}`, async () => {
      const { state } = await run.query<WindowAnswer>('progress');
      expect(state?.underWay.map(({ node }) => node)).toEqual(nodes);
      return state as WindowState;
    });
  }

  async turnsOf(name: string): Promise<NodeMaintenance[]> {
    const labelSelector = `${WINDOW_LABEL}=${name}`;
    return (await this.#world.kube.list(resources.nodeMaintenances, { labelSelector })).items;
  }

  async turnOf(name: string, node: string): Promise<NodeMaintenance> {
    const turns = await this.turnsOf(name);
    const turn = turns.find(({ metadata }) => metadata.name.endsWith(`-${node}`));
    expect(turn).toBeDefined();
    return turn as NodeMaintenance;
  }

  async jobsOf(name: string): Promise<Job[]> {
    const labelSelector = `${WINDOW_LABEL}=${name}`;
    return (await this.#world.kube.list(resources.jobs, { namespace: WORK_NAMESPACE, labelSelector })).items;
  }

  async setBudget(maxUnavailable: number | string): Promise<void> {
    const spec = { maxUnavailable };
    await eventually('the budget that the worker makes', async () => {
      await this.#world.kube.mergePatch(resources.nodeBudgets, { name: NODE_BUDGET_NAME }, { spec });
    });
  }

  async isCordoned(node: string): Promise<boolean> {
    return (await this.#world.node(node)).spec.unschedulable ?? false;
  }

  async schedulable(nodes: readonly string[]): Promise<void> {
    for (const name of nodes)
      await eventually(`${name} to be schedulable`, async () =>
        expect(await this.isCordoned(name)).toBe(false),
      );
  }

  /** Resolves when an Event of this reason says something that contains `words`. */
  async told(reason: string, words: string): Promise<void> {
    await eventually(`Event ${reason}`, async () => {
      const fieldSelector = `reason=${reason}`;
      const { items } = await this.#world.kube.list(resources.events, {
        namespace: 'default',
        fieldSelector,
      });
      expect(items.map(({ message }) => message)).toContainEqual(expect.stringContaining(words));
    });
  }
}
