import type { Worker } from '@temporalio/worker';
import { type TemporalAvailability, untilAvailable } from '../controllers/temporalAvailability.ts';
import { sleep } from '../kube/abort.ts';
import { backOffMs } from '../kube/backOff.ts';
import { errorMessage } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';

interface Options {
  availability: TemporalAvailability;
  /** Rejects while Temporal is unavailable. */
  create: () => Promise<Worker[]>;
  log: Log;
}

/** The SDK does not report a change of state. */
const statePollMs = 1_000;

const backOff = { firstMs: 200, capMs: 10_000 };

/**
 * The Temporal workers of this process. They start when Temporal is available for the first time, and wait through later outages by
 * themselves, with a back-off of their own.
 */
export class TemporalWorkers {
  readonly #options: Options;
  #workers: readonly Worker[] = [];
  #failure = 'they have not been created yet';

  constructor(options: Options) {
    this.#options = options;
  }

  /** Returns true if they have been running at some time. */
  get hasStarted(): boolean {
    return this.#workers.length > 0;
  }

  /** Returns why they are not running. */
  problem(): string | undefined {
    const [other] = this.#workers.map((worker) => worker.getState()).filter((state) => state !== 'RUNNING');
    if (this.#workers.length === 0) return this.#failure;
    return other === undefined ? undefined : `one is ${other}`;
  }

  /**
   * Runs the workers until the signal aborts. Rejects if Temporal stops one of them, for example because its namespace was deleted: nothing
   * cancels the activities of such a worker, so that the process has to end.
   */
  async run(signal: AbortSignal): Promise<void> {
    const workers = await this.#created(signal);
    if (workers === undefined) return;
    this.#workers = workers;
    await runWorkers(workers, signal);
  }

  /** Creates the workers as soon as that succeeds. Resolves with undefined if the signal aborts before. */
  async #created(signal: AbortSignal): Promise<Worker[] | undefined> {
    const { availability, create, log } = this.#options;
    for (let failures = 0; ; failures += 1) {
      await untilAvailable(availability, signal);
      if (signal.aborted) return undefined;
      try {
        return await create();
      } catch (error) {
        this.#failure = errorMessage(error);
        log.warn('Temporal workers could not be created, retrying', { reason: this.#failure });
      }
      await sleep(backOffMs(failures, backOff), signal);
    }
  }
}

/** Runs workers until the signal aborts or one of them fails. Rejects with the failure, without waiting for the others. */
async function runWorkers(workers: readonly Worker[], signal: AbortSignal): Promise<void> {
  const shutdown = () => {
    for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown();
  };
  signal.addEventListener('abort', shutdown, { once: true });
  const running = workers.map(runWorker);
  if (signal.aborted) shutdown();
  try {
    await Promise.all(running);
  } finally {
    shutdown();
    signal.removeEventListener('abort', shutdown);
  }
}

/** Runs a worker like `Worker.run`, which never rejects while an activity of a failed worker is in progress. */
async function runWorker(worker: Worker): Promise<void> {
  const ended = new AbortController();
  const failed = async () => {
    while (worker.getState() !== 'FAILED') {
      if (ended.signal.aborted) return;
      await sleep(statePollMs, ended.signal);
    }
    throw new Error(`The Temporal worker of task queue ${worker.options.taskQueue} has failed`);
  };
  const running = worker.run().finally(() => ended.abort());
  await Promise.race([running, failed().then(() => running)]);
}
