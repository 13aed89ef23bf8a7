import type { Registry } from 'prom-client';
import type { Lease } from '../api/core.ts';
import { leaseStateOf, timeOf } from '../domain/lease.ts';
import { concernOf } from '../domain/leaseConcern.ts';
import { type Cluster, leaseOf } from '../kube/cluster.ts';
import { gaugesIn } from './gauges.ts';

/**
 * The maintenance Leases of nodes, as this worker sees them. Only what somebody should look after has series of its own by node,
 * so that a thousand nodes cost no more than one. Names and labels are what deploy/monitoring/alerts.yaml relies on.
 */
export function observeLeases(registry: Registry, cluster: Cluster): void {
  const { leases } = cluster;
  const gauge = gaugesIn(registry, 'node_maintenance_node_');
  gauge('leases', 'Maintenance Leases by state; Missing are nodes without one.', ['state'], (series) => {
    if (!leases.hasSynced) return;
    for (const [state, count] of Object.entries(countByState(cluster))) series.set({ state }, count);
  });
  gauge('leases_contact_timestamp_seconds', 'When the Leases were last seen; 0 for never.', [], (series) => {
    series.set((leases.lastContact?.getTime() ?? 0) / 1_000);
  });
  const abandoned = 'Leases whose holder does not do as KEP-1411 wants, by reason; 1 each.';
  gauge('lease_abandoned', abandoned, ['node', 'holder', 'reason'], (series) => {
    for (const { node, holder, reason } of remarkable(cluster))
      if (reason !== undefined) series.set({ node, holder, reason }, 1);
  });
  const administrators = 'Leases that an administrator holds, which never expire; 1 each.';
  gauge('lease_held_by_administrator', administrators, ['node', 'holder'], (series) => {
    for (const { node, holder, reason } of remarkable(cluster))
      if (reason === undefined) series.set({ node, holder }, 1);
  });
  const times = [
    { field: 'acquireTime', name: 'acquired', help: 'When the holder took a Lease' },
    { field: 'renewTime', name: 'renewed', help: 'When the holder last renewed a Lease' },
  ] as const;
  for (const { field, name, help } of times)
    gauge(
      `lease_${name}_timestamp_seconds`,
      `${help} that is abandoned, or held by an administrator, if it says so.`,
      ['node', 'holder'],
      (series) => {
        for (const { node, holder, spec } of remarkable(cluster)) {
          const time = timeOf(spec[field]);
          if (time !== undefined) series.set({ node, holder }, time / 1_000);
        }
      },
    );
}

function countByState(cluster: Cluster): Record<string, number> {
  const { kube, nodes, leases } = cluster;
  const counts = { Missing: 0, Free: 0, Expired: 0, Held: 0, HeldByAdministrator: 0, OfNoNode: 0 };
  const now = kube.now().getTime();
  for (const { metadata } of nodes.list())
    counts[leaseStateOf(leaseOf(cluster, metadata.name), now).kind] += 1;
  for (const { metadata } of leases.list()) if (nodes.get(metadata.name) === undefined) counts.OfNoNode += 1;
  return counts;
}

interface Remarkable {
  node: string;
  holder: string;
  /** Undefined for an administrator's hold. */
  reason: string | undefined;
  spec: Lease['spec'];
}

function remarkable({ kube, leases }: Cluster): Remarkable[] {
  const now = kube.now().getTime();
  return leases.list().flatMap((lease): Remarkable[] => {
    const node = lease.metadata.name;
    const { spec } = lease;
    const concern = concernOf(lease, now);
    if (concern !== undefined) return [{ node, holder: concern.holder, reason: concern.reason, spec }];
    const state = leaseStateOf(lease, now);
    return state.kind === 'HeldByAdministrator'
      ? [{ node, holder: state.holder, reason: undefined, spec }]
      : [];
  });
}
