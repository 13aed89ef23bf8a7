import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ScheduleNotFoundError, type WorkflowHandle } from '@temporalio/client';
import { TurnAnnotation } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { isUnfinished } from '../../domain/turn.ts';
import { resources } from '../../kube/resources.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { gatedPod, Windows, work } from './windows.ts';
import { createWorld, drained, type World } from './world.ts';

/** What takes a minute or two by the clock begins first, and is looked at again at the end: others have their turn meanwhile. */
let world: World;
let worker: WorkerProcess;
let windows: Windows;

const pools = {
  minutely: ['node-1'],
  finishing: ['node-2', 'node-3'],
  endless: ['node-4', 'node-5'],
  other: ['node-6', 'node-7'],
  lost: ['node-8'],
  revoked: ['node-9'],
} as const;
const [held] = pools.minutely;
const worksFor = { type: 'Job', job: { template: gatedPod } };

/** The pod that does not leave the held node. */
let stuck: string;
/** When the first window ends that opens by its own schedule. */
let firstEnd: Promise<string>;
/** Whether the held node was schedulable again since it was cordoned. */
let wasGivenBack = false;
let finishing: WorkflowHandle;

beforeAll(async () => {
  world = await createWorld({ nodes: Object.values(pools).flat().length });
  windows = await Windows.in(world, pools);
  worker = startWorker(world.sandbox);
  await worker.ready();
  await windows.setBudget('100%');
  [stuck = ''] = await world.placePods(held, 1, { finalizers: ['example.com/stays'] });
  let wasCordoned = false;
  windows.watch('minutely', ([node]) => {
    const isCordoned = node?.spec.unschedulable ?? false;
    wasGivenBack ||= wasCordoned && !isCordoned;
    wasCordoned ||= isCordoned;
  });
  const schedule = { timeZone: 'UTC', cron: '* * * * *', duration: '1m' };
  await windows.applied('minutely', { pool: 'minutely', schedule, onWindowEnd: 'HoldCurrent', work });
  firstEnd = openedByItsSchedule();
  // Awaited only later: until then a failure is nobody's.
  firstEnd.catch(() => undefined);
  await windows.applied('finishing', { pool: 'finishing' });
  finishing = await windows.open('finishing', { duration: '1m' });
});

afterAll(async () => {
  await worker?.kill();
  windows?.close();
  await world?.close();
});

function openedByItsSchedule(): Promise<string> {
  return eventually(
    'the window to be open',
    async () => {
      const { active } = (await windows.now('minutely')).status ?? {};
      const start = Date.parse(active?.start ?? '');
      expect(start % 60_000).toBe(0);
      const end = new Date(start + 60_000).toISOString();
      const workflowId = expect.stringMatching(/^maintenance-window-minutely-20/);
      expect(active).toMatchObject({ end, workflowId });
      return end;
    },
    { within: 120_000 },
  );
}

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
  await windows.ends('endless', fails, 'Failed');
  await eventually('the failure to be told', async () =>
    expect((await windows.now('endless')).status?.progress?.failures).toContainEqual({
      node: fails,
      reason: 'JobFailed',
      message: expect.stringContaining('failed ('),
    }),
  );
  expect(await windows.isCordoned(fails)).toBe(true);
});

/** The pod is on the node, and comes to no end there: the sandbox's kubelet takes it for one that runs already. */
async function hangsOn(node: string): Promise<void> {
  const key = await windows.podThatWorksOn('endless', node);
  const status = { conditions: [{ type: 'Ready', status: 'True' }] };
  await world.kube.mergePatch(resources.pods, key, { status }, { subresource: 'status' });
  await windows.letGo(key, node);
}

