import { expect } from '@jest/globals';
import type { ScheduleHandle, WorkflowHandle } from '@temporalio/client';
import type { WindowState } from '../../domain/windows/windowState.ts';
import type { Job, KubeObject, Node } from '../../api/core.ts';
import type { MaintenanceWindow, MaintenanceWindowSpec } from '../../api/maintenanceWindow.ts';
import {
  NODE_DISRUPTION_BUDGET_NAME,
  READINESS_TAINT,
  WindowAnnotation,
  WINDOW_LABEL,
  WORK_NAMESPACE,
} from '../../api/names.ts';
import { windowWorkflowIdOf } from '../kit/temporalNames.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { Informer } from '../../kube/informer.ts';
import { silentLog } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import type { WindowOutcome } from '../../workflows/windows/maintenanceWindow.ts';
import type { WindowRunProgress } from '../../workflows/windows/run.ts';
import { eventually } from '../kit/eventually.ts';
import { sendHeartbeats } from '../kit/heartbeats.ts';
import { ofPool } from '../kit/readiness.ts';
import type { World } from '../kit/world.ts';

type Differs = Omit<Partial<MaintenanceWindowSpec>, 'rollout' | 'schedule' | 'work'> & {
  /** Value of the label `pool` of its nodes. */
  pool: string;
  rollout?: object;
  schedule?: object;
  work?: object;
};

/** Names of nodes by the value of their label `pool`. */
export type Pools = Readonly<Record<string, readonly string[]>>;

export const pod = { spec: { containers: [{ name: 'patch', image: 'none' }] } };
export const work = { type: 'Job', job: { template: pod } };
/** Its pod does not start until the gate is removed. */
export const gatedPod = { spec: { ...pod.spec, schedulingGates: [{ name: 'example.com/not-yet' }] } };

/** Opens in many years, so that only the test opens the window. */
const someDay = { timeZone: 'UTC', duration: '1h', calendar: [{ time: '02:00', years: [2099] }] };

/** The verbs of the tests of maintenance windows. */
export class Windows {
  readonly #world: World;
  readonly #nodes: Informer<Node>;
  readonly #end = new AbortController();
  #stopHeartbeats: () => void = () => undefined;

  private constructor(world: World) {
    this.#world = world;
    this.#nodes = new Informer({ kube: world.kube, resource: resources.nodes, log: silentLog });
  }

  /** Labels the nodes of a world with their pools. */
  static async in(world: World, pools: Pools): Promise<Windows> {
    const windows = new Windows(world);
    for (const [pool, names] of Object.entries(pools))
      for (const name of names)
        await world.kube.mergePatch(resources.nodes, { name }, { metadata: { labels: { pool } } });
    windows.#nodes.start(windows.#end.signal);
    return windows;
  }

