import type { Registry } from 'prom-client';
import type { Lease } from '../../api/core.ts';
import { leaseStateOf, timeOf } from '../../domain/leases/lease.ts';
import { leaseProblemOf } from '../../domain/leases/abandoned.ts';
import { type Cluster, nodeLeaseOf } from '../../kube/cluster.ts';
import { metricDefinitions } from './definitions.ts';
import { registerGauge } from './register.ts';

/**
 * Registers the metrics of the maintenance Leases. Only Leases that require attention have series by node, so that a thousand nodes
 * cost no more series than one.
 */
export function observeLeases(registry: Registry, cluster: Cluster): void {
  const { leases } = cluster;
  registerGauge(registry, metricDefinitions.nodeLeases, (gauge) => {
    if (!leases.hasSynced) return;
    for (const [state, count] of Object.entries(countByState(cluster))) gauge.set({ state }, count);
  });
  registerGauge(registry, metricDefinitions.nodeLeasesLastResponse, (gauge) => {
    gauge.set((leases.lastResponseAt?.getTime() ?? 0) / 1_000);
  });
  registerGauge(registry, metricDefinitions.leaseAbandoned, (gauge) => {
    for (const { node, holder, reason } of reportableLeases(cluster))
      if (reason !== undefined) gauge.set({ node, holder, reason }, 1);
  });
  registerGauge(registry, metricDefinitions.leaseHeldByAdministrator, (gauge) => {
    for (const { node, holder, reason } of reportableLeases(cluster))
      if (reason === undefined) gauge.set({ node, holder }, 1);
  });
  const times = [
    { definition: metricDefinitions.leaseAcquired, field: 'acquireTime' },
    { definition: metricDefinitions.leaseRenewed, field: 'renewTime' },
  ] as const;
  for (const { definition, field } of times)
    registerGauge(registry, definition, (gauge) => {
      for (const { node, holder, spec } of reportableLeases(cluster)) {
        const timeMs = timeOf(spec[field]);
        if (timeMs !== undefined) gauge.set({ node, holder }, timeMs / 1_000);
      }
    });
}

function countByState(cluster: Cluster): Record<string, number> {
  const { kube, nodes, leases } = cluster;
  const counts = { Missing: 0, Free: 0, Expired: 0, Held: 0, HeldByAdministrator: 0, Orphaned: 0 };
  const now = kube.now().getTime();
  for (const { metadata } of nodes.list())
    counts[leaseStateOf(nodeLeaseOf(cluster, metadata.name), now).kind] += 1;
  for (const { metadata } of leases.list()) if (nodes.get(metadata.name) === undefined) counts.Orphaned += 1;
  return counts;
}

interface ReportableLease {
  node: string;
  holder: string;
  /** Undefined for a Lease that an administrator holds. */
  reason: string | undefined;
  spec: Lease['spec'];
}

function reportableLeases({ kube, leases }: Cluster): ReportableLease[] {
  const now = kube.now().getTime();
  return leases.list().flatMap((lease): ReportableLease[] => {
    const node = lease.metadata.name;
    const { spec } = lease;
    const problem = leaseProblemOf(lease, now);
    if (problem !== undefined) return [{ node, holder: problem.holder, reason: problem.reason, spec }];
    const state = leaseStateOf(lease, now);
    return state.kind === 'HeldByAdministrator'
      ? [{ node, holder: state.holder, reason: undefined, spec }]
      : [];
  });
}
