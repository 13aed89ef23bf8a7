import type { MutatingPolicies } from '../../domain/common/mutations.ts';
import { mutationsCondition } from '../../domain/maintenance/mutationsInApiserver.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import type { Log } from '../../kube/log.ts';
import { WorkQueue } from '../../kube/workQueue.ts';
import { repeat } from '../repeat.ts';
import { publishCondition } from './conditions.ts';

interface Deps {
  cluster: FencedCluster;
  /** Rejects with a KubeError. */
  readPolicies: () => Promise<MutatingPolicies>;
  log: Log;
  /** How often the policies are read; 10 min unless given. */
  everyMs?: number;
}

/** An upgrade of the control plane, or of the installation, is rare. */
const defaultEveryMs = 600_000;
const workers = 2;

/** Reports on each NodeMaintenance that webhooks replace MutatingAdmissionPolicies, and what is weaker then. */
export async function runMutationsController(
  { cluster, readPolicies, log, everyMs = defaultEveryMs }: Deps,
  signal: AbortSignal,
): Promise<void> {
  const queue = new WorkQueue('mutations');
  let policies: MutatingPolicies | undefined;
  const reconcile = async (name: string) => {
    const maintenance = cluster.maintenances.get(name);
    if (maintenance === undefined || policies === undefined) return undefined;
    const facts = mutationsCondition(maintenance, policies);
    if (facts !== undefined) await publishCondition(cluster.kube, maintenance, facts);
    return undefined;
  };
  const unsubscribe = cluster.maintenances.subscribe(({ type, object }) => {
    const isConcerned = policies !== undefined && mutationsCondition(object, policies) !== undefined;
    if (type !== 'Deleted' && isConcerned) queue.add(object.metadata.name);
  });
  const read = async () => {
    policies = await readPolicies();
    for (const { metadata } of cluster.maintenances.list()) queue.add(metadata.name);
  };
  try {
    await Promise.all([
      repeat(read, { everyMs, failure: 'MutatingAdmissionPolicies could not be read', log, signal }),
      queue.run({
        workers,
        reconcile,
        fieldsOf: (name) => ({ maintenance: name }),
        signal,
        log,
        observer: cluster.queues,
      }),
    ]);
  } finally {
    unsubscribe();
  }
}
