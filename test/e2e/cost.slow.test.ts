import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { actionsBetween, readActions } from '../../bench/actions.ts';
import { heartbeatTimeoutSeconds } from '../../domain/leases/renewal.ts';
import { resources } from '../../kube/resources.ts';
import { workflowIdOf } from '../kit/temporalNames.ts';
import { eventually } from '../kit/eventually.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, stageStarted, type World } from '../kit/world.ts';
import { Windows, work } from './windows.ts';

// What maintenances and windows cost in Temporal, by its server's own counter of billed actions (docs/performance.md).

/** Short, so that each held maintenance sends heartbeats during the test. */
const leaseSeconds = 20;
const heartbeatEverySeconds = heartbeatTimeoutSeconds(leaseSeconds) / 2;

let world: World;
let worker: WorkerProcess;
let windows: Windows;

beforeAll(async () => {
  world = await createWorld({ nodes: 8, ownServers: true });
  windows = await Windows.in(world, { two: ['node-5', 'node-6'], one: ['node-7'] });
  worker = startWorker(world.sandbox, { env: { NODE_LEASE_DURATION: String(leaseSeconds) } });
  await worker.ready();
});

afterAll(async () => {
  await worker?.kill();
  windows?.close();
  await world?.close();
});

const read = () => readActions(world.sandbox.temporalMetrics);

/** Returns what `act` costs. The heartbeats of a drain depend on how long it takes. */
async function costOf(act: () => Promise<unknown>) {
  const before = await read();
  await act();
  const { actions, total, describes } = actionsBetween(before, await read());
  return { actions, describes, withoutHeartbeats: total - (actions['heartbeat'] ?? 0) };
}

/** Waits until the activities of a maintenance that are in progress are these. */
const inProgress = (name: string, activity: string) =>
  eventually(`${activity} of ${name} to be in progress`, async () => {
    const { raw } = await world.temporal.workflow.getHandle(workflowIdOf(name)).describe();
    expect(raw.pendingActivities?.map(({ activityType }) => activityType?.name)).toEqual([activity]);
  });

const held = ['held-1', 'held-2', 'held-3', 'held-4'];
const statusChanges = 10;

