import { NODE_LEASE_NAMESPACE } from '../api/names.ts';
import { concernChangesAt, concernOf, type LeaseConcern } from '../domain/leaseConcern.ts';
import { type FencedCluster, leaseOf } from '../kube/cluster.ts';
import type { EventRecorder } from '../kube/events.ts';
import type { Log } from '../kube/log.ts';
import { type Requeue, WorkQueue } from '../kube/workQueue.ts';

interface Deps {
  cluster: FencedCluster;
  events: EventRecorder;
  log: Log;
}

/** Timers do not reach further than 24 days, and a Lease may say the year 9999. Milliseconds. */
const longestRest = 3_600_000;

/**
 * Tells of every Lease whose holder does not do as KEP-1411 wants, by one Event on its node: `NodeLeaseAbandoned`. It is told
 * again when it happens again, or when another leader takes over.
 */
export async function runAbandonedLeasesController(
  { cluster, events, log }: Deps,
  signal: AbortSignal,
): Promise<void> {
  const queue = new WorkQueue();
  const teller = new Teller({ cluster, events, log });
  const unsubscribe = cluster.leases.subscribe(({ object }) => queue.add(object.metadata.name));
  try {
    await queue.run({ workers: 1, reconcile: (name) => Promise.resolve(teller.look(name)), signal, log });
  } finally {
    unsubscribe();
  }
}

class Teller {
  readonly #deps: Deps;
  /** By name of the Lease, the concern that was told. */
  readonly #told = new Map<string, string>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  look(name: string): Requeue | undefined {
    const { cluster } = this.#deps;
    const lease = leaseOf(cluster, name);
    const now = cluster.kube.now().getTime();
    const concern = concernOf(lease, now);
    if (lease === undefined || concern === undefined) this.#told.delete(name);
    else this.#tell(name, lease.metadata.uid ?? '', concern);
    const changesAt = lease === undefined ? undefined : concernChangesAt(lease, now);
    return changesAt === undefined ? undefined : { requeueAfterMs: Math.min(changesAt - now, longestRest) };
  }

  #tell(name: string, lease: string, { reason, holder, message }: LeaseConcern): void {
    const { cluster, events, log } = this.#deps;
    const node = cluster.nodes.get(name);
    const concern = `${lease} ${message}`;
    if (node === undefined || this.#told.get(name) === concern) return;
    this.#told.set(name, concern);
    log.warn('Lease of a node was abandoned', { node: name, holder, reason });
    const about = { apiVersion: 'v1', kind: 'Node', name, uid: node.metadata.uid };
    const related = {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      namespace: NODE_LEASE_NAMESPACE,
      name,
      uid: lease,
    };
    events.record(about, { type: 'Warning', reason: 'NodeLeaseAbandoned', message, related });
  }
}
