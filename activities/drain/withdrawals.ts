import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { isRejection } from '../../kube/errors.ts';
import type { EventRecorder } from '../../kube/events.ts';
import { RejectedWrites } from '../rejectedWrites.ts';

const defaultRetryAfterMs = 30_000;

/** An Evacuation or EvictionRequest to withdraw. */
interface Withdrawn {
  metadata: { uid?: string | undefined; namespace?: string | undefined; name: string };
}

/**
 * Withdraws Evacuations and EvictionRequests. A rejection, for example by the policy of one namespace, concerns this object alone: the others are withdrawn,
 * and it is tried again after a time.
 */
export class Withdrawals {
  readonly #rejected: RejectedWrites;
  /** Messages of the apiserver that an Event has. */
  readonly #recorded = new Set<string>();

  /** `retryAfterMs`: delay before a rejected withdrawal is tried again. */
  constructor(retryAfterMs = defaultRetryAfterMs) {
    this.#rejected = new RejectedWrites(retryAfterMs);
  }

  async perform<T extends Withdrawn>(withdrawn: T, withdraw: (object: T) => Promise<unknown>): Promise<void> {
    const { uid = '', namespace, name } = withdrawn.metadata;
    if (!this.#rejected.isDue(uid)) return;
    try {
      await withdraw(withdrawn);
      this.#rejected.accept(uid);
    } catch (error) {
      if (!isRejection(error)) throw error;
      this.#rejected.reject(uid, `${namespace}/${name}: ${error.apiMessage}`);
    }
  }

  /** The namespace, name and message of each that the apiserver has rejected. */
  get rejections(): readonly string[] {
    return [...this.#rejected.waiting().values()].toSorted();
  }

  /** Records an Event about those that none is recorded about. */
  record(maintenance: NodeMaintenance, events: EventRecorder): void {
    const fresh = this.rejections.filter((rejection) => !this.#recorded.has(rejection));
    const [first] = fresh;
    if (first === undefined) return;
    for (const rejection of fresh) this.#recorded.add(rejection);
    events.record(maintenance, {
      type: 'Warning',
      reason: 'WithdrawalRejected',
      message: `The apiserver rejects that evacuations are withdrawn, so that their pods may still be evicted: ${first}${fresh.length > 1 ? ` (and ${fresh.length - 1} more)` : ''}`,
    });
  }
}
