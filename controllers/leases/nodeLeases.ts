import { applyInstallation } from '../../domain/common/applyInstallation.ts';
import type { Lease, Node } from '../../api/core.ts';
import { FIELD_MANAGER, NODE_LEASE_NAMESPACE } from '../../api/names.ts';
import { type FencedCluster, nodeLeaseOf } from '../../kube/cluster.ts';
import { errorMessage, isKubeError } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';
import { newLease } from '../../node-lease/leaseObjects.ts';

interface Deps {
  cluster: FencedCluster;
  log: Log;
  timing?: NodeLeaseTiming;
}

interface NodeLeaseTiming {
  /** The minimum retry interval after a rejection. */
  readonly rejectionRetryMs: number;
  /** The retry interval per node, which limits the requests of all nodes together. */
  readonly rejectionRetryPerNodeMs: number;
  /** The time after which a failing watch of Leases is logged. */
  readonly syncWarningMs: number;
}

/** One request per second, however many nodes are rejected. */
const defaultTiming: NodeLeaseTiming = {
  rejectionRetryMs: 10_000,
  rejectionRetryPerNodeMs: 1_000,
  syncWarningMs: 5_000,
};

const leaseWorkers = 4;
/** The key of the namespace in the queue; no node has an empty name. */
const namespaceKey = '';
const terminatingRetryMs = 1_000;
const remedy = `apply the worker's RBAC rules again: ${applyInstallation}`;

/**
 * Manages one maintenance Lease per node, as Kubernetes' NodeLifecycleController does in KEP-1411 (> Proposal). Contract:
 *
 * 1. The namespace is created when it is missing, and recreated when it is deleted.
 * 2. A node without a Lease gets an empty one that the Node owns: the garbage collector deletes it with the node.
 * 3. A Lease that a user created without an owner gets its node as the owner. Its spec stays unchanged.
 * 4. A Lease of a previous Node object is left to the garbage collector, and a Lease without a node to the user who created it.
 * 5. A rejection is logged once, with the remedy, and retried slowly.
 */
export async function runNodeLeasesController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { cluster, log } = deps;
  const { nodes, leases } = cluster;
  if (!(await leasesSynced(deps, signal))) return;
  const queue = new WorkQueue('node-leases');
  const reconciler = new NodeLeaseReconciler(deps, queue);
  const unsubscribe = [
    nodes.subscribe(({ type, object }) => {
      if (type !== 'Updated') queue.add(object.metadata.name);
    }),
    leases.subscribe(({ object }) => queue.add(object.metadata.name)),
  ];
  queue.add(namespaceKey);
  const reconcile = (key: string) =>
    key === namespaceKey ? reconciler.reconcileNamespace() : reconciler.reconcileLease(key);
  try {
    await queue.run({ workers: leaseWorkers, reconcile, signal, log, observer: cluster.queues });
  } finally {
    for (const stop of unsubscribe) stop();
  }
}

/** Waits for the informer: without it every Lease would seem to be missing. Resolves with false if the signal aborts first. */
async function leasesSynced(
  { cluster: { leases }, log, timing = defaultTiming }: Deps,
  signal: AbortSignal,
): Promise<boolean> {
  const warning = setTimeout(() => {
    log.warn('Node Leases could not be listed', { error: leases.lastError, remedy });
  }, timing.syncWarningMs);
  await leases.synced(signal).catch(() => undefined);
  clearTimeout(warning);
  return !signal.aborted;
}

class NodeLeaseReconciler {
  readonly #cluster: FencedCluster;
  readonly #log: Log;
  readonly #queue: WorkQueue;
  readonly #timing: NodeLeaseTiming;
  /** Names of the Leases without a node that were logged. */
  readonly #loggedOrphans = new Set<string>();
  #isRejected = false;

  constructor({ cluster, log, timing = defaultTiming }: Deps, queue: WorkQueue) {
    this.#cluster = cluster;
    this.#log = log;
    this.#timing = timing;
    this.#queue = queue;
  }

