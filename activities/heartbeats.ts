import { Context } from '@temporalio/activity';
import { currentInstant, elapsedMs, type Instant } from '../kube/monotonicTime.ts';

const tickMs = 1_000;
/** A process that did not run for this long was suspended. */
const suspendedMs = 5_000;
/** With a longer timeout, the first heartbeat says that the start of the activity has reached a worker. */
const confirmedAboveMs = 10_000;

interface Running {
  context: Context;
  everyMs: number;
  lastAt: Instant;
}

/**
 * Sends the heartbeats of all activities of this process: each as often as its timeout demands and no more, because Temporal bills every
 * heartbeat. The controllers start an activity again that sends none at its start (LostStarts). A process that was suspended sends all of them
 * at once, and learns from the answers which activities other workers have taken over.
 */
export class Heartbeats {
  readonly #running = new Set<Running>();
  #timer: NodeJS.Timeout | undefined;
  #tickedAt = currentInstant();

  /** Sends the heartbeats of the current activity until the returned function is called. */
  start(): () => void {
    const context = Context.current();
    const { heartbeatTimeoutMs } = context.info;
    if (heartbeatTimeoutMs === undefined) return () => undefined;
    const running = { context, everyMs: heartbeatTimeoutMs / 2, lastAt: currentInstant() };
    this.#running.add(running);
    if (heartbeatTimeoutMs > confirmedAboveMs) context.heartbeat();
    if (this.#timer === undefined) this.#startTimer();
    return () => {
      this.#running.delete(running);
      if (this.#running.size === 0) this.#stopTimer();
    };
  }

  #startTimer(): void {
    this.#tickedAt = currentInstant();
    this.#timer = setInterval(() => this.#tick(), tickMs);
  }

  #stopTimer(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #tick(): void {
    const wasSuspended = elapsedMs(this.#tickedAt) > suspendedMs;
    this.#tickedAt = currentInstant();
    for (const running of this.#running) {
      if (!wasSuspended && elapsedMs(running.lastAt) < running.everyMs) continue;
      running.lastAt = currentInstant();
      running.context.heartbeat();
    }
  }
}
