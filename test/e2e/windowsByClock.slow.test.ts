import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ScheduleNotFoundError, type WorkflowHandle } from '@temporalio/client';
import { WindowAnnotation } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { isJobRunning } from '../../domain/common/job.ts';

import { resources } from '../../kube/resources.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { gatedPod, Windows, work } from './windows.ts';
import { createWorld, drained, type World } from '../kit/world.ts';

/** Windows that take a minute by the clock start first and are checked last; the other tests run in between. */
let world: World;
let worker: WorkerProcess;
let windows: Windows;

const pools = {
  minutely: ['node-1'],
  held: ['node-10'],
  finishing: ['node-2', 'node-3'],
  endless: ['node-4', 'node-5'],
  other: ['node-6', 'node-7'],
  lost: ['node-8'],
  revoked: ['node-9'],
} as const;
const [held] = pools.held;
const jobWork = { type: 'Job', job: { template: gatedPod } };

/** A pod that does not leave the held node. */
let stuck: string;
/** The opening of a window by its own schedule. */
let opened: Promise<void>;
/** Whether the held node was uncordoned since it was cordoned. */
let wasUncordoned = false;
let finishing: WorkflowHandle;
let holding: WorkflowHandle;

beforeAll(async () => {
  world = await createWorld({ nodes: Object.values(pools).flat().length });
  windows = await Windows.in(world, pools);
  worker = startWorker(world.sandbox);
  await worker.ready();
  await windows.setBudget('100%');
  [stuck = ''] = await world.placePods(held, 1, { finalizers: ['example.com/stays'] });
  let wasCordoned = false;
  windows.watch('held', ([node]) => {
    const isCordoned = node?.spec.unschedulable ?? false;
    wasUncordoned ||= wasCordoned && !isCordoned;
    wasCordoned ||= isCordoned;
  });
  const schedule = { timeZone: 'UTC', cron: '* * * * *', duration: '1m' };
  await windows.applied('minutely', { pool: 'minutely', schedule });
  opened = openedByItsSchedule();
  // Awaited only later: until then a failure must not be unhandled.
  opened.catch(() => undefined);
  await windows.applied('held', { pool: 'held', onWindowEnd: 'HoldCurrent', work });
  holding = await windows.open('held', { duration: '1m' });
  await windows.applied('finishing', { pool: 'finishing' });
  finishing = await windows.open('finishing', { duration: '1m' });
});

afterAll(async () => {
  await worker?.kill();
  windows?.close();
  await world?.close();
});

async function openedByItsSchedule(): Promise<void> {
  await eventually('the window to be open', async () => {
    const { active } = (await windows.now('minutely')).status ?? {};
    const start = Date.parse(active?.start ?? '');
    expect(start % 60_000).toBe(0);
    const end = new Date(start + 60_000).toISOString();
    const workflowId = expect.stringMatching(/^maintenance-window-minutely-20/);
    expect(active).toMatchObject({ end, workflowId });
  });
}

test('a Job that fails leaves its node cordoned', async () => {
  const template = {
    metadata: { finalizers: ['example.com/stays'] },
    spec: { ...gatedPod.spec, terminationGracePeriodSeconds: 1 },
  };
  await windows.applied('endless', {
    pool: 'endless',
    rollout: { maxUnavailable: 2, maxFailures: 2 },
    work: { type: 'Job', job: { template, timeoutSeconds: 40 } },
  });
  await windows.open('endless');
  const [fails, never] = pools.endless;
  await windows.endJobPod('endless', fails, 'Failed');
  await hangOn(never);
  await eventually('the failure to be reported', async () =>
    expect((await windows.now('endless')).status?.progress?.failures).toContainEqual({
      node: fails,
      reason: 'JobFailed',
      message: expect.stringContaining('failed ('),
    }),
  );
  expect(await windows.isCordoned(fails)).toBe(true);
});

/** Lets the pod start on the node and never end: the sandbox's kubelet leaves pods alone that are Ready already. */
async function hangOn(node: string): Promise<void> {
  const key = await windows.jobPodOf('endless', node);
  const status = { conditions: [{ type: 'Ready', status: 'True' }] };
  await world.kube.mergePatch(resources.pods, key, { status }, { subresource: 'status' });
  await windows.ungate(key, node);
}

