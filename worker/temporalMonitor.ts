import type { Outage, TemporalAvailability } from '../controllers/temporalAvailability.ts';
import { sleep } from '../kube/abort.ts';
import { type BackOff, backOffMs } from '../kube/backOff.ts';
import { errorMessage } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { ClaimedByOther } from './clusterClaim.ts';

interface MonitorOptions {
  /** Host and port of Temporal. */
  readonly address: string;
  /** Source of its settings, such as `the environment`. */
  readonly source: string;
  /** Makes Temporal usable for this cluster. Called at the start and during an outage; rejects while it is not usable. */
  readonly prepare: () => Promise<void>;
  /** Rejects if Temporal is not usable any more. */
  readonly check: () => Promise<void>;
  readonly log: Log;
  /** Longest time between two checks. */
  readonly checkEveryMs?: number;
  readonly backOff?: BackOff;
}

const defaultCheckEveryMs = 10_000;
/** Many workers, of many clusters, may wait for the same Temporal. */
const defaultBackOff: BackOff = { firstMs: 200, capMs: 10_000 };

/**
 * Observes whether this cluster can use Temporal. Contract:
 *
 * 1. It starts with an outage, which ends when `prepare` has succeeded: nothing uses Temporal before.
 * 2. An outage begins when `check` rejects, and ends when `prepare` has succeeded again: it may be another Temporal by then, such as an
 *    empty one.
 * 3. Requests are repeated at random intervals, one at a time, so that a server that has just started gets few of them.
 */
export class TemporalMonitor implements TemporalAvailability {
  readonly #options: MonitorOptions;
  readonly #handlers = new Set<() => void>();
  #outage: Outage | undefined = { reason: 'not connected yet', sinceMs: Date.now() };
  #reportedReason: string | undefined;

  constructor(options: MonitorOptions) {
    this.#options = options;
  }

  outage(): Outage | undefined {
    return this.#outage;
  }

  subscribe(handler: () => void): () => void {
    this.#handlers.add(handler);
    return () => void this.#handlers.delete(handler);
  }

  /** Observes Temporal until the signal aborts. Rejects with ClaimedByOther as soon as another cluster has the names of this one. */
  async run(signal: AbortSignal): Promise<void> {
    const { prepare, check, backOff = defaultBackOff, checkEveryMs = defaultCheckEveryMs } = this.#options;
    for (let failures = 0; !signal.aborted; ) {
      const startedMs = Date.now();
      try {
        await (this.#outage === undefined ? check() : prepare());
        failures = 0;
        this.#end();
      } catch (error) {
        if (error instanceof ClaimedByOther) throw error;
        failures += 1;
        if (!signal.aborted) this.#fail(errorMessage(error), startedMs);
      }
      const pauseMs =
        failures === 0 ? checkEveryMs * (1 - Math.random() / 2) : backOffMs(failures - 1, backOff);
      await sleep(pauseMs, signal);
    }
  }

  /** `startedMs`: when the check that failed started. */
  #fail(reason: string, startedMs: number): void {
    const { address, source, log } = this.#options;
    const isNew = this.#outage === undefined;
    this.#outage = { reason, sinceMs: this.#outage?.sinceMs ?? startedMs };
    const remedy = `check the settings of Temporal, which come from ${source}`;
    if (this.#reportedReason !== reason) log.warn(`Waiting for Temporal at ${address}`, { reason, remedy });
    this.#reportedReason = reason;
    if (isNew) this.#notify();
  }

  #end(): void {
    if (this.#outage === undefined) return;
    const { address, log } = this.#options;
    const seconds = Math.round((Date.now() - this.#outage.sinceMs) / 1_000);
    this.#outage = undefined;
    this.#reportedReason = undefined;
    log.info('Connected to Temporal', { address, afterSeconds: seconds });
    this.#notify();
  }

  #notify(): void {
    for (const handler of this.#handlers) handler();
  }
}
