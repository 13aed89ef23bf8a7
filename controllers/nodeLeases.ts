import type { Lease, Node } from '../api/core.ts';
import { FIELD_MANAGER, NODE_LEASE_NAMESPACE } from '../api/names.ts';
import { type FencedCluster, leaseOf } from '../kube/cluster.ts';
import { isKubeError, wordsOf } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { type Requeue, WorkQueue } from '../kube/workQueue.ts';
import { newLease } from '../node-lease/leaseObjects.ts';

interface Deps {
  cluster: FencedCluster;
  log: Log;
}

const leasesAtOnce = 4;
/** The turn of the namespace in the queue; no node is called so. */
const namespaceTurn = '';
/** Milliseconds. */
const lookAtTerminatingEvery = 1_000;
/** What was refused is tried again so much later at the earliest, and all nodes together once a second. Milliseconds. */
const refusalRest = 10_000;
const refusalRestPerNode = 1_000;
/** Until Leases that cannot be seen are told. Milliseconds. */
const sightPatience = 5_000;
const remedy =
  'apply the rights of the worker anew: npm start -- --install, or kubectl apply --server-side -k deploy';

/**
 * Keeps one maintenance Lease for each node, in the place of Kubernetes' NodeLifecycleController (KEP-1411 > Proposal). Contract:
 *
 * 1. The namespace is created when it is missing, and anew when somebody deleted it.
 * 2. A node without a Lease gets an empty one, of which it is the owner: the garbage collection removes it with the node.
 * 3. A Lease that somebody wrote by hand, without an owner, gets its node for one. What it says is left alone.
 * 4. A Lease of a former node is left to the garbage collection, and one of no node to whoever wrote it.
 * 5. What is refused is told once, with the remedy, and tried again without haste.
 */
export async function runNodeLeasesController({ cluster, log }: Deps, signal: AbortSignal): Promise<void> {
  const { nodes, leases } = cluster;
  if (!(await areSeen(cluster, log, signal))) return;
  const queue = new WorkQueue();
  const keeper = new Keeper({ cluster, log }, queue);
  const unsubscribe = [
    nodes.subscribe(({ type, object }) => {
      if (type !== 'Updated') queue.add(object.metadata.name);
    }),
    leases.subscribe(({ object }) => queue.add(object.metadata.name)),
  ];
  queue.add(namespaceTurn);
  try {
    const reconcile = (key: string) => (key === namespaceTurn ? keeper.keepNamespace() : keeper.keep(key));
    await queue.run({ workers: leasesAtOnce, reconcile, signal, log });
  } finally {
    for (const stop of unsubscribe) stop();
  }
}

/** Resolves with false when the signal aborted before. Without sight of them every Lease would seem to be missing. */
async function areSeen({ leases }: FencedCluster, log: Log, signal: AbortSignal): Promise<boolean> {
  const patience = setTimeout(() => {
    log.warn('Leases of nodes cannot be seen', { error: leases.lostBecause, remedy });
  }, sightPatience);
  await leases.synced(signal).catch(() => undefined);
  clearTimeout(patience);
  return !signal.aborted;
}

class Keeper {
  readonly #cluster: FencedCluster;
  readonly #log: Log;
  readonly #queue: WorkQueue;
  /** Leases of no node that were told. */
  readonly #strangers = new Set<string>();
  #isRefused = false;

  constructor({ cluster, log }: Deps, queue: WorkQueue) {
    this.#cluster = cluster;
    this.#log = log;
    this.#queue = queue;
  }