test('overlapping windows maintain the same nodes one after the other, and no more at once than each allows', async () => {
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

test('a window that is deleted while a node waits for a user is gone when that node is done, and not before', async () => {
  await windows.applied('leaving', { pool: 'lost', onWindowEnd: 'HoldCurrent' });
  const run = await windows.open('leaving');
  const [node] = pools.lost;
  await eventually('the node to be drained', async () =>
    expect(drained(await windows.maintenanceOf('leaving', node))).toBe(true),
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

describe('a window whose Job may be retried', () => {
  let run: WorkflowHandle;

  test('retries it when its pod has failed', async () => {
    const retried = { type: 'Job', job: { template: gatedPod, retries: 1 } };
    await windows.applied('revoked', { pool: 'revoked', onWindowEnd: 'CancelCurrent', work: retried });
    run = await windows.open('revoked');
    await windows.endJobPod('revoked', pools.revoked[0], 'Failed');
    await eventually('another pod', async () =>
      expect((await windows.jobsOf('revoked')).map(({ status }) => status)).toMatchObject([
        { failed: 1, active: 1 },
      ]),
    );
    expect((await windows.now('revoked')).status?.progress).toMatchObject({ inProgress: 1, failed: 0 });
  });

  test('ends the Job, and uncordons the node, when it is deleted with CancelCurrent', async () => {
    await windows.deleted('revoked');
    expect(await run.result()).toMatchObject({ done: 0, failed: [] });
    await windows.gone('revoked');
    await windows.schedulable(pools.revoked);
    expect([await windows.jobsOf('revoked'), await windows.maintenancesOf('revoked')]).toEqual([[], []]);
  });
});

describe('a node that never comes back', () => {
  const [name] = pools.lost;

  /** Silences its kubelet: the sandbox's no longer runs this node. */
  const silenceKubelet = async () => {
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

  test('stays cordoned, is reported, and stops the window until a user advances it', async () => {
    await windows.applied('lost', { pool: 'lost', rollout: { readyTimeoutSeconds: 2 }, work: jobWork });
    const run = await windows.open('lost');
    const key = await windows.jobPodOf('lost', name);
    await silenceKubelet();
    await windows.ungate(key, name);
    await windows.endJobPod('lost', name, 'Succeeded');
    await eventually('the failure to be reported', async () => {
      const { status } = await windows.now('lost');
      expect(status?.progress?.failures).toEqual([
        { node: name, reason: 'NodeNotReady', message: expect.stringContaining('not ready') },
      ]);
      expect(status?.active?.waiting).toEqual({
        reason: 'FailedNodes',
        message: expect.stringContaining(`1 node failed (${name}): check`),
      });
    });
    expect(await windows.isCordoned(name)).toBe(true);
    await run.executeUpdate('advance', { args: [{ node: name }] });
    await windows.schedulable([name]);
    expect(await run.result()).toMatchObject({ done: 1, failed: [] });
  });
});

test('a window opens by its own schedule', async () => {
  await opened;
  const [node] = pools.minutely;
  await eventually(`${node} to be cordoned`, async () => expect(await windows.isCordoned(node)).toBe(true));
});

test('a window that has ended starts no more nodes, and closes when those in progress are done', async () => {
  const [first, second] = pools.finishing;
  await eventually('the window to end', async () =>
    expect((await windows.now('finishing')).status?.active?.waiting).toEqual({
      reason: 'WindowEnded',
      message: 'The window has ended; 1 node remains for the next opening.',
    }),
  );
  expect(await windows.inProgress(finishing, first)).toMatchObject({ done: 0, remaining: 1 });
  await finishing.executeUpdate('advance', { args: [{ node: first }] });
  expect(await finishing.result()).toMatchObject({ done: 1, failed: [], remaining: 1 });
  await windows.schedulable(pools.finishing);
  const maintenances = await windows.maintenancesOf('finishing');
  expect(maintenances.map(({ metadata }) => metadata.annotations?.[WindowAnnotation.Node])).toEqual([first]);
  expect(await windows.isCordoned(second)).toBe(false);
});

test('a Job that never ends is reported, and its node stays cordoned, as all failed nodes do, when the window closes', async () => {
  const [fails, never] = pools.endless;
  const failures = [
    { node: fails, reason: 'JobFailed', message: expect.any(String) },
    {
      node: never,
      reason: 'JobTerminationTimeout',
      message: expect.stringContaining('did not end within 101 s'),
    },
  ];
  await eventually(
    'both failures to be reported',
    async () => expect((await windows.now('endless')).status?.progress?.failures).toEqual(failures),
    { timeoutMs: 300_000 },
  );
  const run = world.temporal.workflow.getHandle('maintenance-window-endless');
  await run.executeUpdate('cancel');
  expect(await run.result()).toMatchObject({ done: 0, failed: [fails, never] });
  const advance = async (maintenance: NodeMaintenance) => {
    const annotations = { [WindowAnnotation.WorkDone]: 'true' };
    const key = { name: maintenance.metadata.name };
    await world.kube.mergePatch(resources.nodeMaintenances, key, { metadata: { annotations } });
  };
  for (const node of [fails, never]) {
    await windows.emitted('NodeKeptCordoned', `Window endless has closed, and node ${node} stays cordoned (`);
    expect(await windows.isCordoned(node)).toBe(true);
    await advance(await windows.maintenanceOf('endless', node));
  }
  await windows.schedulable([fails]);
  await windows.emitted('AdvanceRejected', `is running on node ${never}`);
  await windows.endJobPod('endless', never, 'Failed');
  await eventually('the Job to have ended', async () =>
    expect((await windows.jobsOf('endless')).filter(isJobRunning)).toEqual([]),
  );
  expect(await windows.isCordoned(never)).toBe(true);
  await advance(await windows.maintenanceOf('endless', never));
  await windows.schedulable([never]);
});

test('a window that held its node resumes it when it opens again', async () => {
  await holding.result();
  const drainIs = (paused: 'True' | 'False') =>
    eventually(`condition Paused of the drain to be ${paused}`, async () =>
      expect((await windows.maintenanceOf('held', held)).status?.conditions).toContainEqual(
        expect.objectContaining({ type: 'Paused', status: paused }),
      ),
    );
  await drainIs('True');
  await windows.scheduleOf('held').trigger();
  await drainIs('False');
  expect(wasUncordoned).toBe(false);
  await world.kube.mergePatch(
    resources.pods,
    { namespace: 'default', name: stuck },
    { metadata: { finalizers: null } },
  );
  await eventually('the node to be done', async () =>
    expect((await windows.now('held')).status?.progress).toMatchObject({ summary: '1/1', failed: 0 }),
  );
  await windows.schedulable([held]);
});
