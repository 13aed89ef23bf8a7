import type { Lease } from '../api/core.ts';
import { COMPONENT_LABEL, IdentityAnnotation } from '../api/names.ts';
import { renewIntervalSecondsOf, startIdOf } from '../domain/leases/identityLease.ts';
import type { Change } from '../kube/informer.ts';

/** A process whose identity Lease was not renewed while this process renewed its own this often is presumed dead. */
const missedRenewals = 3;

interface Seen {
  readonly ownRenewals: number;
  readonly everySeconds: number;
  readonly taskQueue: string | undefined;
}

interface Watched {
  subscribe(handler: (change: Change<Readonly<Lease>>) => void): () => void;
}

/**
 * Knows which worker processes of the installation have died, by their starts. Contract:
 *
 * 1. A process is presumed dead if it has renewed its identity Lease (KEP-1965) not once while this process was seen to renew its own three
 *    times, or more often if its interval is longer, or if it lost the leadership without having released it. A process that is seen to renew its
 *    Lease afterwards lives.
 * 2. Own renewals measure the time, because they arrive by the same watch: neither a suspended process nor one that is cut off from the apiserver
 *    presumes that others are dead. Without identity Leases only lost leaderships count.
 * 3. It is right in nearly all cases, which suffices: activities of a process that lives all the same are started twice, and the second heartbeat
 *    ends the first.
 */
export class WorkerLiveness {
  readonly #own: string | undefined;
  readonly #leaderLease: string;
  /** Start of a process -> how many own renewals had been seen when its Lease was last seen to change, and its interval of renewals. */
  readonly #seen = new Map<string, Seen>();
  readonly #deposed = new Set<string>();
  #ownRenewals = 0;
  #ownEverySeconds = 0;

  /** `leases`: those of the namespace of the installation; `identity`: of this process; `leaderLease`: its name. */
  constructor(leases: Watched, { identity, leaderLease }: { identity: string; leaderLease: string }) {
    this.#own = startIdOf(identity);
    this.#leaderLease = leaderLease;
    leases.subscribe((change) => this.#observe(change));
  }

  /** Returns true if the process is presumed dead. One that was never seen counts from the start of this process. */
  isDead(id: string): boolean {
    if (id === this.#own) return false;
    if (this.#deposed.has(id)) return true;
    const { ownRenewals, everySeconds } = this.#seen.get(id) ?? { ownRenewals: 0, everySeconds: 0 };
    const silentSeconds = (this.#ownRenewals - ownRenewals) * this.#ownEverySeconds;
    return (
      silentSeconds > 0 && silentSeconds >= missedRenewals * Math.max(everySeconds, this.#ownEverySeconds)
    );
  }

  /** Returns the processes that have been seen and are presumed dead. */
  dead(): string[] {
    return [...new Set([...this.#seen.keys(), ...this.#deposed])].filter((id) => this.isDead(id));
  }

  /** Returns true if a process that is not presumed dead runs workflows on the task queue. */
  isUsed(taskQueue: string): boolean {
    return [...this.#seen].some(([id, seen]) => seen.taskQueue === taskQueue && !this.isDead(id));
  }

  /** Forgets a dead process whose activities were started again. */
  forget(id: string): void {
    this.#seen.delete(id);
    this.#deposed.delete(id);
  }

  #observe(change: Change<Readonly<Lease>>): void {
    if (change.type === 'Deleted') return;
    const { metadata, spec } = change.object;
    if (metadata.name === this.#leaderLease) {
      if (change.type === 'Updated') this.#observeLeader(change.previous, change.object);
      return;
    }
    const id = startIdOf(spec.holderIdentity ?? '');
    if (id === undefined || metadata.labels?.[COMPONENT_LABEL] === undefined) return;
    const everySeconds = renewIntervalSecondsOf(change.object);
    if (id === this.#own) {
      this.#ownRenewals += 1;
      this.#ownEverySeconds = everySeconds;
    }
    const taskQueue = metadata.annotations?.[IdentityAnnotation.TaskQueue];
    this.#seen.set(id, { ownRenewals: this.#ownRenewals, everySeconds, taskQueue });
    this.#deposed.delete(id);
  }

  #observeLeader(previous: Readonly<Lease>, { spec }: Readonly<Lease>): void {
    const [before, after] = [previous.spec.holderIdentity, spec.holderIdentity].map((holder) =>
      startIdOf(holder ?? ''),
    );
    if (before !== undefined && after !== undefined && before !== after) this.#deposed.add(before);
  }
}
