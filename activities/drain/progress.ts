import type { DrainDecision } from '../../domain/drain/decide.ts';
import { currentInstant, elapsedMs } from '../../kube/monotonicTime.ts';

/** Tracks for how long a drain has not moved: no pod has left or appeared. */
export class Progress {
  #left: string | undefined;
  #since = currentInstant();

  stalledForMs({ position, nodeStatuses }: DrainDecision): number {
    const pods = nodeStatuses.map((node) => node.podsPendingEvacuation + node.podsEvacuating);
    const left = [position, ...pods].join(' ');
    if (left !== this.#left) this.#since = currentInstant();
    this.#left = left;
    return elapsedMs(this.#since);
  }
}
