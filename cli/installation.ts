import type { Lease } from '../api/core.ts';
import { COMPONENT_LABEL, ElectionLease } from '../api/names.ts';
import { leaderOf, type ProcessSummary, processOf } from '../domain/leases/processSummary.ts';
import type { Kube, RequestOptions } from '../kube/client.ts';
import { resources } from '../kube/resources.ts';

export interface Installation {
  readonly processes: readonly ProcessSummary[];
  /** Holder of the leader election Lease. */
  readonly leader: string | undefined;
  /** The leader election Lease, also after it has expired. */
  readonly election: Lease | undefined;
}

/** Reads the processes of an installation from their identity Leases. */
export async function installationOf(
  kube: Kube,
  namespace: string,
  request: RequestOptions = {},
): Promise<Installation> {
  const [{ items }, election] = await Promise.all([
    kube.list(resources.leases, { namespace, labelSelector: COMPONENT_LABEL, ...request }),
    kube.get(resources.leases, { namespace, name: ElectionLease.Controllers }, request),
  ]);
  const now = kube.now();
  const leader = leaderOf(election, now);
  const processes = items
    .map((lease) => processOf(lease, leader, now))
    .toSorted((a, b) => sortKeyOf(a).localeCompare(sortKeyOf(b)));
  return { processes, leader, election };
}

function sortKeyOf({ component, host, holder }: ProcessSummary): string {
  return [component, host, holder].join(' ');
}
