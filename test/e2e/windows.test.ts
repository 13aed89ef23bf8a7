import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ScheduleNotFoundError, type WorkflowHandle } from '@temporalio/client';
import type { KubeObject, Node, Pod } from '../../api/core.ts';
import { READINESS_TAINT, TurnAnnotation, WORK_NAMESPACE, windowWorkflowIdOf } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { isUnfinished } from '../../domain/turn.ts';
import { Informer } from '../../kube/informer.ts';
import { silentLog } from '../../kube/log.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import { gate, ofPool, ReadinessPolicies, readinessPolicy } from '../kit/readiness.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { Windows } from './windows.ts';
import { createWorld, drained, type World } from './world.ts';

let world: World;
let worker: WorkerProcess;
let windows: Windows;
let nodes: Informer<Node>;
const watching = new AbortController();

const pools = {
  jobs: ['node-1', 'node-2', 'node-3', 'node-4'],
  other: ['node-5', 'node-6'],
  lost: ['node-7'],
  minutely: ['node-8'],
  endless: ['node-9', 'node-10'],
  gated: ['node-11', 'node-12', 'node-13', 'node-14'],
} as const;

beforeAll(async () => {
  world = await createWorld({ nodes: Object.values(pools).flat().length });
  for (const [pool, names] of Object.entries(pools))
    for (const name of names)
      await world.kube.mergePatch(resources.nodes, { name }, { metadata: { labels: { pool } } });
  windows = new Windows(world);
  nodes = new Informer({ kube: world.kube, resource: resources.nodes, log: silentLog });
  nodes.start(watching.signal);
  worker = startWorker(world.sandbox);
  await worker.ready();
});

afterAll(async () => {
  await worker?.kill();
  watching.abort();
  await world?.close();
});

const isTainted = ({ spec }: Node) => spec.taints?.some(({ key }) => key === READINESS_TAINT.key) ?? false;

/** Counts, from now on, the most nodes of a pool that are out of service at one time, as a watch sees them. */
function mostOutOf(pool: keyof typeof pools): () => number {
  let most = 0;
  nodes.subscribe(() => {
    const own = nodes.list().filter(({ metadata }) => metadata.labels?.['pool'] === pool);
    const out = own.filter((node) => node.spec.unschedulable === true || isTainted(node));
    most = Math.max(most, out.length);
  });
  return () => most;
}

const pod = { spec: { containers: [{ name: 'patch', image: 'none' }] } };
const work = { type: 'Job', job: { template: pod } };
/** Its pod does not begin until the gate is taken away. */
const gatedPod = { spec: { ...pod.spec, schedulingGates: [{ name: 'example.com/not-yet' }] } };
const worksFor = { type: 'Job', job: { template: gatedPod } };

