import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { ScheduleHandle } from '@temporalio/client';
import type { Job } from '../../api/core.ts';
import type { MaintenanceWindow, MaintenanceWindowSpec } from '../../api/maintenanceWindow.ts';
import { NODE_BUDGET_NAME, WINDOW_LABEL, WORK_NAMESPACE, windowWorkflowIdOf } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { Informer } from '../../kube/informer.ts';
import { silentLog } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import type { WindowAnswer } from '../../workflows/windowRun.ts';
import type { WindowOutcome } from '../../workflows/maintenanceWindow.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, type World } from './world.ts';

let world: World;
let worker: WorkerProcess;
const watching = new AbortController();
/** Every set of nodes that was unschedulable at some moment, as a watch saw it. */
const cordoned: string[][] = [];

const pools = {
  jobs: ['node-1', 'node-2', 'node-3', 'node-4'],
  other: ['node-5', 'node-6'],
  lost: ['node-7'],
};

beforeAll(async () => {
  world = await createWorld({ nodes: 7 });
  for (const [pool, names] of Object.entries(pools))
    for (const name of names)
      await world.kube.mergePatch(resources.nodes, { name }, { metadata: { labels: { pool } } });
  const nodes = new Informer({ kube: world.kube, resource: resources.nodes, log: silentLog });
  nodes.subscribe(() => {
    const out = nodes.list().filter(({ spec }) => spec.unschedulable === true);
    cordoned.push(out.map(({ metadata }) => metadata.name).toSorted());
  });
  nodes.start(watching.signal);
  worker = startWorker(world.sandbox);
  await worker.ready();
}, 120_000);

afterAll(async () => {
  await worker?.kill();
  watching.abort();
  await world?.close();
});

const pod = { spec: { containers: [{ name: 'patch', image: 'none' }] } };

type Differs = Omit<Partial<MaintenanceWindowSpec>, 'rollout' | 'schedule' | 'work'> & {
  pool?: keyof typeof pools;
  rollout?: object;
  schedule?: object;
  work?: object;
};

/** A window that its schedule opens only in years: what opens it is the test. */
async function windowed(
  name: string,
  { pool = 'jobs', schedule, ...differs }: Differs,
): Promise<MaintenanceWindow> {
  const matchExpressions = [{ key: 'pool', operator: 'In' as const, values: [pool] }];
  const spec = {
    schedule: { timeZone: 'UTC', duration: '1h', calendar: [{ time: '02:00', years: [2099] }], ...schedule },
    nodeSelector: { nodeSelectorTerms: [{ matchExpressions }] },
    ...differs,
  } as unknown as MaintenanceWindowSpec;
  return world.kube.create(resources.maintenanceWindows, { metadata: { name }, spec });
}

const windowNow = async (name: string) =>
  (await world.kube.get(resources.maintenanceWindows, { name })) as MaintenanceWindow;

const open = (name: string, input: object = {}) =>
  world.temporal.workflow.start('maintenanceWindow', {
    workflowId: windowWorkflowIdOf(name),
    taskQueue: 'node-maintenance',
    args: [{ name, ...input }],
  });

/** Has a Schedule fire now; resolves with what the window came to. */
async function triggered(schedule: ScheduleHandle): Promise<WindowOutcome> {
  await schedule.trigger();
  const workflowId = await eventually('the Schedule to have fired', async () => {
    const [last] = (await schedule.describe()).info.recentActions;
    expect(last).toBeDefined();
    return last?.action.workflow.workflowId ?? '';
  });
  return (await world.temporal.workflow.getHandle(workflowId).result()) as WindowOutcome;
}

async function turnsOf(name: string): Promise<NodeMaintenance[]> {
  const labelSelector = `${WINDOW_LABEL}=${name}`;
  return (await world.kube.list(resources.nodeMaintenances, { labelSelector })).items;
}

async function schedulable(names: readonly string[]): Promise<void> {
  for (const name of names)
    await eventually(`${name} to be schedulable`, async () =>
      expect((await world.node(name)).spec.unschedulable ?? false).toBe(false),
    );
}

async function setBudget(maxUnavailable: number | string): Promise<void> {
  const spec = { maxUnavailable };
  await eventually('the budget that the worker makes', async () => {
    await world.kube.mergePatch(resources.nodeBudgets, { name: NODE_BUDGET_NAME }, { spec });
  });
}

const jobs = async () => (await world.kube.list<Job>(resources.jobs, { namespace: WORK_NAMESPACE })).items;

