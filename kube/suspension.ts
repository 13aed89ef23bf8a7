/** Interval in which a process that runs notes that it does. */
const noteEveryMs = 200;
/** A process that has noted nothing for so long was suspended, or computed all the time. */
const suspendedAfterMs = 1_000;
/** Time after a suspension within which the process reads what has arrived on its connections. */
const catchUpMs = 250;

/** Notices that this process was suspended, for example by a hypervisor: its timers end before it reads what has arrived since. */
export class Suspension {
  readonly #now: () => number;
  #notedAt: number;
  #endedAt = -Infinity;

  /** `now`: milliseconds of a clock that a suspension does not stop. */
  constructor(now = () => performance.now()) {
    this.#now = now;
    this.#notedAt = now();
  }

  /** Notes that the process runs until the signal aborts. */
  start(signal: AbortSignal): void {
    this.#notedAt = this.#now();
    const timer = setInterval(() => this.#note(), noteEveryMs).unref();
    signal.addEventListener('abort', () => clearInterval(timer), { once: true });
  }

  /** Whether the process was suspended a moment ago. */
  get isRecent(): boolean {
    const now = this.#now();
    return now - this.#notedAt > suspendedAfterMs || now - this.#endedAt < catchUpMs;
  }

  #note(): void {
    const now = this.#now();
    if (now - this.#notedAt > suspendedAfterMs) this.#endedAt = now;
    this.#notedAt = now;
  }
}
