import type { Lease, Node } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { compareNames, listed } from '../../domain/common/names.ts';
import { holdsNodes, stageOf } from '../../domain/common/stage.ts';
import { isHeldBy, otherHolderOf } from '../../domain/leases/lease.ts';
import { heldByAnother, leasesRejected, type NodeWithoutLease } from '../../domain/leases/nodeLease.ts';
import { renewalThreshold } from '../../domain/leases/renewal.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { nodeLeaseOf } from '../../kube/cluster.ts';
import { errorMessage, isKubeError, isMissingPermission } from '../../kube/errors.ts';
import { resources, versionOf } from '../../kube/resources.ts';
import type { InjectedDeps } from '../injectedDeps.ts';
import { RejectedWrites } from '../rejectedWrites.ts';

const concurrentLeases = 16;

/** The nodes of a maintenance, divided by the holder of their Leases. */
export type LeaseAcquisition =
  /** The maintenance has moved to another stage, or is gone. Nothing was written. */
  | { kind: 'Outdated' }
  | {
      kind: 'Acquired';
      held: ReadonlySet<string>;
      /** Sorted by name. */
      waiting: readonly NodeWithoutLease[];
      /** A request was needed to find out. */
      isNew: boolean;
    };

type LeaseDeps = Pick<InjectedDeps, 'cluster' | 'events' | 'leases' | 'resyncMs'>;

/** The node Leases of all maintenances of this process. Its state only saves requests and Events. */
export class NodeLeaseRegistry {
  readonly #deps: LeaseDeps;
  readonly #byMaintenance = new Map<string, MaintenanceLeases>();
  /** Node -> its Lease as this process wrote it, until the informer has it. */
  readonly #written = new Map<string, Lease>();
  /** The keys are names of nodes, and '' for all of them. */
  readonly #rejected: RejectedWrites;

  constructor(deps: LeaseDeps) {
    this.#deps = deps;
    this.#rejected = new RejectedWrites(deps.resyncMs);
    deps.cluster.leases.subscribe(({ type, object }) => {
      if (type === 'Deleted') this.#written.delete(object.metadata.name);
    });
  }

  of(uid: string): MaintenanceLeases {
    const known = this.#byMaintenance.get(uid) ?? new MaintenanceLeases(this, this.#deps);
    this.#byMaintenance.set(uid, known);
    return known;
  }

  forget(uid: string): void {
    this.#byMaintenance.delete(uid);
  }

  /** Returns true if the installation holds the Lease of the node now and for the given number of seconds. */
  isHeld(node: string, seconds = 0): boolean {
    return isHeldBy(this.#newest(node), this.#deps.leases.holder, this.#now() + seconds * 1_000);
  }

  /** Returns true if no known rejection or other holder prevents that the Lease is acquired. */
  shouldRetry(node: string): boolean {
    return this.#rejectionOf(node) === undefined && this.#foreignHolder(node) === undefined;
  }

  /**
   * Acquires or renews the Lease of one node. Resolves with the reason if the installation does not hold it afterwards. Rejects with a KubeError if the
   * apiserver did not say who holds it.
   */
  async ensureHeld(node: string): Promise<string | undefined> {
    const rejection = this.#rejectionOf(node);
    // A Lease that cannot be renewed is still held until it expires.
    if (rejection !== undefined) return this.isHeld(node) ? undefined : rejection;
    const foreign = this.#foreignHolder(node);
    return foreign === undefined ? this.#acquire(node) : heldByAnother(foreign);
  }

  async #acquire(node: string): Promise<string | undefined> {
    try {
      const acquisition = await this.#deps.leases.acquire(node);
      this.#rejected.acceptAll();
      if (acquisition.kind === 'Held') this.#written.set(node, acquisition.lease);
      else this.#written.delete(node);
      return acquisition.kind === 'Held' ? undefined : heldByAnother(acquisition.holder);
    } catch (error) {
      if (isKubeError(error, 'Unavailable', 'Throttled', 'Conflict', 'AlreadyExists')) throw error;
      this.#recordRejection(node, error);
      return this.isHeld(node) ? undefined : this.#rejectionOf(node);
    }
  }

  /** An error of the namespace applies to all nodes: one attempt and one Event are enough for all of them. A policy may reject a single Lease. */
  #recordRejection(node: string, error: unknown): void {
    const appliesToAll = isMissingPermission(error) || isKubeError(error, 'NotFound', 'NamespaceTerminating');
    const because = appliesToAll ? leasesRejected : `it cannot be written, ${errorMessage(error)}`;
    this.#rejected.reject(appliesToAll ? '' : node, because);
  }

  #rejectionOf(node: string): string | undefined {
    const key = this.#rejected.reasonOf('') === undefined ? node : '';
    return this.#rejected.isDue(key) ? undefined : this.#rejected.reasonOf(key);
  }

  /**
   * Returns the other client that holds the Lease, as the informer shows it. While that does not follow the apiserver, a Lease may have been released: the
   * apiserver is asked, because a drain does not wait for nodes that others hold.
   */
  #foreignHolder(node: string): string | undefined {
    if (!this.#deps.cluster.leases.isFollowing) return undefined;
    return otherHolderOf(this.#newest(node), this.#deps.leases.holder, this.#now());
  }

  #newest(node: string): Readonly<Lease> | undefined {
    const cached = nodeLeaseOf(this.#deps.cluster, node);
    const written = this.#written.get(node);
    if (written === undefined) return cached;
    if (cached === undefined || versionOf(cached) < versionOf(written)) return written;
    this.#written.delete(node);
    return cached;
  }

  #now(): number {
    return this.#deps.cluster.kube.now().getTime();
  }
}