  /** Of one node. */
  async keep(name: string): Promise<Requeue | void> {
    const node = this.#cluster.nodes.get(name);
    const lease = leaseOf(this.#cluster, name);
    if (node === undefined) return this.#tellStranger(name, lease);
    this.#strangers.delete(name);
    if (lease !== undefined && hasNode(lease)) return undefined;
    try {
      if (lease === undefined) await this.#make(node);
      else await this.#adopt(lease, node);
      this.#allowed();
      return undefined;
    } catch (error) {
      // The informer will show what was done meanwhile.
      if (isKubeError(error, 'AlreadyExists', 'Conflict')) return undefined;
      // Without the namespace the rights in it are gone, too: it is not found, or forbidden.
      if (!isKubeError(error, 'NotFound', 'NamespaceTerminating', 'Forbidden')) throw error;
      if (isKubeError(error, 'Forbidden')) this.#refused(error);
      this.#queue.add(namespaceTurn);
      const rest = Math.max(refusalRest, refusalRestPerNode * this.#withoutLease().length);
      return { requeueAfterMs: rest * (0.5 + Math.random()) };
    }
  }

  async keepNamespace(): Promise<Requeue | void> {
    const { kube } = this.#cluster;
    const metadata = {
      name: NODE_LEASE_NAMESPACE,
      labels: { 'app.kubernetes.io/part-of': 'node-maintenance' },
    };
    try {
      const found = await kube.get(resources.namespaces, { name: NODE_LEASE_NAMESPACE });
      if (found?.metadata.deletionTimestamp !== undefined) return { requeueAfterMs: lookAtTerminatingEvery };
      if (found !== undefined) return undefined;
      await kube.create(resources.namespaces, { metadata }, { fieldManager: FIELD_MANAGER });
      this.#log.info('Namespace of the Leases of nodes was created', { namespace: NODE_LEASE_NAMESPACE });
      this.#addWithoutLease();
      return undefined;
    } catch (error) {
      if (isKubeError(error, 'AlreadyExists')) return { requeueAfterMs: lookAtTerminatingEvery };
      if (!isKubeError(error, 'Forbidden')) throw error;
      this.#refused(error);
      return { requeueAfterMs: refusalRest };
    }
  }

  async #make(node: Node): Promise<void> {
    await this.#cluster.kube.create(resources.leases, newLease(node), { fieldManager: FIELD_MANAGER });
  }

  /** This very version, so that an owner that it was given meanwhile is not lost. */
  async #adopt({ metadata }: Lease, node: Node): Promise<void> {
    const { name, resourceVersion, ownerReferences: others = [] } = metadata;
    const ownerReferences = [...others, ...(newLease(node).metadata.ownerReferences ?? [])];
    const patch = { metadata: { resourceVersion, ownerReferences } };
    const key = { namespace: NODE_LEASE_NAMESPACE, name };
    await this.#cluster.kube.mergePatch(resources.leases, key, patch, { fieldManager: FIELD_MANAGER });
    this.#log.info('Lease that was written by hand got its node as the owner', { node: name });
  }

  #tellStranger(name: string, lease: Lease | undefined): void {
    if (lease === undefined) this.#strangers.delete(name);
    if (lease === undefined || hasNode(lease) || this.#strangers.has(name)) return;
    this.#strangers.add(name);
    this.#log.warn('Lease of no node was left alone', {
      lease: name,
      remedy: `name it as the node that it is meant for, or kubectl delete lease -n ${NODE_LEASE_NAMESPACE} ${name}`,
    });
  }

  #refused(error: unknown): void {
    if (this.#isRefused) return;
    this.#isRefused = true;
    this.#log.warn('Leases of nodes cannot be kept', { error: wordsOf(error), remedy });
  }

  #allowed(): void {
    if (!this.#isRefused) return;
    this.#isRefused = false;
    this.#log.info('Leases of nodes are kept again');
    this.#addWithoutLease();
  }

  #addWithoutLease(): void {
    for (const { metadata } of this.#withoutLease()) this.#queue.add(metadata.name);
  }

  #withoutLease(): readonly Node[] {
    return this.#cluster.nodes
      .list()
      .filter(({ metadata }) => leaseOf(this.#cluster, metadata.name) === undefined);
  }
}

/** Whether a node is among its owners, be it a former one. */
function hasNode({ metadata }: Lease): boolean {
  return (
    metadata.ownerReferences?.some(({ apiVersion, kind }) => apiVersion === 'v1' && kind === 'Node') === true
  );
}
