/**
 * Faults of one thing that may overlap: in effect is the one that has started last, of those that have not ended. `apply` gets undefined when none is
 * left, and is called again for each that begins.
 */
export class Overlapping<Fault> {
  readonly #apply: (current: Fault | undefined) => void;
  readonly #active: { fault: Fault }[] = [];

  constructor(apply: (current: Fault | undefined) => void) {
    this.#apply = apply;
  }

  /** Begins a fault, and returns what ends it. Throws what `apply` throws; then it has not started. */
  begin(fault: Fault): () => void {
    const one = { fault };
    this.#apply(fault);
    this.#active.push(one);
    return () => {
      const index = this.#active.indexOf(one);
      if (index === -1) return;
      const before = this.#active.at(-1)?.fault;
      this.#active.splice(index, 1);
      const current = this.#active.at(-1)?.fault;
      if (current !== before) this.#apply(current);
    };
  }

  /** Ends all faults. */
  end(): void {
    this.#active.length = 0;
    this.#apply(undefined);
  }
}
