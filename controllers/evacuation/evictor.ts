import type { EvictionOutcome, EvictionTarget, FencedKube } from '../../kube/client.ts';

/**
 * Evicts each pod at most once, although answers are lost: if an earlier request may have been performed, the next one is sent only for a pod that, as
 * the apiserver has it, is not terminating.
 */
export class Evictor {
  readonly #kube: FencedKube;
  /** UIDs of pods whose last eviction was not answered, or was not decided. */
  readonly #unanswered = new Set<string>();

  constructor(kube: FencedKube) {
    this.#kube = kube;
  }

  /** Rejects as `Kube.evict` does. */
  async evict(target: EvictionTarget): Promise<EvictionOutcome> {
    const isRepeated = this.#unanswered.has(target.uid);
    this.#unanswered.add(target.uid);
    const outcome = await this.#kube.evict(target, { isRepeated });
    this.#unanswered.delete(target.uid);
    return outcome;
  }

  forget(podUid: string): void {
    this.#unanswered.delete(podUid);
  }
}
