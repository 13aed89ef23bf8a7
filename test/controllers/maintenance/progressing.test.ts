import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { runProgressingController } from '../../../controllers/maintenance/progressing.ts';
import { EventRecorder } from '../../../kube/events.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { SettableAvailability } from '../../kit/availability.ts';
import { silentLog as log, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually, throughout } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let events: EventRecorder;
let stop: AbortController | undefined;
let running: Promise<void> | undefined;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'progress' });
  events = new EventRecorder({ kube: c.cluster.kube, component: 'node-maintenance', log });
});

afterEach(async () => {
  stop?.abort();
  await running;
  await c.maintenancesDropped();
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

function controlling(availability: SettableAvailability, reportAfterMs?: number): void {
  stop = new AbortController();
  const deps = { cluster: c.cluster, availability, events, log };
  running = runProgressingController(
    { ...deps, ...(reportAfterMs !== undefined && { reportAfterMs }) },
    stop.signal,
  );
}

const progressing = async ({ metadata: { name } }: NodeMaintenance) => {
  const { conditions = [] } = (await c.maintenanceNow(name)).status ?? {};
  return conditions
    .filter(({ type }) => type === 'Progressing')
    .map(({ status, reason, message }) => `${status} ${reason}: ${message}`);
};

const eventuallyProgressing = (maintenance: NodeMaintenance, want: string) =>
  eventually(`condition Progressing of ${maintenance.metadata.name}`, async () =>
    expect(await progressing(maintenance)).toEqual([expect.stringContaining(want)]),
  );

const waiting = (stage: 'Idle' | 'Drain' = 'Drain') => c.applied(c.maintenance({ nodes: ['none'], stage }));

const drained = async () => {
  const { metadata } = await waiting();
  const now = '2026-01-01T12:00:00Z';
  const condition = { type: 'Drained', status: 'True', reason: 'AllPodsTerminated', message: '' };
  const status = {
    observedGeneration: metadata.generation,
    stageStatuses: [{ name: 'Drain', startTimestamp: now }],
    conditions: [{ ...condition, lastTransitionTime: now }],
  };
  return c.withStatus(await c.maintenanceNow(metadata.name), status);
};

describe('an outage of Temporal', () => {
  test('is reported on each maintenance that waits, once, with an Event; and its end is', async () => {
    const availability = new SettableAvailability();
    controlling(availability);
    const [first, held] = [await waiting(), await drained()];
    await c.caughtUpWith(held);
    availability.down('no response from temporal:7233 (ECONNREFUSED)');
    const message = 'Temporal is unavailable: no response from temporal:7233 (ECONNREFUSED).';
    await eventuallyProgressing(first, `False TemporalUnavailable: ${message}`);
    const late = await waiting('Idle');
    await eventuallyProgressing(late, 'False TemporalUnavailable');
    // Another reason is the same outage.
    availability.down('no response from temporal:7233 (timeout)');
    const fence = await waiting('Idle');
    await eventuallyProgressing(fence, '(timeout)');
    await eventuallyProgressing(first, message);
    availability.up();
    for (const one of [first, late]) await eventuallyProgressing(one, 'True TemporalAvailable');
    expect(await progressing(held)).toEqual([]);
    await events.flush();
    const recorded = await c.eventsAbout(first);
    expect(recorded).toEqual([expect.stringContaining(`TemporalUnavailable: ${message}`)]);
    expect(await c.eventsAbout(held)).toEqual([]);
  });

  test('is not reported while it is short', async () => {
    const availability = new SettableAvailability();
    controlling(availability, 3_600_000);
    const maintenance = await waiting();
    await c.caughtUpWith(maintenance);
    availability.down('restarting', Date.now());
    await throughout('nothing is reported', 1_000, async () =>
      expect(await progressing(maintenance)).toEqual([]),
    );
    // It has lasted long enough now.
    availability.down('restarting', 0);
    await eventuallyProgressing(maintenance, 'False TemporalUnavailable');
  });

  test('that has ended while no controller was running is taken back', async () => {
    const availability = new SettableAvailability();
    availability.down();
    controlling(availability, 0);
    const maintenance = await waiting();
    await eventuallyProgressing(maintenance, 'False TemporalUnavailable');
    stop?.abort();
    await running;
    controlling(new SettableAvailability());
    await eventuallyProgressing(maintenance, 'True TemporalAvailable');
  });
});
