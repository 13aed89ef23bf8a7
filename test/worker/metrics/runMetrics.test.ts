import { expect, test } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import { Registry } from 'prom-client';
import { type ClusterScope, temporalNames } from '../../../api/names.ts';
import type { Cluster } from '../../../kube/cluster.ts';
import { metricDefinitions } from '../../../worker/metrics/definitions.ts';
import { registerSettableGauge } from '../../../worker/metrics/register.ts';
import { countOpenRuns, observeStalledRuns } from '../../../worker/metrics/runMetrics.ts';
import { SettableAvailability } from '../../kit/availability.ts';
import { recordedLog } from '../../kube/fixtures.ts';

function object(name: string, minute: number, status: 'True' | 'False') {
  const creationTimestamp = new Date(Date.UTC(2026, 0, 1, 0, minute)).toISOString();
  const stalled = { type: 'Stalled', status, reason: 'WorkflowTaskFailed', message: '' };
  return { metadata: { name, creationTimestamp }, status: { conditions: [stalled] } };
}

test('the hundred oldest objects whose workflow is stalled have series, however many there are', async () => {
  const newestFirst = Array.from({ length: 150 }, (_, index) => object(`m-${index}`, index, 'True'));
  const cluster = {
    maintenances: { list: () => [...newestFirst.toReversed(), object('progresses', 0, 'False')] },
    windows: { list: () => [object('os-patch', 50, 'True')] },
  } as unknown as Cluster;
  const registry = new Registry();
  observeStalledRuns(registry, cluster);
  const lines = (await registry.metrics()).split('\n').filter((line) => line.includes('{'));
  expect(lines).toHaveLength(100);
  expect(lines).toContain(
    'node_maintenance_stalled{kind="MaintenanceWindow",name="os-patch",reason="WorkflowTaskFailed"} 1',
  );
  expect(lines.at(-1)).toContain('name="m-98"');
});

test('nothing is sent to Temporal while it is unavailable, and no count of open runs is shown', async () => {
  const scope = { uid: 'u', names: temporalNames(undefined) } as ClusterScope;
  const registry = new Registry();
  const gauge = registerSettableGauge(registry, metricDefinitions.openRuns);
  gauge.set({ type: 'nodeMaintenance' }, 7);
  const connection = Connection.lazy({ address: '127.0.0.1:1' });
  const temporal = new Client({ connection });
  const log = recordedLog();
  const availability = new SettableAvailability({ reason: 'no response', sinceMs: 0 });
  const leading = new AbortController();
  const counting = countOpenRuns(gauge, { temporal, availability, scope, log }, leading.signal);
  expect(await registry.metrics()).not.toContain('{');
  leading.abort();
  await counting;
  // Each request would fail, and be logged.
  expect(log.lines).toEqual([]);
  await connection.close();
});
