import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { isTrue } from '../domain/common/conditions.ts';

/** Measures the longest time for which the status of a maintenance does not change before it is drained. */
export class Silence {
  /** The status of each maintenance that is not drained yet, and the time of its last change. */
  readonly #last: Map<string, { status: string; at: number }>;
  #longestMs = 0;

  /** `at` is when the maintenances are requested. */
  constructor(at: number, names: readonly string[]) {
    this.#last = new Map(names.map((name) => [name, { status: '', at }]));
  }

  /** Takes the next version of a maintenance. */
  observe({ metadata: { name }, status }: Readonly<NodeMaintenance>, at: number): void {
    const last = this.#last.get(name);
    const text = JSON.stringify(status) ?? '';
    if (last === undefined || text === last.status) return;
    this.#longestMs = Math.max(this.#longestMs, at - last.at);
    if (isTrue(status?.conditions, 'Drained')) this.#last.delete(name);
    else this.#last.set(name, { status: text, at });
  }

  get longestMs(): number {
    return this.#longestMs;
  }
}
