import { expect } from '@jest/globals';
import type { ScheduleHandle, WorkflowHandle } from '@temporalio/client';
import type { WindowState } from '../../activities/contract.ts';
import type { Job, KubeObject, Node } from '../../api/core.ts';
import type { MaintenanceWindow, MaintenanceWindowSpec } from '../../api/maintenanceWindow.ts';
import {
  NODE_BUDGET_NAME,
  READINESS_TAINT,
  TurnAnnotation,
  WINDOW_LABEL,
  WORK_NAMESPACE,
  windowWorkflowIdOf,
} from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { Informer } from '../../kube/informer.ts';
import { silentLog } from '../../kube/log.ts';
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

/** Names of nodes by the value of their label `pool`. */
export type Pools = Readonly<Record<string, readonly string[]>>;

export const pod = { spec: { containers: [{ name: 'patch', image: 'none' }] } };
export const work = { type: 'Job', job: { template: pod } };
/** Its pod does not begin until the gate is taken away. */
export const gatedPod = { spec: { ...pod.spec, schedulingGates: [{ name: 'example.com/not-yet' }] } };

/** Its own schedule opens it in years: what opens it is the test. */
const someDay = { timeZone: 'UTC', duration: '1h', calendar: [{ time: '02:00', years: [2099] }] };

/** The verbs in which tests of maintenance windows are written. */
export class Windows {
  readonly #world: World;
  readonly #nodes: Informer<Node>;
  readonly #end = new AbortController();

  private constructor(world: World) {
    this.#world = world;
    this.#nodes = new Informer({ kube: world.kube, resource: resources.nodes, log: silentLog });
  }

  /** Of a world whose nodes are labelled with their pool. */
  static async in(world: World, pools: Pools): Promise<Windows> {
    const windows = new Windows(world);
    for (const [pool, names] of Object.entries(pools))
      for (const name of names)
        await world.kube.mergePatch(resources.nodes, { name }, { metadata: { labels: { pool } } });
    windows.#nodes.start(windows.#end.signal);
    return windows;
  }

  close(): void {
    this.#end.abort();
  }

  /** Calls back with the nodes of a pool whenever a watch sees one change. */
  watch(pool: string, see: (nodes: readonly Node[]) => void): void {
    const ofIt = ({ metadata }: Node) => metadata.labels?.['pool'] === pool;
    this.#nodes.subscribe(() => see(this.#nodes.list().filter(ofIt)));
  }

  /** Counts, from now on, the most nodes of a pool that are out of service at one time, or the most of what they are of. */
  mostOutOf(pool: string, of = ({ metadata }: Node) => metadata.name): () => number {
    let most = 0;
    this.watch(pool, (nodes) => {
      most = Math.max(most, new Set(nodes.filter(isOutOfService).map(of)).size);
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

  /** As a person does, from the Temporal UI or CLI. */
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

  /** The newest pod of the Job that works on a node. */
  podThatWorksOn(name: string, node: string): Promise<{ namespace: string; name: string }> {
    return eventually(`the pod that works on ${node}`, async () => {
      const job = (await this.jobsOf(name)).find(
        ({ metadata }) => metadata.annotations?.[TurnAnnotation.Node] === node,
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

  /** Takes the gate from such a pod, and resolves when it is on its node. */
  async letGo(key: { namespace: string; name: string }, node: string): Promise<void> {
    await this.#world.kube.mergePatch(resources.pods, key, { spec: { schedulingGates: null } });
    await eventually(`the pod to be on ${node}`, async () =>
      expect((await this.#world.kube.get(resources.pods, key))?.spec.nodeName).toBe(node),
    );
  }

  /** The pod that works on a node comes to this end, as its kubelet would say. */
  async ends(name: string, node: string, phase: 'Succeeded' | 'Failed'): Promise<void> {
    const key = await this.podThatWorksOn(name, node);
    await this.#world.kube.mergePatch(resources.pods, key, { status: { phase } }, { subresource: 'status' });
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

export function isTainted({ spec }: Node): boolean {
  return spec.taints?.some(({ key }) => key === READINESS_TAINT.key) ?? false;
}

function isOutOfService(node: Node): boolean {
  return node.spec.unschedulable === true || isTainted(node);
}

function createdAt({ metadata }: KubeObject): number {
  return Date.parse(metadata.creationTimestamp ?? '');
}
