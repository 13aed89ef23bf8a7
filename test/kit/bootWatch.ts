import type { RealNode } from '../../sandbox/realNodes/realNode.ts';

/** Shorter than any boot. */
const intervalMs = 100;

/** The boots of a real node from now on. */
export class BootWatch {
  readonly #bootIds = new Set<string>();
  readonly #timer: NodeJS.Timeout;

  constructor(node: RealNode) {
    this.#timer = setInterval(() => {
      const bootId = node.bootId();
      if (bootId !== undefined) this.#bootIds.add(bootId);
    }, intervalMs);
  }

  /** Returns the IDs of the boots, in order. */
  seen(): string[] {
    return [...this.#bootIds];
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
