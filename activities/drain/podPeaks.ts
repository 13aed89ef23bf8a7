import type { DrainDecision } from '../../domain/drain/decide.ts';

/** Tracks the most pods left on each node. Statuses that are replaced before they are written count too. */
export class PodPeaks {
  readonly #byNode = new Map<string, number>();

  /** Returns the decision with `podsPeak` in its node statuses. */
  addTo(decision: DrainDecision): DrainDecision {
    const nodeStatuses = decision.nodeStatuses.map((node) => {
      const podsToEvacuate = node.podsPendingEvacuation + node.podsEvacuating;
      const podsPeak = Math.max(podsToEvacuate, this.#byNode.get(node.nodeRef.name) ?? 0);
      this.#byNode.set(node.nodeRef.name, podsPeak);
      return { ...node, ...(podsPeak > 0 && { podsPeak }) };
    });
    return { ...decision, nodeStatuses };
  }
}
