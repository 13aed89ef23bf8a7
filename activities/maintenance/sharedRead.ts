/**
 * A read that callers share: each gets the result of one that began after its call, and no two are in progress at once. Hundreds of callers at the
 * same time cost two reads.
 */
export class SharedRead<T> {
  readonly #read: () => Promise<T>;
  #current: Promise<T> | undefined;
  #next: Promise<T> | undefined;

  constructor(read: () => Promise<T>) {
    this.#read = read;
  }

  get(): Promise<T> {
    if (this.#current === undefined) return this.#start();
    this.#next ??= this.#current.then(
      () => this.#start(),
      () => this.#start(),
    );
    return this.#next;
  }

  #start(): Promise<T> {
    this.#next = undefined;
    const current = this.#read().finally(() => {
      // Otherwise the next read begins now, and no other one may.
      if (this.#next === undefined) this.#current = undefined;
    });
    this.#current = current;
    return current;
  }
}
