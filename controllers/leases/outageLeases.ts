import { isRenewalDue } from '../../domain/leases/lease.ts';
import { heldNodes } from '../../domain/maintenance/heldNodes.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { type FencedCluster, nodeLeaseOf } from '../../kube/cluster.ts';
import type { Log } from '../../kube/log.ts';
import type { NodeLeases } from '../../node-lease/nodeLeases.ts';
import { repeat } from '../repeat.ts';
import type { TemporalAvailability } from '../temporalAvailability.ts';

interface Deps {
  cluster: FencedCluster;
  /** Writes through the fenced client. */
  leases: NodeLeases;
  availability: TemporalAvailability;
  log: Log;
}

const concurrentRenewals = 8;
/** Part of the Lease duration between two checks. A Lease is renewed with at least a third of its duration left. */
const checksPerDuration = 6;
/** A check of Leases that are not due costs no request, and renewals that have failed are tried again by the next one. */
const maxCheckMs = 5_000;

/**
 * Renews the maintenance Leases of cordoned nodes during an outage of Temporal, in which no worker starts the activities that renew them
 * otherwise: nobody else may take a node whose maintenance only waits. Acquires no Lease, and renews none that was released.
 */
export async function runOutageLeasesController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { availability, leases, log } = deps;
  const everyMs = Math.min((leases.leaseDurationSeconds * 1_000) / checksPerDuration, maxCheckMs);
  const pass = async () => {
    if (availability.outage() !== undefined) await renewDueLeases(deps, signal);
  };
  await repeat(pass, { everyMs, failure: 'Node Leases could not be renewed, retrying', log, signal });
}

/** Renews each Lease on its own. Rejects with the error of one of those that could not be renewed. */
async function renewDueLeases({ cluster, leases, log }: Deps, signal: AbortSignal): Promise<void> {
  const now = cluster.kube.now().getTime();
  const due = [...heldNodes(cluster.maintenances.list())].filter((node) =>
    isRenewalDue(nodeLeaseOf(cluster, node), leases.holder, now),
  );
  const errors: unknown[] = [];
  await forEachBounded(concurrentRenewals, due, async (node) => {
    try {
      const { kind } = await leases.renew(node, { signal });
      if (kind !== 'Held') log.warn('Node Lease was lost during an outage of Temporal', { node });
    } catch (error) {
      errors.push(error);
    }
  });
  if (errors.length > 0) throw errors[0];
}