/** The Leases of the nodes of one maintenance. */
export class MaintenanceLeases {
  readonly #registry: NodeLeaseRegistry;
  readonly #deps: LeaseDeps;
  /**
   * Nodes whose Lease was written for this maintenance. It is not enough that another maintenance of the installation holds it: that one
   * may be releasing it at this moment, which our write prevents.
   */
  readonly #joined = new Set<string>();
  /** Nodes that were released before the maintenance was complete. */
  readonly returned = new Set<string>();
  /** Why others cannot be released yet, by the name of the node. */
  readonly unreturned: RejectedWrites;
  /** Node -> the reason in its latest Event. */
  readonly #reported = new Map<string, string>();

  constructor(registry: NodeLeaseRegistry, deps: LeaseDeps) {
    this.#registry = registry;
    this.#deps = deps;
    this.unreturned = new RejectedWrites(deps.resyncMs);
  }

  /** Returns true if this maintenance may change the node at this moment. */
  isHeld(name: string): boolean {
    return this.#joined.has(name) && this.#registry.isHeld(name);
  }

  /** Acquires the Leases that no one else holds, and renews those of ours that are due. Every reconcile pass calls it. */
  async acquire(maintenance: NodeMaintenance, nodes: readonly Node[]): Promise<LeaseAcquisition> {
    const seconds = this.#deps.leases.leaseDurationSeconds * renewalThreshold;
    const isFresh = (name: string) => this.#joined.has(name) && this.#registry.isHeld(name, seconds);
    const names = nodes.map((node) => node.metadata.name);
    const held = new Set(names.filter(isFresh));
    const open = names.filter((name) => !held.has(name));
    const isNew = open.some((name) => this.#registry.shouldRetry(name));
    if (isNew && !(await this.isCurrent(maintenance))) return { kind: 'Outdated' };
    const waiting: NodeWithoutLease[] = [];
    await forEachBounded(concurrentLeases, open, async (name) => {
      const because = await this.#ensureHeld(name);
      if (because !== undefined) return void waiting.push({ name, because });
      held.add(name);
      // If another node fails, the next attempt does not begin with this one again.
      this.#joined.add(name);
    });
    waiting.sort((a, b) => compareNames(a.name, b.name));
    this.#report(maintenance, waiting);
    for (const name of this.#joined) if (!held.has(name)) this.#joined.delete(name);
    return { kind: 'Acquired', held, waiting, isNew };
  }

  /**
   * A Lease that could not be renewed is still held until it expires. If nobody knows who holds it, Temporal retries the activity until it is known: a drain
   * does not wait for nodes that are not held.
   */
  async #ensureHeld(name: string): Promise<string | undefined> {
    try {
      return await this.#registry.ensureHeld(name);
    } catch (error) {
      if (this.isHeld(name)) return undefined;
      throw error;
    }
  }

  /**
   * Asks the apiserver whether the maintenance is still in the stage of this copy. A process that was suspended knows only its informers;
   * no one would undo what it acquires or cordons for a stage that is over. `read`: the object, if the apiserver has just returned it.
   */
  async isCurrent(copy: NodeMaintenance, read?: NodeMaintenance): Promise<boolean> {
    const { name, uid } = copy.metadata;
    const newest = read ?? (await this.#deps.cluster.kube.get(resources.nodeMaintenances, { name }));
    if (newest === undefined || newest.metadata.uid !== uid) return false;
    const stages = [stageOf(copy), stageOf(newest)];
    return new Set(stages).size === 1 || stages.every(holdsNodes);
  }

  /** Emits one Event for each new reason, for Leases that were lost and for those that were never held. */
  #report(maintenance: NodeMaintenance, waiting: readonly NodeWithoutLease[]): void {
    const changed = waiting.filter(({ name, because }) => this.#reported.get(name) !== because);
    for (const isLost of [true, false]) {
      const affected = changed.filter(({ name }) => this.#joined.has(name) === isLost);
      for (const because of new Set(affected.map((node) => node.because))) {
        const names = affected.filter((node) => node.because === because).map(({ name }) => name);
        this.#deps.events.record(
          maintenance,
          isLost ? leaseLost(names, because) : leaseAwaited(names, because),
        );
      }
    }
    this.#reported.clear();
    for (const { name, because } of waiting) this.#reported.set(name, because);
  }
}

function leaseAwaited(names: readonly string[], because: string) {
  const message = `Waiting for the maintenance Lease of ${listed(names)}: ${because}. The node is not changed until the Lease is acquired.`;
  return { type: 'Normal', reason: 'WaitingForNodeLease', message } as const;
}

function leaseLost(names: readonly string[], because: string) {
  const message = `Lost the maintenance Lease of ${listed(names)}: ${because}. No new change is made to the node until the Lease is acquired again.`;
  return { type: 'Warning', reason: 'NodeLeaseLost', message } as const;
}
