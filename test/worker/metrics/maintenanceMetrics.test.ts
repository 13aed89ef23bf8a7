import { expect, test } from '@jest/globals';
import { Histogram, Registry } from 'prom-client';
import type { Condition } from '../../../api/core.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import type { Cluster } from '../../../kube/cluster.ts';
import { observeDrains, observeMaintenances } from '../../../worker/metrics/maintenanceMetrics.ts';

/** Returns the part of the informers that the metrics need, without an apiserver. */
function clusterOf(all: NodeMaintenance[]) {
  type Subscriber = Parameters<Cluster['maintenances']['subscribe']>[0];
  const subscribers = new Set<Subscriber>();
  const maintenances = {
    list: () => all,
    subscribe: (subscriber: Subscriber) => {
      subscribers.add(subscriber);
      return () => subscribers.delete(subscriber);
    },
  };
  const change = (type: 'Added' | 'Deleted', object: NodeMaintenance) => {
    for (const notify of subscribers) notify({ type, key: object.metadata.name, object });
  };
  const none = { list: () => [] };
  const kube = { now: () => new Date() };
  const cluster = { kube, maintenances, evacuations: none, lifecycle: { requests: none } };
  return { cluster: cluster as unknown as Cluster, change };
}

function draining(index: number, drained: 'True' | 'False' = 'False'): NodeMaintenance {
  const at = new Date(Date.UTC(2026, 0, 1, 0, index)).toISOString();
  const condition: Condition = {
    type: 'Drained',
    status: drained,
    reason: 'Draining',
    message: '',
    lastTransitionTime: new Date(Date.parse(at) + 90_000).toISOString(),
  };
  return {
    metadata: { name: `m-${index}`, uid: `u-${index}`, generation: 1, creationTimestamp: at },
    spec: { stage: 'Drain', nodeSelector: { nodeSelectorTerms: [] } },
    status: {
      ...emptyStatus,
      observedGeneration: 1,
      stageStatuses: [{ name: 'Drain', startTimestamp: at }],
      conditions: [condition],
    },
  };
}

test('the hundred oldest maintenances that wait have series, however many there are', async () => {
  const all = Array.from({ length: 150 }, (_, index) => draining(index)).toReversed();
  const registry = new Registry();
  observeMaintenances(registry, clusterOf(all).cluster);
  const lines = (await registry.metrics()).split('\n');
  const named = lines.filter((line) => line.startsWith('node_maintenance_maintenance_waiting{'));
  expect(named).toHaveLength(100);
  expect(named[0]).toBe(
    'node_maintenance_maintenance_waiting{maintenance="m-0",stage="Drain",reason="Draining"} 1',
  );
  expect(named.at(-1)).toContain('maintenance="m-99"');
});

test('a leader counts each drain once, and none that was drained before it led', async () => {
  const registry = new Registry();
  const durations = new Histogram({ name: 'd', help: 'd', buckets: [60, 120], registers: [registry] });
  const counted = async () =>
    (await durations.get()).values.find(({ metricName }) => metricName === 'd_count')?.value;
  const { cluster, change } = clusterOf([draining(0, 'True')]);
  const leading = new AbortController();
  const observing = observeDrains(durations, cluster, leading.signal);
  change('Added', draining(0, 'True'));
  expect(await counted()).toBe(0);
  change('Added', draining(1));
  change('Added', draining(1, 'True'));
  // A pod appeared late, and left.
  change('Added', draining(1));
  change('Added', draining(1, 'True'));
  expect(await counted()).toBe(1);
  expect((await durations.get()).values.find(({ metricName }) => metricName === 'd_sum')?.value).toBe(90);
  leading.abort();
  await observing;
  change('Added', draining(2, 'True'));
  expect(await counted()).toBe(1);
});
