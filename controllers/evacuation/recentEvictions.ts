import type { Pod } from '../../api/core.ts';
import { gracePeriodSecondsOf } from '../../domain/common/pod.ts';
import type { Blocker } from '../../domain/evacuation/blocker.ts';
import {
  type DeletedPod,
  isRecreated,
  mayBeRecreated,
  placeOf,
  recreatedBlocker,
} from '../../domain/evacuation/recreation.ts';

/** Delay before a pod is evicted that its controller has put back on the node. */
export const recreatedRetryMs = 30_000;

/**
 * Remembers which pods were evicted a moment ago, to notice that a controller puts them back: a pod template that tolerates the cordon, or has a node
 * name, would otherwise be evicted in an endless loop. Another leader evicts such a pod once more.
 */
export class RecentEvictions {
  /** Controller and node -> the last pod that was evicted there. The oldest entry is the first. */
  readonly #byPlace = new Map<string, DeletedPod>();

  /** Remembers the eviction of a pod, which was requested at this time, by the clock of the apiserver. */
  record(pod: Pod, requestedAt: Date): void {
    const place = placeOf(pod);
    if (place === undefined) return;
    for (const [earlier, deleted] of this.#byPlace) {
      if (mayBeRecreated(deleted, requestedAt)) break;
      this.#byPlace.delete(earlier);
    }
    this.#byPlace.delete(place);
    const { uid } = pod.metadata;
    this.#byPlace.set(place, {
      uid,
      deletedAt: requestedAt,
      gracePeriodSeconds: gracePeriodSecondsOf(pod),
    });
  }

  /** Returns the blocker of a pod that its controller has put back on the node; undefined for other pods. */
  blockerOf(pod: Pod): Blocker | undefined {
    const last = this.#byPlace.get(placeOf(pod) ?? '');
    return last !== undefined && isRecreated(pod, last) ? recreatedBlocker(pod) : undefined;
  }
}
