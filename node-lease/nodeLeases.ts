import type { Lease } from '../api/core.ts';
import { type Claimant, claim, claimantProblem, isReleasable } from '../domain/lease.ts';
import type { Kube, RequestOptions } from '../kube/client.ts';
import { isKubeError } from '../kube/errors.ts';
import { microTime } from '../kube/leaseRecord.ts';
import { LeaseObjects } from './leaseObjects.ts';

export type Acquisition =
  /** Ours until then, by the apiserver's clock, unless it is renewed. */
  | { readonly kind: 'Held'; readonly until: Date; readonly lease: Lease }
  /** `until` is missing for an administrator's hold, which does not expire. */
  | { readonly kind: 'HeldByAnother'; readonly holder: string; readonly until: Date | undefined };

/** It was ours no more when it was to be renewed; nobody else holds it. Nothing was changed. */
export interface Lost {
  readonly kind: 'Lost';
  /** As it was then; undefined when it was missing. */
  readonly lease: Lease | undefined;
}

/** `NotOurs`: it was somebody else's meanwhile, or nobody's; nothing was changed. */
export type Release = 'Released' | 'NotOurs';

interface NodeLeasesOptions extends Claimant {
  readonly kube: Kube;
}

/**
 * The maintenance Leases of nodes, as one holder sees them (KEP-1411 > Expected Client Behavior). Keeps nothing but what is
 * in the apiserver. Every method rejects with a KubeError, or with an Error of one line for a name that no node can have.
 */
export class NodeLeases {
  readonly #kube: Kube;
  readonly #objects: LeaseObjects;
  readonly #claimant: Claimant;

  /** Throws an Error of one line for a holder or a duration that KEP-1411 does not allow. */
  constructor({ kube, holder, leaseDurationSeconds }: NodeLeasesOptions) {
    this.#kube = kube;
    this.#objects = new LeaseObjects(kube);
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
    return this.#objects.decide(node, options, (lease) => this.#claim(node, lease, options));
  }

  /** Renews what is ours; what is not ours any more is left alone. */
  renew(node: string, options: RequestOptions = {}): Promise<Acquisition | Lost> {
    return this.#objects.decide<Acquisition | Lost>(node, options, async (lease) => {
      const { kind } = claim(lease, this.#claimant, this.#kube.now().getTime());
      return kind === 'Acquire' ? { kind: 'Lost', lease } : this.#claim(node, lease, options);
    });
  }

  /**
   * "If the lease is still held, set leaseDurationSeconds to 0" (KEP-1411 > Release): the apiserver stores no duration below 1,
   * so it is removed, and the holder with it, so that nobody has to wait for the clock drift.
   */
  release(node: string, options: RequestOptions = {}): Promise<Release> {
    return this.#objects.decide<Release>(node, options, async (lease) => {
      if (lease === undefined || !isReleasable(lease, this.holder)) return 'NotOurs';
      await this.#objects.replace(lease, this.#released(), options);
      return 'Released';
    });
  }

  /** Releases it only if nobody has written it since; a holder of several processes needs to know that. */
  async releaseAsSeen(lease: Lease, options: RequestOptions = {}): Promise<'Released' | 'Changed'> {
    try {
      await this.#objects.replaceVersion(lease, this.#released(), options);
      return 'Released';
    } catch (error) {
      if (isKubeError(error, 'Conflict', 'NotFound')) return 'Changed';
      throw error;
    }
  }

  #released() {
    return { holderIdentity: '', leaseDurationSeconds: null, renewTime: microTime(this.#kube.now()) };
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
        ? await this.#objects.create(node, spec, options)
        : await this.#objects.replace(lease, spec, options);
    const until = new Date(renewTime.getTime() + term.leaseDurationSeconds * 1_000);
    return { kind: 'Held', until, lease: written };
  }
}