describe('a window with a Job', () => {
  test('works on its four nodes one after the other, though its worker dies, and gives each back', async () => {
    await windows.setBudget(3);
    await world.placePods('node-1', 2);
    await windows.applied('patch', { pool: 'jobs', work });
    const mostOut = mostOutOf('jobs');
    const run = await windows.open('patch');
    await eventually('the first Job', async () => expect(await windows.jobsOf('patch')).not.toEqual([]));
    await worker.kill();
    worker = startWorker(world.sandbox);
    await worker.ready();
    expect(await run.result()).toEqual({ name: 'patch', nodes: 4, done: 4, failed: [], remaining: 0 });
    expect(mostOut()).toBe(1);
    await windows.schedulable(pools.jobs);
    const worked = (await windows.jobsOf('patch')).map(
      ({ metadata }) => metadata.annotations?.[TurnAnnotation.Node],
    );
    expect(new Set(worked)).toEqual(new Set(pools.jobs));
    const { status } = await windows.now('patch');
    expect(status).toMatchObject({ progress: { summary: '4/4', done: 4, failed: 0, remaining: 0 } });
    expect(status?.active).toBeUndefined();
  });

  test('that opens again works on none of them, until what is to be done has changed', async () => {
    expect(await windows.triggered(windows.scheduleOf('patch'))).toMatchObject({ done: 4, remaining: 0 });
    expect(await windows.jobsOf('patch')).toHaveLength(4);
    await windows.patched('patch', { template: { reason: 'another patch' }, rollout: { maxUnavailable: 2 } });
    const byHand = await world.temporal.schedule.create({
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
    expect(await windows.triggered(byHand)).toMatchObject({ done: 4, remaining: 0 });
    const turns = await windows.turnsOf('patch');
    expect(turns.map(({ spec }) => spec.reason)).toEqual(Array.from({ length: 4 }, () => 'another patch'));
  });
});

describe('a window without work of its own', () => {
  test('waits while the cluster can spare no node, and names those that are out', async () => {
    await windows.setBudget(1);
    await world.kube.mergePatch(resources.nodes, { name: 'node-1' }, { spec: { unschedulable: true } });
    await windows.applied('by-hand', { pool: 'other', onWindowEnd: 'CancelCurrent' });
    const run = await windows.open('by-hand');
    await eventually('the window to say why it waits', async () =>
      expect((await windows.now('by-hand')).status?.active?.waiting).toEqual({
        reason: 'NodeBudget',
        message:
          'The NodeBudget of the cluster allows 1 nodes out of service, and there are 1 of them: node-1 (somebody cordoned it).',
      }),
    );
    await throughout('no turn has begun', 1_000, async () =>
      expect(await windows.turnsOf('by-hand')).toEqual([]),
    );
    await world.kube.mergePatch(resources.nodes, { name: 'node-1' }, { spec: { unschedulable: false } });
    await windows.underWay(run, 'node-5');
    await eventually('the first node to be cordoned', async () =>
      expect(await windows.isCordoned('node-5')).toBe(true),
    );
  });

  test('goes on to the next node when somebody advances the turn', async () => {
    const run = world.temporal.workflow.getHandle(windowWorkflowIdOf('by-hand'));
    await expect(run.executeUpdate('advance', { args: [{ node: 'node-6' }] })).rejects.toMatchObject({
      cause: { message: 'node: "node-6" has no turn in window "by-hand" that could be ended' },
    });
    await run.executeUpdate('advance', { args: [{ node: 'node-5' }] });
    expect(await windows.underWay(run, 'node-6')).toMatchObject({ done: 1 });
    await windows.schedulable(['node-5']);
  });

  test('lets another window that opens meanwhile wait, which says for whom, and goes on after it', async () => {
    await windows.applied('beside', { pool: 'lost' });
    const beside = await windows.open('beside');
    await eventually('the other window to say why it waits', async () =>
      expect((await windows.now('beside')).status?.active?.waiting).toEqual({
        reason: 'NodeBudget',
        message:
          'The NodeBudget of the cluster allows 1 nodes out of service, and there are 1 of them: node-6 (it has its turn in window by-hand).',
      }),
    );
    const run = world.temporal.workflow.getHandle(windowWorkflowIdOf('by-hand'));
    await run.executeUpdate('cancel');
    expect(await run.result()).toMatchObject({ done: 1, remaining: 1 });
    await windows.underWay(beside, ...pools.lost);
    await beside.executeUpdate('cancel');
    expect(await beside.result()).toMatchObject({ done: 0, remaining: 1 });
    expect(await windows.turnsOf('beside')).toEqual([]);
  });

  test('that is cancelled gives the node back, which has its turn anew in the next one', async () => {
    await windows.schedulable(pools.other);
    const next = await windows.open('by-hand');
    expect(await windows.underWay(next, 'node-6')).toMatchObject({ done: 1 });
    await eventually('the window to be open', async () =>
      expect((await windows.now('by-hand')).status?.active?.nodes).toEqual(['node-6']),
    );
    const second = await windows.open('by-hand', `${windowWorkflowIdOf('by-hand')}-2`);
    await expect(second.result()).rejects.toMatchObject({
      cause: { message: expect.stringContaining('"by-hand" is open already') },
    });
    await next.executeUpdate('cancel');
    await next.result();
    await windows.schedulable(pools.other);
  });
});

describe('a window whose nodes have readiness gates', () => {
  const [first, second, third, fourth] = pools.gated;
  let run: WorkflowHandle;
  let mostOut: () => number;

  /** What opens the gate "storage" of a node: a pod without a controller, which a drain takes away for good. */
  async function storageOn(nodeName: string): Promise<void> {
    const metadata = { generateName: 'storage-', namespace: 'default', labels: { app: 'storage' } };
    const spec = { nodeName, tolerations: [{ operator: 'Exists' }], ...pod.spec };
    await world.kube.create(resources.pods as Resource, { metadata, spec } as never);
  }

  /** The pod of the gate "network", which its DaemonSet makes anew. */
  function agentOn(node: string): Promise<Pod> {
    return eventually(`the agent of ${node}`, async () => {
      const found = (await world.podsOn(node)).find(({ metadata }) => metadata.labels?.['app'] === 'network');
      expect(found?.status.ready).toBe(true);
      return found as Pod;
    });
  }

  async function probed({ metadata: { namespace = '', name } }: Pod, ready: boolean): Promise<void> {
    const status = { conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }] };
    await world.kube.mergePatch(resources.pods, { namespace, name }, { status }, { subresource: 'status' });
  }

  async function gatesOf(name: string, want: { gates: string; blockedBy: string }): Promise<void> {
    await eventually(`the gates of ${name} to be told`, async () =>
      expect((await world.kube.get(resources.nodeReadinesses, { name }))?.status).toMatchObject(want),
    );
  }

  /** Somebody ends the work on a drained node; resolves when it is given back, with all pods but that of "storage". */
  async function workedOn(name: string): Promise<Pod> {
    await eventually(`${name} to be drained`, async () =>
      expect(drained(await windows.turnOf('gated', name))).toBe(true),
    );
    await run.executeUpdate('advance', { args: [{ node: name }] });
    await windows.schedulable([name]);
    const agent = await agentOn(name);
    expect(isTainted(await world.node(name))).toBe(true);
    return agent;
  }

  test('begins as many turns as the cluster can spare nodes', async () => {
    const labels = { app: 'network' };
    const spec = { nodeSelector: { pool: 'gated' }, tolerations: [{ operator: 'Exists' }], ...pod.spec };
    await world.kube.create(
      resources.daemonSets as Resource,
      {
        metadata: { name: 'network', namespace: 'default' },
        spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
      } as KubeObject,
    );
    for (const name of pools.gated) {
      await storageOn(name);
      await agentOn(name);
    }
    const gates = ['network', 'storage'].map((name) => gate({ name, namespace: 'default' }));
    const policies = new ReadinessPolicies(world.kube, world.sandbox);
    await policies.stored(readinessPolicy('agents', ofPool('gated'), gates));
    for (const name of pools.gated) await gatesOf(name, { gates: '2/2', blockedBy: '' });
    mostOut = mostOutOf('gated');
    await windows.setBudget(2);
    await windows.applied('gated', { pool: 'gated', rollout: { maxUnavailable: 4, maxFailures: 4 } });
    run = await windows.open('gated');
    await windows.underWay(run, first, second);
  });

  test('waits behind the taint after Complete until they are open, and goes on then', async () => {
    await workedOn(second);
    await throughout('its turn is under way', 2_000, async () => {
      expect(await windows.underWay(run, first, second)).toMatchObject({ done: 0 });
      expect(isTainted(await world.node(second))).toBe(true);
    });
    await storageOn(second);
    expect(await windows.underWay(run, first, third)).toMatchObject({ done: 1 });
    expect(isTainted(await world.node(second))).toBe(false);
  });

  test('reports the gate and the pod of a node that does not come back, and goes on with the others', async () => {
    const agent = await workedOn(first);
    await probed(agent, false);
    await storageOn(first);
    await gatesOf(first, { gates: '1/2', blockedBy: 'network' });
    await windows.patched('gated', { rollout: { readyTimeoutSeconds: 1 } });
    const why = `its readiness gates are not open (gate network: pod is not ready: default/${agent.metadata.name} (Running))`;
    await eventually('the failure to be told', async () => {
      const { progress, active } = (await windows.now('gated')).status ?? {};
      expect(progress).toMatchObject({ done: 1, inProgress: 1, failed: 1, remaining: 1 });
      expect(progress?.failures).toEqual([
        { node: first, reason: 'NodeNotReady', message: expect.stringContaining(why) },
      ]);
      expect(active?.waiting).toEqual({
        reason: 'NodeBudget',
        message: expect.stringContaining(`${first} (its readiness gates are not open)`),
      });
    });
    await windows.told('TurnFailed', `The turn of node ${first} failed: ${why}`);
    await windows.patched('gated', { rollout: { readyTimeoutSeconds: 1800 } });
    for (const name of [third, fourth]) {
      await windows.underWay(run, name);
      await workedOn(name);
      await storageOn(name);
    }
    expect(await windows.underWay(run)).toMatchObject({ done: 3, failed: [{ node: first }], remaining: 0 });
    expect(mostOut()).toBe(2);
    await probed(agent, true);
    await run.executeUpdate('advance', { args: [{ node: first }] });
    expect(await run.result()).toMatchObject({ done: 4, failed: [] });
  });
});