test('overlapping windows work on the same nodes one after the other, and on no more at once than each allows', async () => {
  const mostOut = windows.mostOutOf('other');
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

describe('a window whose Job may be tried again', () => {
  let run: WorkflowHandle;

  test('does so when its pod has failed', async () => {
    const retried = { type: 'Job', job: { template: gatedPod, retries: 1 } };
    await windows.applied('revoked', { pool: 'revoked', onWindowEnd: 'CancelCurrent', work: retried });
    run = await windows.open('revoked');
    await windows.ends('revoked', pools.revoked[0], 'Failed');
    await eventually('another pod', async () =>
      expect((await windows.jobsOf('revoked')).map(({ status }) => status)).toMatchObject([
        { failed: 1, active: 1 },
      ]),
    );
    expect((await windows.now('revoked')).status?.progress).toMatchObject({ inProgress: 1, failed: 0 });
  });

  test('ends the Job, and gives the node back, when it is deleted meanwhile with CancelCurrent', async () => {
    await windows.deleted('revoked');
    expect(await run.result()).toMatchObject({ done: 0, failed: [] });
    await windows.gone('revoked');
    await windows.schedulable(pools.revoked);
    expect([await windows.jobsOf('revoked'), await windows.turnsOf('revoked')]).toEqual([[], []]);
  });
});

describe('a node that never comes back', () => {
  const [name] = pools.lost;

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
    const key = await windows.podThatWorksOn('lost', name);
    await silence();
    await windows.letGo(key, name);
    await windows.ends('lost', name, 'Succeeded');
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

test('a window opens when its own schedule says so', async () => {
  await firstEnd;
  await eventually(`${held} to be cordoned`, async () => expect(await windows.isCordoned(held)).toBe(true));
});

test('a window that has ended begins no further turn, and is over when those under way are', async () => {
  const [first, second] = pools.finishing;
  await eventually(
    'the window to be over',
    async () =>
      expect((await windows.now('finishing')).status?.active?.waiting).toEqual({
        reason: 'WindowOver',
        message: 'The window is over; 1 node is left for the next one.',
      }),
    { within: 120_000 },
  );
  expect(await windows.underWay(finishing, first)).toMatchObject({ done: 0, remaining: 1 });
  await finishing.executeUpdate('advance', { args: [{ node: first }] });
  expect(await finishing.result()).toMatchObject({ done: 1, failed: [], remaining: 1 });
  await windows.schedulable(pools.finishing);
  const turns = await windows.turnsOf('finishing');
  expect(turns.map(({ metadata }) => metadata.annotations?.[TurnAnnotation.Node])).toEqual([first]);
  expect(await windows.isCordoned(second)).toBe(false);
});

test('a Job that never ends is reported, and its node left behind, with those of other failures, when the window closes', async () => {
  const [fails, never] = pools.endless;
  await eventually(
    'both failures to be told',
    async () =>
      expect((await windows.now('endless')).status?.progress?.failures).toEqual([
        { node: fails, reason: 'JobFailed', message: expect.any(String) },
        { node: never, reason: 'JobNeverEnded', message: expect.stringContaining('has not ended 81 s') },
      ]),
    { within: 150_000 },
  );
  const run = world.temporal.workflow.getHandle('maintenance-window-endless');
  await run.executeUpdate('cancel');
  expect(await run.result()).toMatchObject({ done: 0, failed: [fails, never] });
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
  await windows.ends('endless', never, 'Failed');
  await eventually('the Job to have ended', async () =>
    expect((await windows.jobsOf('endless')).filter(isUnfinished)).toEqual([]),
  );
  expect(await windows.isCordoned(never)).toBe(true);
  await advance(await windows.turnOf('endless', never));
  await windows.schedulable([never]);
}, 240_000);

test('a window that held its node goes on with it when it opens again', async () => {
  const first = await firstEnd;
  await eventually(
    'the drain to have rested, and to go on in another window',
    async () => {
      const { status } = await windows.turnOf('minutely', held);
      expect(status?.conditions).toContainEqual(expect.objectContaining({ type: 'Paused', status: 'False' }));
      const { active } = (await windows.now('minutely')).status ?? {};
      expect(active?.end ?? first).not.toBe(first);
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