describe('a maintenance', () => {
  // The NodeDisruptionBudget would let no window begin.
  afterAll(async () => {
    for (const { metadata } of (await world.kube.list(resources.nodeMaintenances)).items) {
      await world.patch(metadata.name, { stage: 'Complete' });
      await world.eventually(metadata.name, 'it to be finished', finished);
    }
  });

  test('costs a few actions to start and to hold', async () => {
    const { actions, withoutHeartbeats } = await costOf(async () => {
      for (const [index, name] of held.entries())
        await world.apply(name, { nodes: [`node-${index + 1}`], stage: 'Cordon' });
      for (const name of held) await inProgress(name, 'keepCordoned');
    });
    expect(withoutHeartbeats / held.length).toBeLessThanOrEqual(9);
    expect(actions).not.toHaveProperty('timer');
  });

  test.each([
    { state: 'held', activity: 'keepCordoned', prepare: async () => undefined },
    {
      state: 'drained',
      activity: 'keepDrained',
      prepare: async (name: string) => {
        await world.patch(name, { stage: 'Drain' });
        await world.eventually(name, 'it to be drained', drained);
      },
    },
    {
      state: 'paused',
      activity: 'keepCordoned',
      prepare: (name: string) =>
        world.temporal.workflow.getHandle(workflowIdOf(name)).executeUpdate('pause') as Promise<unknown>,
    },
  ])(
    'that is $state costs its heartbeats alone, and asks Temporal nothing when its status changes',
    async ({ activity, prepare }) => {
      for (const name of held) await prepare(name);
      for (const name of held) await inProgress(name, activity);
      const startedAt = performance.now();
      const logged = worker.log().length;
      // The check of each run that follows an order.
      await sleep(3_000);
      const { actions, describes } = await costOf(async () => {
        await sleep(2 * heartbeatEverySeconds * 1_000);
        for (let changes = 0; changes < statusChanges; changes++)
          for (const name of held) await changeStatus(name, changes);
      });
      const intervals = (performance.now() - startedAt) / (heartbeatEverySeconds * 1_000);
      const kinds = Object.keys(actions);
      const isWarning = (line: string) => /"level":[45]0/.test(line);
      const explained = () => [...kinds, ...worker.log().slice(logged).split('\n').filter(isWarning)];
      expect(kinds.length > 1 ? explained() : kinds).toEqual(['heartbeat']);
      expect(actions['heartbeat']).toBeLessThanOrEqual(held.length * Math.ceil(intervals));
      expect(actions['heartbeat']).toBeGreaterThanOrEqual(held.length);
      // Claim and runs are checked regularly, whatever happens.
      expect(describes).toBeLessThan((statusChanges * held.length) / 2);
    },
  );

  test('costs a few actions to complete', async () => {
    const { withoutHeartbeats } = await costOf(async () => {
      for (const name of held) await world.patch(name, { stage: 'Complete' });
      for (const name of held) await world.eventually(name, 'it to be finished', finished);
    });
    expect(withoutHeartbeats / held.length).toBeLessThanOrEqual(9);
  });

  test('costs an activity for each tier that has pods', async () => {
    const critical = ['system-cluster-critical', 'system-node-critical'];
    const costs: number[] = [];
    for (const [index, priorities] of [[2_000_001_000], [0, 2_000_000_000, 2_000_001_000]].entries()) {
      const node = `node-${index + 1}`;
      await world.placePods(node, 1);
      for (const priorityClassName of critical) await world.placePods(node, 1, { priorityClassName });
      const name = `tiers-${priorities.length}`;
      const drainPlan = priorities.map((podPriority) => ({ podType: 'Default' as const, podPriority }));
      const { withoutHeartbeats } = await costOf(async () => {
        await world.apply(name, { nodes: [node], stage: 'Drain', drainPlan });
        await world.eventually(name, 'it to be drained', drained);
        await inProgress(name, 'keepDrained');
      });
      costs.push(withoutHeartbeats);
    }
    const [one = 0, three = 0] = costs;
    expect(three - one).toBeLessThanOrEqual(2 * 2);
    expect(one).toBeLessThanOrEqual(12);
  });

  test('costs a few actions for each order', async () => {
    const run = world.temporal.workflow.getHandle(workflowIdOf('tiers-1'));
    const { withoutHeartbeats } = await costOf(async () => {
      for (const [order, activity] of [
        ['pause', 'keepCordoned'],
        ['resume', 'keepDrained'],
      ] as const) {
        await run.executeUpdate(order);
        await inProgress('tiers-1', activity);
      }
    });
    expect(withoutHeartbeats / 2).toBeLessThanOrEqual(5);
  });

  test('that only plans costs nothing while it waits', async () => {
    await world.apply('planned', { nodes: ['node-8'] });
    await world.eventually('planned', 'Idle to have started', (observed) => stageStarted(observed, 'Idle'));
    await sleep(3_000);
    const { withoutHeartbeats } = await costOf(() => sleep(2_000));
    expect(withoutHeartbeats).toBe(0);
  });
});

/** Changes the status of a maintenance, which the worker changes back. */
const changeStatus = (name: string, nodes: number) =>
  world.kube.mergePatch(
    resources.nodeMaintenances,
    { name },
    { status: { nodes: 2 + nodes } },
    { subresource: 'status', fieldManager: 'test' },
  );

describe('a window', () => {
  test('costs the same number of actions for every node', async () => {
    const costs: number[] = [];
    for (const pool of ['one', 'two']) {
      await windows.applied(`of-${pool}`, { pool, work });
      const { withoutHeartbeats } = await costOf(async () => {
        const run = await windows.open(`of-${pool}`);
        await run.result();
      });
      costs.push(withoutHeartbeats);
    }
    const [one = 0, two = 0] = costs;
    expect(two - one).toBeLessThanOrEqual(40);
    expect(one).toBeLessThanOrEqual(60);
  });
});