  async reconcileLease(name: string): Promise<Requeue | void> {
    const node = this.#cluster.nodes.get(name);
    const lease = nodeLeaseOf(this.#cluster, name);
    if (node === undefined) return this.#logOrphan(name, lease);
    this.#loggedOrphans.delete(name);
    if (lease !== undefined && hasNodeOwner(lease)) return undefined;
    try {
      if (lease === undefined) await this.#create(node);
      else await this.#adopt(lease, node);
      this.#recordSuccess();
      return undefined;
    } catch (error) {
      // The watch event of the other write reconciles the Lease again.
      if (isKubeError(error, 'AlreadyExists')) return undefined;
      // Without the namespace its Roles are missing too: the apiserver answers NotFound or Forbidden.
      if (!isKubeError(error, 'NotFound', 'NamespaceTerminating', 'Forbidden')) throw error;
      if (isKubeError(error, 'Forbidden')) this.#recordRejection(error);
      this.#queue.add(namespaceKey);
      const { rejectionRetryMs, rejectionRetryPerNodeMs } = this.#timing;
      const retryMs = Math.max(rejectionRetryMs, rejectionRetryPerNodeMs * this.#nodesWithoutLease().length);
      return { requeueAfterMs: retryMs * (0.5 + Math.random()) };
    }
  }

  async reconcileNamespace(): Promise<Requeue | void> {
    const { kube } = this.#cluster;
    const metadata = {
      name: NODE_LEASE_NAMESPACE,
      labels: { 'app.kubernetes.io/part-of': 'node-maintenance' },
    };
    try {
      const found = await kube.get(resources.namespaces, { name: NODE_LEASE_NAMESPACE });
      if (found?.metadata.deletionTimestamp !== undefined) return { requeueAfterMs: terminatingRetryMs };
      if (found !== undefined) return undefined;
      await kube.create(resources.namespaces, { metadata }, { fieldManager: FIELD_MANAGER });
      this.#log.info('Namespace of node Leases was created', { namespace: NODE_LEASE_NAMESPACE });
      this.#enqueueNodesWithoutLease();
      return undefined;
    } catch (error) {
      if (isKubeError(error, 'AlreadyExists')) return { requeueAfterMs: terminatingRetryMs };
      if (!isKubeError(error, 'Forbidden')) throw error;
      this.#recordRejection(error);
      return { requeueAfterMs: this.#timing.rejectionRetryMs };
    }
  }

  async #create(node: Node): Promise<void> {
    await this.#cluster.kube.create(resources.leases, newLease(node), { fieldManager: FIELD_MANAGER });
  }

  /** Adds the node as an owner. The resourceVersion keeps a concurrently added owner from being lost. */
  async #adopt({ metadata }: Lease, node: Node): Promise<void> {
    const { name, resourceVersion, ownerReferences: others = [] } = metadata;
    const ownerReferences = [...others, ...(newLease(node).metadata.ownerReferences ?? [])];
    const patch = { metadata: { resourceVersion, ownerReferences } };
    const key = { namespace: NODE_LEASE_NAMESPACE, name };
    await this.#cluster.kube.mergePatch(resources.leases, key, patch, { fieldManager: FIELD_MANAGER });
    this.#log.info('Node was set as the owner of a Lease that a user created', { node: name });
  }

  #logOrphan(name: string, lease: Lease | undefined): void {
    if (lease === undefined) this.#loggedOrphans.delete(name);
    if (lease === undefined || hasNodeOwner(lease) || this.#loggedOrphans.has(name)) return;
    this.#loggedOrphans.add(name);
    this.#log.warn('Lease without a node was ignored', {
      lease: name,
      remedy: `give it the name of an existing node, or kubectl delete lease -n ${NODE_LEASE_NAMESPACE} ${name}`,
    });
  }

  #recordRejection(error: unknown): void {
    if (this.#isRejected) return;
    this.#isRejected = true;
    this.#log.warn('Node Leases could not be created', { error: errorMessage(error), remedy });
  }

  #recordSuccess(): void {
    if (!this.#isRejected) return;
    this.#isRejected = false;
    this.#log.info('Node Leases could be created again');
    this.#enqueueNodesWithoutLease();
  }

  #enqueueNodesWithoutLease(): void {
    for (const { metadata } of this.#nodesWithoutLease()) this.#queue.add(metadata.name);
  }

  #nodesWithoutLease(): readonly Node[] {
    return this.#cluster.nodes
      .list()
      .filter(({ metadata }) => nodeLeaseOf(this.#cluster, metadata.name) === undefined);
  }
}

/** Reports whether a Node is among the owners, including a previous Node object. */
function hasNodeOwner({ metadata }: Lease): boolean {
  return (
    metadata.ownerReferences?.some(({ apiVersion, kind }) => apiVersion === 'v1' && kind === 'Node') === true
  );
}
