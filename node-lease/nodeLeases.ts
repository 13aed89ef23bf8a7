import type { Lease, Node } from '../api/core.ts';
import { NODE_LEASE_NAMESPACE } from '../api/names.ts';
import { objectName } from '../api/schema.ts';
import { type Claimant, claim, claimantProblem, isReleasable } from '../domain/lease.ts';
import type { Kube, RequestOptions } from '../kube/client.ts';
import { isKubeError } from '../kube/errors.ts';
import { microTime } from '../kube/leaseRecord.ts';
import { resources } from '../kube/resources.ts';

export type Acquisition =
  /** Ours until then, by the apiserver's clock, unless it is renewed. */
  | { readonly kind: 'Held'; readonly until: Date; readonly lease: Lease }
  /** `until` is missing for an administrator's hold, which does not expire. */
  | { readonly kind: 'HeldByAnother'; readonly holder: string; readonly until: Date | undefined };

/** It was ours no more when it was to be renewed; nobody else holds it. Nothing was changed. */
export interface Lost {
  readonly kind: 'Lost';
}

/** `NotOurs`: it was somebody else's meanwhile, or nobody's; nothing was changed. */
export type Release = 'Released' | 'NotOurs';

interface NodeLeasesOptions extends Claimant {
  readonly kube: Kube;
}

/** Writers that get in each other's way so often are a crowd, or one of them is broken. */
const attempts = 5;

/**
 * The maintenance Leases of nodes, as one holder sees them (KEP-1411 > Expected Client Behavior). Keeps nothing but what is
 * in the apiserver. Every method rejects with a KubeError, or with an Error of one line for a name that no node can have.
 */
export class NodeLeases {
  readonly #kube: Kube;
  readonly #claimant: Claimant;

  /** Throws an Error of one line for a holder or a duration that KEP-1411 does not allow. */
  constructor({ kube, holder, leaseDurationSeconds }: NodeLeasesOptions) {
    this.#kube = kube;
    this.#claimant = { holder, leaseDurationSeconds };
    const problem = claimantProblem(this.#claimant);
    if (problem !== undefined) throw new Error(problem);
  }

  get holder(): string {
    return this.#claimant.holder;
  }

  get leaseDurationSeconds(): number {
    return this.#claimant.leaseDurationSeconds;
  }

  /** Takes the Lease if nobody else holds it, and renews it if we do; one that is missing is created for its node. */
  acquire(node: string, options: RequestOptions = {}): Promise<Acquisition> {
    return this.#untilWritten(node, options, (lease) => this.#claim(node, lease, options));
  }

  /** Renews what is ours; what is not ours any more is left alone. */
  renew(node: string, options: RequestOptions = {}): Promise<Acquisition | Lost> {
    return this.#untilWritten<Acquisition | Lost>(node, options, async (lease) => {
      const { kind } = claim(lease, this.#claimant, this.#kube.now().getTime());
      return kind === 'Acquire' ? { kind: 'Lost' } : this.#claim(node, lease, options);
    });
  }

  /**
   * "If the lease is still held, set leaseDurationSeconds to 0" (KEP-1411 > Release): the apiserver stores no duration below 1,
   * so it is removed, and the holder with it, so that nobody has to wait for the clock drift.
   */
  release(node: string, options: RequestOptions = {}): Promise<Release> {
    return this.#untilWritten<Release>(node, options, async (lease) => {
      if (lease === undefined || !isReleasable(lease, this.holder)) return 'NotOurs';
      await this.#writeReleased(lease, options);
      return 'Released';
    });
  }

  /** Releases it only if nobody has written it since; a holder of several processes needs to know that. */
  async releaseAsSeen(lease: Lease, options: RequestOptions = {}): Promise<'Released' | 'Changed'> {
    try {
      await this.#writeReleased(lease, options);
      return 'Released';
    } catch (error) {
      if (isKubeError(error, 'Conflict', 'NotFound')) return 'Changed';
      throw error;
    }
  }

  #writeReleased(lease: Lease, options: RequestOptions): Promise<Lease> {
    const renewTime = microTime(this.#kube.now());
    return this.#replace(lease, { holderIdentity: '', leaseDurationSeconds: null, renewTime }, options);
  }

  /** Reads the Lease and decides by it, again when another writer was first. */
  async #untilWritten<T>(
    node: string,
    options: RequestOptions,
    act: (lease: Lease | undefined) => Promise<T>,
  ): Promise<T> {
    const problem = nodeNameProblem(node);
    if (problem !== undefined) throw new Error(problem);
    for (let attempt = 1; ; attempt++) {
      const lease = await this.#kube.get(resources.leases, keyOf(node), options);
      try {
        return await act(lease);
      } catch (error) {
        const isOvertaken = isKubeError(error, 'Conflict', 'AlreadyExists');
        // A Lease that was deleted between read and write is missing in the next round.
        const isDeleted = lease !== undefined && isKubeError(error, 'NotFound');
        if (attempt === attempts || !(isOvertaken || isDeleted)) throw error;
      }
    }
  }

  async #claim(node: string, lease: Lease | undefined, options: RequestOptions): Promise<Acquisition> {
    const claimed = claim(lease, this.#claimant, this.#kube.now().getTime());
    if (claimed.kind === 'HeldByAnother') {
      const { kind, holder, until } = claimed;
      return { kind, holder, until: until === undefined ? undefined : new Date(until) };
    }
    const { acquireTime, renewTime, ...term } = claimed.term;
    const spec = { ...term, acquireTime: microTime(acquireTime), renewTime: microTime(renewTime) };
    const written =
      lease === undefined
        ? await this.#create(node, spec, options)
        : await this.#replace(lease, spec, options);
    const until = new Date(renewTime.getTime() + term.leaseDurationSeconds * 1_000);
    return { kind: 'Held', until, lease: written };
  }

  /** Exactly the version that was read: another writer in between rejects as Conflict. */
  #replace({ metadata }: Lease, spec: object, options: RequestOptions): Promise<Lease> {
    const { name, resourceVersion } = metadata;
    const patch = { metadata: { resourceVersion }, spec };
    return this.#kube.mergePatch(resources.leases, keyOf(name), patch, options);
  }

  async #create(node: string, spec: Lease['spec'], options: RequestOptions): Promise<Lease> {
    const owner = await this.#kube.get(resources.nodes, { name: node }, options);
    if (owner === undefined)
      throw new Error(`node: there is no node "${node}"; kubectl get nodes lists them`);
    return this.#kube.create(resources.leases, { ...newLease(owner), spec }, options);
  }
}

/** "The ownerRef will be the corresponding node so it is removed when the node is deleted" (KEP-1411 > Proposal). */
export function newLease({ metadata: { name, uid = '' } }: Readonly<Node>): Lease {
  const ownerReferences = [{ apiVersion: 'v1', kind: 'Node', name, uid }];
  return { metadata: { ...keyOf(name), ownerReferences }, spec: {} };
}

function keyOf(node: string): { namespace: string; name: string } {
  return { namespace: NODE_LEASE_NAMESPACE, name: node };
}

function nodeNameProblem(node: string): string | undefined {
  const parsed = objectName().safeParse(node);
  return parsed.success ? undefined : `node: ${parsed.error.issues[0]?.message} (got "${node}")`;
}
