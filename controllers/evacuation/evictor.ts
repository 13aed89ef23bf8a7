import type { EvictionOutcome, EvictionTarget, FencedKube } from '../../kube/client.ts';

/**
 * Evicts each pod at most once, although answers are lost, watches are cut and leaders change: if an earlier request may have been performed, the next one is
 * sent only for a pod that, as the apiserver has it, is not terminating.
 */
export class Evictor {
  readonly #kube: FencedKube;
  /** UIDs of pods whose last eviction was not answered, or was not decided. */
  readonly #unanswered = new Set<string>();

  /** When this process began to lead, by the clock of the apiserver: what was requested before may have been performed by an earlier leader. */
  readonly #startedMs: number;

  constructor(kube: FencedKube) {
    this.#kube = kube;
    this.#startedMs = kube.now().getTime();
  }

  /**
   * Rejects as `Kube.evict` does. `requestedAt`: when the object was created that requests the eviction. `isCurrent`: whether the informer of pods, which
   * shows that the pod is not terminating, follows the apiserver.
   */
  async evict(
    target: EvictionTarget,
    { requestedAt, isCurrent }: { requestedAt: string | undefined; isCurrent: boolean },
  ): Promise<EvictionOutcome> {
    const isNew = Date.parse(requestedAt ?? '') > this.#startedMs;
    const isRepeated = !isNew || !isCurrent || this.#unanswered.has(target.uid);
    this.#unanswered.add(target.uid);
    const outcome = await this.#kube.evict(target, { isRepeated });
    this.#unanswered.delete(target.uid);
    return outcome;
  }

  forget(podUid: string): void {
    this.#unanswered.delete(podUid);
  }
}