  /** Sends the heartbeats of nodes that are out of service more often, until it is closed: a window waits for them. */
  sendHeartbeats(): void {
    this.#stopHeartbeats = sendHeartbeats(this.#world.kube, () =>
      this.#nodes
        .list()
        .filter(isOutOfService)
        .map(({ metadata }) => metadata.name),
    );
  }

  close(): void {
    this.#stopHeartbeats();
    this.#end.abort();
  }

  /** Calls back with the nodes of a pool whenever one of them changes. */
  watch(pool: string, onChange: (nodes: readonly Node[]) => void): void {
    const isOfPool = ({ metadata }: Node) => metadata.labels?.['pool'] === pool;
    this.#nodes.subscribe(() => onChange(this.#nodes.list().filter(isOfPool)));
  }

  /** Counts, from now on, how many nodes of a pool are out of service at one time at most, or how many of their `groupOf`. */
  mostOutOf(pool: string, groupOf = ({ metadata }: Node) => metadata.name): () => number {
    let most = 0;
    this.watch(pool, (nodes) => {
      most = Math.max(most, new Set(nodes.filter(isOutOfService).map(groupOf)).size);
    });
    return () => most;
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

  /** Opens a window as a user does from the Temporal UI or CLI. */
  open(
    name: string,
    { id = windowWorkflowIdOf(name), ...input }: { id?: string; duration?: string } = {},
  ): Promise<WorkflowHandle> {
    return this.#world.temporal.workflow.start('maintenanceWindow', {
      workflowId: id,
      taskQueue: 'node-maintenance',
      args: [{ name, ...input }],
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

  /** Triggers a Schedule, and returns the outcome of the window. */
  async triggered(schedule: ScheduleHandle): Promise<WindowOutcome> {
    await schedule.trigger();
    const workflowId = await eventually('the Schedule to have fired', async () => {
      const [last] = (await schedule.describe()).info.recentActions;
      expect(last).toBeDefined();
      return last?.action.workflow.workflowId ?? '';
    });
    return (await this.#world.temporal.workflow.getHandle(workflowId).result()) as WindowOutcome;
  }

  /** Waits until exactly these nodes are in progress. */
  inProgress(run: WorkflowHandle, ...nodes: string[]): Promise<WindowState> {
    return eventually(`nodes in progress: ${nodes.join(', ') || 'none'}`, async () => {
      const { state } = await run.query<WindowRunProgress>('progress');
      expect(state?.inProgress.map(({ node }) => node)).toEqual(nodes);
      return state as WindowState;
    });
  }

  async maintenancesOf(name: string): Promise<NodeMaintenance[]> {
    const labelSelector = `${WINDOW_LABEL}=${name}`;
    return (await this.#world.kube.list(resources.nodeMaintenances, { labelSelector })).items;
  }

  async maintenanceOf(name: string, node: string): Promise<NodeMaintenance> {
    const all = await this.maintenancesOf(name);
    const found = all.find(({ metadata }) => metadata.name.endsWith(`-${node}`));
    expect(found).toBeDefined();
    return found as NodeMaintenance;
  }

  async jobsOf(name: string): Promise<Job[]> {
    const labelSelector = `${WINDOW_LABEL}=${name}`;
    return (await this.#world.kube.list(resources.jobs, { namespace: WORK_NAMESPACE, labelSelector })).items;
  }

  /** Returns the newest pod of the Job of a node. */
  jobPodOf(name: string, node: string): Promise<{ namespace: string; name: string }> {
    return eventually(`the pod of the Job of ${node}`, async () => {
      const job = (await this.jobsOf(name)).find(
        ({ metadata }) => metadata.annotations?.[WindowAnnotation.Node] === node,
      );
      const labelSelector = `job-name=${job?.metadata.name}`;
      const { items } = await this.#world.kube.list(resources.pods, {
        namespace: WORK_NAMESPACE,
        labelSelector,
      });
      const [last] = items.toSorted((a, b) => createdAt(b) - createdAt(a));
      expect(last).toBeDefined();
      return { namespace: WORK_NAMESPACE, name: last?.metadata.name ?? '' };
    });
  }

  /** Removes the gate of such a pod, and waits until it is on its node. */
  async ungate(key: { namespace: string; name: string }, node: string): Promise<void> {
    await this.#world.kube.mergePatch(resources.pods, key, { spec: { schedulingGates: null } });
    await eventually(`the pod to be on ${node}`, async () =>
      expect((await this.#world.kube.get(resources.pods, key))?.spec.nodeName).toBe(node),
    );
  }

  /** Ends the pod of a node's Job as its kubelet would. */
  async endJobPod(name: string, node: string, phase: 'Succeeded' | 'Failed'): Promise<void> {
    const key = await this.jobPodOf(name, node);
    await this.#world.kube.mergePatch(resources.pods, key, { status: { phase } }, { subresource: 'status' });
  }

  async setBudget(maxUnavailable: number | string): Promise<void> {
    const spec = { maxUnavailable };
    await eventually('the budget that the worker creates', async () => {
      await this.#world.kube.mergePatch(
        resources.nodeDisruptionBudgets,
        { name: NODE_DISRUPTION_BUDGET_NAME },
        { spec },
      );
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

  /** Waits for an Event of this reason whose message contains `text`. */
  async emitted(reason: string, text: string): Promise<void> {
    await eventually(`Event ${reason}`, async () => {
      const fieldSelector = `reason=${reason}`;
      const { items } = await this.#world.kube.list(resources.events, {
        namespace: 'default',
        fieldSelector,
      });
      expect(items.map(({ message }) => message)).toContainEqual(expect.stringContaining(text));
    });
  }
}

export function isTainted({ spec }: Node): boolean {
  return spec.taints?.some(({ key }) => key === READINESS_TAINT.key) ?? false;
}

function isOutOfService(node: Node): boolean {
  return node.spec.unschedulable === true || isTainted(node);
}

function createdAt({ metadata }: KubeObject): number {
  return Date.parse(metadata.creationTimestamp ?? '');
}