describe('a window with a Job', () => {
  test('works on its four nodes one after the other, though its worker dies, and gives each back', async () => {
    await setBudget(3);
    await world.placePods('node-1', 2);
    await windowed('patch', {
      work: { type: 'Job', job: { template: pod, timeoutSeconds: 600, retries: 0 } },
    });
    cordoned.length = 0;
    const run = await open('patch');
    await eventually('the first Job', async () => expect(await jobs()).not.toEqual([]));
    await worker.kill();
    worker = startWorker(world.sandbox);
    await worker.ready();
    const outcome = (await run.result()) as WindowOutcome;
    expect(outcome).toEqual({ name: 'patch', nodes: 4, done: 4, failed: [], remaining: 0 });
    expect(Math.max(...cordoned.map((names) => names.length))).toBe(1);
    await schedulable(pools.jobs);
    const worked = (await jobs()).map(
      ({ metadata }) => metadata.annotations?.['nodemaintenance.k8s.io/turn-node'],
    );
    expect(new Set(worked)).toEqual(new Set(pools.jobs));
    const { status } = await windowNow('patch');
    expect(status).toMatchObject({ progress: { summary: '4/4', done: 4, failed: 0, remaining: 0 } });
    expect(status?.active).toBeUndefined();
  }, 180_000);

  test('that opens again works on none of them, until what is to be done has changed', async () => {
    const { schedule } = world.temporal;
    expect(await triggered(schedule.getHandle(windowWorkflowIdOf('patch')))).toMatchObject({
      done: 4,
      remaining: 0,
    });
    expect(await jobs()).toHaveLength(4);
    await world.kube.mergePatch(
      resources.maintenanceWindows,
      { name: 'patch' },
      { spec: { template: { reason: 'another patch' }, rollout: { maxUnavailable: 2 } } },
    );
    const byHand = await schedule.create({
      scheduleId: 'made-by-hand',
      spec: { cronExpressions: ['0 2 1 1 *'] },
      action: {
        type: 'startWorkflow',
        workflowType: 'maintenanceWindow',
        workflowId: `${windowWorkflowIdOf('patch')}-extra`,
        taskQueue: 'node-maintenance',
        args: [{ name: 'patch' }],
      },
    });
    expect(await triggered(byHand)).toMatchObject({ done: 4, remaining: 0 });
    const turns = await turnsOf('patch');
    expect(turns.map(({ spec }) => spec.reason)).toEqual(Array.from({ length: 4 }, () => 'another patch'));
  }, 180_000);
});

describe('a window without work of its own', () => {
  test('waits while the cluster can spare no node, and names those that are out', async () => {
    await setBudget(1);
    await world.kube.mergePatch(resources.nodes, { name: 'node-1' }, { spec: { unschedulable: true } });
    await windowed('by-hand', { pool: 'other', onWindowEnd: 'CancelCurrent' });
    const run = await open('by-hand');
    await eventually('the window to say why it waits', async () =>
      expect((await windowNow('by-hand')).status?.active?.waiting).toEqual({
        reason: 'NodeBudget',
        message:
          'The NodeBudget of the cluster allows 1 nodes out of service, and there are 1 of them: node-1 (somebody cordoned it).',
      }),
    );
    await throughout('no turn has begun', 1_000, async () => expect(await turnsOf('by-hand')).toEqual([]));
    await world.kube.mergePatch(resources.nodes, { name: 'node-1' }, { spec: { unschedulable: false } });
    await eventually('the first node to be drained', async () => {
      const { underWay = [] } = (await run.query<WindowAnswer>('progress')).state ?? {};
      expect(underWay.map(({ node }) => node)).toEqual(['node-5']);
      expect((await world.node('node-5')).spec.unschedulable).toBe(true);
    });
  }, 60_000);

  test('goes on to the next node when somebody advances the turn', async () => {
    const run = world.temporal.workflow.getHandle(windowWorkflowIdOf('by-hand'));
    await expect(run.executeUpdate('advance', { args: [{ node: 'node-6' }] })).rejects.toMatchObject({
      cause: { message: 'node: "node-6" has no turn in window "by-hand" that could be ended' },
    });
    await run.executeUpdate('advance', { args: [{ node: 'node-5' }] });
    await eventually('the second node to have its turn', async () => {
      const { state } = await run.query<WindowAnswer>('progress');
      expect(state).toMatchObject({ done: 1, underWay: [{ node: 'node-6' }] });
    });
    await schedulable(['node-5']);
  }, 60_000);

  test('lets another window that opens meanwhile wait, which says for whom, and goes on after it', async () => {
    await windowed('beside', { pool: 'lost' });
    const beside = await open('beside');
    await eventually('the other window to say why it waits', async () =>
      expect((await windowNow('beside')).status?.active?.waiting).toEqual({
        reason: 'NodeBudget',
        message:
          'The NodeBudget of the cluster allows 1 nodes out of service, and there are 1 of them: node-6 (it has its turn in window by-hand).',
      }),
    );
    const run = world.temporal.workflow.getHandle(windowWorkflowIdOf('by-hand'));
    await run.executeUpdate('cancel');
    expect(await run.result()).toMatchObject({ done: 1, remaining: 1 });
    await eventually('the other window to go on', async () => {
      const { underWay = [] } = (await beside.query<WindowAnswer>('progress')).state ?? {};
      expect(underWay.map(({ node }) => node)).toEqual(pools.lost);
    });
    await beside.executeUpdate('cancel');
    expect(await beside.result()).toMatchObject({ done: 0, remaining: 1 });
    expect(await turnsOf('beside')).toEqual([]);
  }, 120_000);

  test('that is cancelled gives the node back, which has its turn anew in the next one', async () => {
    await schedulable(pools.other);
    const next = await open('by-hand');
    await eventually('the node to have its turn anew', async () => {
      const { state } = await next.query<WindowAnswer>('progress');
      expect(state).toMatchObject({ done: 1, underWay: [{ node: 'node-6' }] });
    });
    await eventually('the window to be open', async () =>
      expect((await windowNow('by-hand')).status?.active?.nodes).toEqual(['node-6']),
    );
    const second = world.temporal.workflow.start('maintenanceWindow', {
      workflowId: `${windowWorkflowIdOf('by-hand')}-2`,
      taskQueue: 'node-maintenance',
      args: [{ name: 'by-hand' }],
    });
    await expect((await second).result()).rejects.toMatchObject({
      cause: { message: expect.stringContaining('"by-hand" is open already') },
    });
    await next.executeUpdate('cancel');
    await next.result();
  }, 120_000);
});