/** Held by the clock, for a minute or two: what is here begun is looked at again at the end, while others have their turn. */
describe('by the clock,', () => {
  const [held] = pools.minutely;
  let stuck: string;
  let firstEnd: string;
  /** Whether the held node was schedulable since it was cordoned. */
  let wasGivenBack = false;

  test('a window opens when its own schedule says so', async () => {
    await windows.setBudget('100%');
    [stuck = ''] = await world.placePods(held, 1, { finalizers: ['example.com/stays'] });
    const schedule = { timeZone: 'UTC', cron: '* * * * *', duration: '1m' };
    await windows.applied('minutely', { pool: 'minutely', schedule, onWindowEnd: 'HoldCurrent', work });
    firstEnd = await eventually(
      'the window to be open',
      async () => {
        const { active } = (await windows.now('minutely')).status ?? {};
        const start = Date.parse(active?.start ?? '');
        expect(start % 60_000).toBe(0);
        const end = new Date(start + 60_000).toISOString();
        expect(active).toMatchObject({
          end,
          workflowId: expect.stringMatching(/^maintenance-window-minutely-20/),
        });
        return end;
      },
      { within: 120_000 },
    );
    await eventually(`${held} to be cordoned`, async () => expect(await windows.isCordoned(held)).toBe(true));
    nodes.subscribe(({ object }) => {
      if (object.metadata.name === held && object.spec.unschedulable !== true) wasGivenBack = true;
    });
  });

  test('a Job that fails leaves its node cordoned', async () => {
    const template = {
      metadata: { finalizers: ['example.com/stays'] },
      spec: { ...gatedPod.spec, terminationGracePeriodSeconds: 1 },
    };
    await windows.applied('endless', {
      pool: 'endless',
      rollout: { maxUnavailable: 2, maxFailures: 2 },
      work: { type: 'Job', job: { template, timeoutSeconds: 20 } },
    });
    await windows.open('endless');
    const [fails, never] = pools.endless;
    await hangsOn(never);
    await failsOn(fails);
    await eventually('the failure to be told', async () =>
      expect((await windows.now('endless')).status?.progress?.failures).toContainEqual({
        node: fails,
        reason: 'JobFailed',
        message: expect.stringContaining('failed ('),
      }),
    );
    expect(await windows.isCordoned(fails)).toBe(true);
  });

  test('overlapping windows work on the same nodes one after the other, and on no more at once than each allows', async () => {
    const mostOut = mostOutOf('other');
    const runs = [];
    for (const name of ['left', 'right']) {
      await windows.applied(name, { pool: 'other', work });
      runs.push(await windows.open(name));
    }
    for (const run of runs) expect(await run.result()).toMatchObject({ done: 2, failed: [], remaining: 0 });
    expect(mostOut()).toBe(1);
    await windows.schedulable(pools.other);
  });

  test('a window that is deleted while a person works is gone when the turn is over, and not before', async () => {
    await windows.applied('leaving', { pool: 'lost', onWindowEnd: 'HoldCurrent' });
    const run = await windows.open('leaving');
    const [node] = pools.lost;
    await eventually('the node to be drained', async () =>
      expect(drained(await windows.turnOf('leaving', node))).toBe(true),
    );
    await windows.deleted('leaving');
    await eventually('its Schedule to be gone', () =>
      expect(windows.scheduleOf('leaving').describe()).rejects.toBeInstanceOf(ScheduleNotFoundError),
    );
    await throughout('the node is cordoned and the window there', 1_000, async () => {
      expect(await windows.isCordoned(node)).toBe(true);
      expect(await windows.now('leaving')).toBeDefined();
    });
    await run.executeUpdate('advance', { args: [{ node }] });
    expect(await run.result()).toMatchObject({ done: 1 });
    await windows.gone('leaving');
    await windows.schedulable([node]);
  });

  test('a window that is deleted while its Job works ends the Job, and gives the node back, with CancelCurrent', async () => {
    await windows.applied('revoked', { pool: 'other', onWindowEnd: 'CancelCurrent', work: worksFor });
    const run = await windows.open('revoked');
    await eventually('the Job', async () => expect(await windows.jobsOf('revoked')).toHaveLength(1));
    await windows.deleted('revoked');
    expect(await run.result()).toMatchObject({ done: 0, failed: [] });
    await windows.gone('revoked');
    await windows.schedulable(pools.other);
    expect([await windows.jobsOf('revoked'), await windows.turnsOf('revoked')]).toEqual([[], []]);
  });

  describe('a node that never comes back', () => {
    const [name] = pools.lost;

    const workOn = async (): Promise<string> => {
      const [job] = await windows.jobsOf('lost');
      const labelSelector = `job-name=${job?.metadata.name}`;
      const { items } = await world.kube.list(resources.pods, { namespace: WORK_NAMESPACE, labelSelector });
      return items[0]?.metadata.name ?? '';
    };

    /** Its kubelet falls silent: the sandbox's stops to play it. */
    const silence = async () => {
      const annotations = { 'kwok.x-k8s.io/node': null };
      await world.kube.mergePatch(resources.nodes, { name }, { metadata: { annotations } });
      const ready = { type: 'Ready', status: 'False', reason: 'Lost', message: '' };
      const times = { lastTransitionTime: new Date().toISOString() };
      const body = { status: { conditions: [{ ...ready, ...times }] } };
      await world.kube.mergePatch(resources.nodes, { name }, body, { subresource: 'status' });
      await eventually('the node to be tainted', async () =>
        expect((await world.node(name)).spec.taints?.map(({ key }) => key)).toContain(
          'node.kubernetes.io/not-ready',
        ),
      );
    };

    test('stays cordoned, is reported, and stops the window until somebody has dealt with it', async () => {
      await windows.applied('lost', { pool: 'lost', rollout: { readyTimeoutSeconds: 2 }, work: worksFor });
      const run = await windows.open('lost');
      await eventually('the Job to have a pod', async () => expect(await workOn()).not.toBe(''));
      const key = { namespace: WORK_NAMESPACE, name: await workOn() };
      await silence();
      await world.kube.mergePatch(resources.pods, key, { spec: { schedulingGates: null } });
      await eventually('the pod to be on its node', async () =>
        expect((await world.kube.get(resources.pods, key))?.spec.nodeName).toBe(name),
      );
      const succeeded = { status: { phase: 'Succeeded' } };
      await world.kube.mergePatch(resources.pods, key, succeeded, { subresource: 'status' });
      await eventually('the failure to be told', async () => {
        const { status } = await windows.now('lost');
        expect(status?.progress?.failures).toEqual([
          { node: name, reason: 'NodeNotReady', message: expect.stringContaining('it is not ready') },
        ]);
        expect(status?.active?.waiting).toEqual({
          reason: 'FailedTurns',
          message: expect.stringContaining(`The turn of ${name} failed: see to`),
        });
      });
      expect(await windows.isCordoned(name)).toBe(true);
      await run.executeUpdate('advance', { args: [{ node: name }] });
      await windows.schedulable([name]);
      expect(await run.result()).toMatchObject({ done: 1, failed: [] });
    });
  });

  function podThatWorksOn(node: string): Promise<{ namespace: string; name: string }> {
    return eventually(`the pod that works on ${node}`, async () => {
      const job = (await windows.jobsOf('endless')).find(
        ({ metadata }) => metadata.annotations?.[TurnAnnotation.Node] === node,
      );
      const labelSelector = `job-name=${job?.metadata.name}`;
      const { items } = await world.kube.list(resources.pods, { namespace: WORK_NAMESPACE, labelSelector });
      expect(items).toHaveLength(1);
      return { namespace: WORK_NAMESPACE, name: items[0]?.metadata.name ?? '' };
    });
  }

  async function failsOn(node: string): Promise<void> {
    const key = await podThatWorksOn(node);
    await world.kube.mergePatch(
      resources.pods,
      key,
      { status: { phase: 'Failed' } },
      { subresource: 'status' },
    );
  }

  /** The pod is on the node, and comes to no end there: the sandbox's kubelet takes it for one that runs already. */
  async function hangsOn(node: string): Promise<void> {
    const key = await podThatWorksOn(node);
    const status = { conditions: [{ type: 'Ready', status: 'True' }] };
    await world.kube.mergePatch(resources.pods, key, { status }, { subresource: 'status' });
    await world.kube.mergePatch(resources.pods, key, { spec: { schedulingGates: null } });
    await eventually(`the pod to be on ${node}`, async () =>
      expect((await world.kube.get(resources.pods, key))?.spec.nodeName).toBe(node),
    );
  }

  test('a Job that never ends is reported, and its node left behind, with those of other failures, when the window closes', async () => {
    const [fails, never] = pools.endless;
    await eventually(
      'both failures to be told',
      async () =>
        expect((await windows.now('endless')).status?.progress?.failures).toEqual([
          { node: never, reason: 'JobNeverEnded', message: expect.stringContaining('has not ended 81 s') },
          { node: fails, reason: 'JobFailed', message: expect.any(String) },
        ]),
      { within: 150_000 },
    );
    const run = world.temporal.workflow.getHandle(windowWorkflowIdOf('endless'));
    await run.executeUpdate('cancel');
    expect(await run.result()).toMatchObject({ done: 0, failed: [never, fails] });
    const advance = async (turn: NodeMaintenance) => {
      const annotations = { [TurnAnnotation.Advance]: 'true' };
      const key = { name: turn.metadata.name };
      await world.kube.mergePatch(resources.nodeMaintenances, key, { metadata: { annotations } });
    };
    for (const node of [fails, never]) {
      await windows.told('TurnLeftBehind', `node ${node} stays out of service`);
      expect(await windows.isCordoned(node)).toBe(true);
      await advance(await windows.turnOf('endless', node));
    }
    await windows.schedulable([fails]);
    await windows.told('TurnNotAdvanced', `works on node ${never}`);
    await failsOn(never);
    await eventually('the Job to have ended', async () =>
      expect((await windows.jobsOf('endless')).filter(isUnfinished)).toEqual([]),
    );
    expect(await windows.isCordoned(never)).toBe(true);
    await advance(await windows.turnOf('endless', never));
    await windows.schedulable([never]);
  }, 240_000);

  test('a window that held its node goes on with it when it opens again', async () => {
    await eventually(
      'the drain to have rested, and to go on in another window',
      async () => {
        const { status } = await windows.turnOf('minutely', held);
        expect(status?.conditions).toContainEqual(
          expect.objectContaining({ type: 'Paused', status: 'False' }),
        );
        const { active } = (await windows.now('minutely')).status ?? {};
        expect(active?.end ?? firstEnd).not.toBe(firstEnd);
      },
      { within: 180_000 },
    );
    expect(wasGivenBack).toBe(false);
    await world.kube.mergePatch(
      resources.pods,
      { namespace: 'default', name: stuck },
      { metadata: { finalizers: null } },
    );
    await eventually(
      'the node to be done',
      async () =>
        expect((await windows.now('minutely')).status?.progress).toMatchObject({ summary: '1/1', failed: 0 }),
      { within: 180_000 },
    );
    await windows.schedulable([held]);
  }, 400_000);
});
