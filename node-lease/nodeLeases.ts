import type { Lease } from '../api/core.ts';
import {
  decideAcquisition,
  isReleasable,
  type LeaseClient,
  leaseClientProblem,
} from '../domain/leases/lease.ts';
import type { Kube, RequestOptions } from '../kube/client.ts';
import { isKubeError } from '../kube/errors.ts';
import { microTime } from '../kube/leaseRecord.ts';
import { NodeLeaseError } from './errors.ts';
import { LeaseObjects } from './leaseObjects.ts';
import type { Acquisition, Lost, Release } from './types.ts';

interface NodeLeasesOptions extends LeaseClient {
  readonly kube: Kube;
}

/**
 * Acquires, renews and releases the maintenance Leases of nodes for one holder (KEP-1411 > Expected Client Behavior). It has no state
 * other than the Leases. Every method rejects with a KubeError, or with a NodeLeaseError for an invalid node name or a missing node.
 */
export class NodeLeases {
  readonly #kube: Kube;
  readonly #objects: LeaseObjects;
  readonly #client: LeaseClient;

  /** Throws a NodeLeaseError for a holder or a duration that KEP-1411 does not allow. */
  constructor({ kube, holder, leaseDurationSeconds }: NodeLeasesOptions) {
    this.#kube = kube;
    this.#objects = new LeaseObjects(kube);
    this.#client = { holder, leaseDurationSeconds };
    const problem = leaseClientProblem(this.#client);
    if (problem !== undefined) throw new NodeLeaseError(problem, { kind: 'InvalidArgument' });
  }

  get holder(): string {
    return this.#client.holder;
  }

  get leaseDurationSeconds(): number {
    return this.#client.leaseDurationSeconds;
  }

  /** Reads the Lease; undefined if the node has none. */
  read(node: string, options: RequestOptions = {}): Promise<Lease | undefined> {
    return this.#objects.read(node, options);
  }

  /** Acquires the Lease if nobody else holds it, and renews it if we do. A missing Lease is created. */
  acquire(node: string, options: RequestOptions = {}): Promise<Acquisition> {
    return this.#objects.decide(node, options, (lease) => this.#acquire(node, lease, options));
  }

  /** Renews the Lease if it is still ours. */
  renew(node: string, options: RequestOptions = {}): Promise<Acquisition | Lost> {
    return this.#objects.decide<Acquisition | Lost>(node, options, async (lease) => {
      const { kind } = decideAcquisition(lease, this.#client, this.#kube.now().getTime());
      return kind === 'Acquire' ? { kind: 'Lost', lease } : this.#acquire(node, lease, options);
    });
  }

  /**
   * Releases the Lease if it is still ours. "If the lease is still held, set leaseDurationSeconds to 0" (KEP-1411 > Release): the
   * apiserver rejects a duration of 0, so the duration is removed. The holder is removed too, so that other clients do not have to
   * wait for the clock drift.
   */
  release(node: string, options: RequestOptions = {}): Promise<Release> {
    return this.#objects.decide<Release>(node, options, async (lease) => {
      if (lease === undefined || !isReleasable(lease, this.holder)) return 'NotOurs';
      await this.#objects.replace(lease, this.#releasedSpec(), options);
      return 'Released';
    });
  }

  /** Releases the Lease only if it was not written since it was read. Holders that run several processes need this. */
  async releaseIfUnchanged(lease: Lease, options: RequestOptions = {}): Promise<'Released' | 'Changed'> {
    try {
      await this.#objects.replaceVersion(lease, this.#releasedSpec(), options);
      return 'Released';
    } catch (error) {
      if (isKubeError(error, 'Conflict', 'NotFound')) return 'Changed';
      throw error;
    }
  }

  #releasedSpec() {
    return { holderIdentity: '', leaseDurationSeconds: null, renewTime: microTime(this.#kube.now()) };
  }

  async #acquire(node: string, lease: Lease | undefined, options: RequestOptions): Promise<Acquisition> {
    const decision = decideAcquisition(lease, this.#client, this.#kube.now().getTime());
    if (decision.kind === 'HeldByAnother') {
      const { kind, holder, until } = decision;
      return { kind, holder, until: until === undefined ? undefined : new Date(until) };
    }
    const { acquireTime, renewTime, ...term } = decision.term;
    const spec = { ...term, acquireTime: microTime(acquireTime), renewTime: microTime(renewTime) };
    const written =
      lease === undefined
        ? await this.#objects.create(node, spec, options)
        : await this.#objects.replace(lease, spec, options);
    const until = new Date(renewTime.getTime() + term.leaseDurationSeconds * 1_000);
    return { kind: 'Held', until, lease: written };
  }
}