describe('a window that holds its nodes at its end', () => {
  const paused = ({ status }: NodeMaintenance) =>
    status?.conditions.some((one) => one.type === 'Paused' && one.status === 'True') ?? false;

  test('lets a drain that is not done rest, and the next one goes on with it', async () => {
    await setBudget('50%');
    const [stuck = ''] = await world.placePods('node-5', 1, { finalizers: ['example.com/stays'] });
    await windowed('hold', {
      pool: 'other',
      onWindowEnd: 'HoldCurrent',
      work: { type: 'Job', job: { template: pod } },
    });
    const held = await open('hold', { duration: '1m' });
    expect(await held.result()).toMatchObject({ done: 0, remaining: 1 });
    await eventually('the drain to rest', async () => {
      const [turn] = await turnsOf('hold');
      expect(turn?.spec.stage).toBe('Drain');
      expect(turn && paused(turn)).toBe(true);
    });
    expect((await world.node('node-5')).spec.unschedulable).toBe(true);
    const key = { namespace: 'default', name: stuck };
    await world.kube.mergePatch(resources.pods, key, { metadata: { finalizers: null } });
    const outcome = await (await open('hold')).result();
    expect(outcome).toMatchObject({ done: 2, remaining: 0 });
    await schedulable(pools.other);
  }, 180_000);
});

describe('a node that never comes back', () => {
  const node = { name: 'node-7' };
  const gated = { spec: { ...pod.spec, schedulingGates: [{ name: 'example.com/not-yet' }] } };

  const worker7 = async (): Promise<string> => {
    const { items } = await world.kube.list(resources.pods, { namespace: WORK_NAMESPACE });
    const own = items.find(({ spec }) => (spec.schedulingGates ?? []).length > 0);
    return own?.metadata.name ?? '';
  };

  /** Its kubelet falls silent: the sandbox's stops to play it. */
  const silence = async () => {
    const annotations = { 'kwok.x-k8s.io/node': null };
    await world.kube.mergePatch(resources.nodes, node, { metadata: { annotations } });
    const ready = { type: 'Ready', status: 'False', reason: 'Lost', message: '' };
    const times = { lastTransitionTime: new Date().toISOString() };
    const body = { status: { conditions: [{ ...ready, ...times }] } };
    await world.kube.mergePatch(resources.nodes, node, body, { subresource: 'status' });
    await eventually('the node to be tainted', async () =>
      expect((await world.node(node.name)).spec.taints?.map(({ key }) => key)).toContain(
        'node.kubernetes.io/not-ready',
      ),
    );
  };

  test('stays cordoned, is reported, and stops the window until somebody has dealt with it', async () => {
    const rollout = { readyTimeoutSeconds: 2 };
    await windowed('lost', { pool: 'lost', rollout, work: { type: 'Job', job: { template: gated } } });
    const run = await open('lost');
    await eventually('the Job to have a pod', async () => expect(await worker7()).not.toBe(''));
    const key = { namespace: WORK_NAMESPACE, name: await worker7() };
    await silence();
    await world.kube.mergePatch(resources.pods, key, { spec: { schedulingGates: null } });
    await eventually('the pod to be on its node', async () =>
      expect((await world.kube.get(resources.pods, key))?.spec.nodeName).toBe(node.name),
    );
    const succeeded = { status: { phase: 'Succeeded' } };
    await world.kube.mergePatch(resources.pods, key, succeeded, { subresource: 'status' });
    await eventually('the failure to be told', async () => {
      const { status } = await windowNow('lost');
      expect(status?.progress?.failures).toEqual([
        { node: node.name, reason: 'NodeNotReady', message: expect.stringContaining('it is not ready') },
      ]);
      expect(status?.active?.waiting?.reason).toBe('LastTurns');
    });
    expect((await world.node(node.name)).spec.unschedulable).toBe(true);
    await run.executeUpdate('advance', { args: [{ node: node.name }] });
    await schedulable([node.name]);
    expect(await run.result()).toMatchObject({ done: 1, failed: [] });
  }, 120_000);
});
