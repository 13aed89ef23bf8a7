import { NODE_LEASE_NAMESPACE } from '../../api/names.ts';
import { type LeaseProblem, leaseProblemChangesAt, leaseProblemOf } from '../../domain/leases/abandoned.ts';
import { type FencedCluster, nodeLeaseOf } from '../../kube/cluster.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { Log } from '../../kube/log.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';

interface Deps {
  cluster: FencedCluster;
  events: EventRecorder;
  log: Log;
}

/** Timers cannot exceed 24 days, and a Lease may expire in the year 9999. */
const maxRequeueMs = 3_600_000;

/**
 * Reports every Lease whose holder does not comply with KEP-1411 by the Event `NodeLeaseAbandoned` on its node: once per problem and
 * leader.
 */
export async function runAbandonedLeasesController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { cluster, log } = deps;
  const queue = new WorkQueue('abandoned-leases');
  const reconciler = new AbandonedLeaseReconciler(deps);
  const unsubscribe = cluster.leases.subscribe(({ object }) => queue.add(object.metadata.name));
  const reconcile = (name: string) => Promise.resolve(reconciler.reconcile(name));
  try {
    await queue.run({ workers: 1, reconcile, signal, log, observer: cluster.queues });
  } finally {
    unsubscribe();
  }
}

class AbandonedLeaseReconciler {
  readonly #deps: Deps;
  /** Name of the Lease -> the problem that was reported last. */
  readonly #reported = new Map<string, string>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  reconcile(name: string): Requeue | undefined {
    const { cluster } = this.#deps;
    const lease = nodeLeaseOf(cluster, name);
    const now = cluster.kube.now().getTime();
    const problem = leaseProblemOf(lease, now);
    if (lease === undefined || problem === undefined) this.#reported.delete(name);
    else this.#report(name, lease.metadata.uid ?? '', problem);
    const changesAt = lease === undefined ? undefined : leaseProblemChangesAt(lease, now);
    return changesAt === undefined ? undefined : { requeueAfterMs: Math.min(changesAt - now, maxRequeueMs) };
  }

  #report(name: string, leaseUid: string, { reason, holder, message }: LeaseProblem): void {
    const { cluster, events, log } = this.#deps;
    const node = cluster.nodes.get(name);
    const problem = `${leaseUid} ${message}`;
    if (node === undefined || this.#reported.get(name) === problem) return;
    this.#reported.set(name, problem);
    log.warn('Node Lease was abandoned', { node: name, holder, reason });
    const regarding = { apiVersion: 'v1', kind: 'Node', name, uid: node.metadata.uid };
    const related = {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      namespace: NODE_LEASE_NAMESPACE,
      name,
      uid: leaseUid,
    };
    events.record(regarding, { type: 'Warning', reason: 'NodeLeaseAbandoned', message, related });
  }
}
