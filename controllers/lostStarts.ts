import { ActivityNotFoundError, type Client } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { lostActivities, type SilentActivities, silentActivities } from '../domain/common/lostActivity.ts';
import type { Log } from '../kube/log.ts';
import type { DescribedRun } from './runInspection.ts';

interface Options {
  temporal: Client;
  log: Log;
  /** An activity that has started and sends no heartbeat for so long is lost; 10 s unless given. */
  lostAfterMs?: number;
}

const nextAttemptMs = 100;

/**
 * Finds activities that Temporal has started and no worker has got: on a busy server, the answer to a poll is lost now and then. An activity that
 * lasts sends a heartbeat when it starts, so one that sends none is lost; its heartbeat timeout would reveal it minutes later. Failing it by its id
 * lets its retry policy start it again.
 */
export class LostStarts {
  readonly #temporal: Client;
  readonly #log: Log;
  readonly #lostAfterMs: number | undefined;
  /** Runs with silent activities, by workflow id. A run counts its activities from 1 again. Times are those of the monotonic clock. */
  readonly #suspects = new Map<string, { runId: string; silent: SilentActivities }>();

  constructor({ temporal, log, lostAfterMs }: Options) {
    this.#temporal = temporal;
    this.#log = log;
    this.#lostAfterMs = lostAfterMs;
  }

  /** Reports whether the run has an activity that may be lost: the next check decides. */
  isSuspect(workflowId: string): boolean {
    return this.#suspects.has(workflowId);
  }

  /** The workflow has ended. */
  forget(workflowId: string): void {
    this.#suspects.delete(workflowId);
  }

  /** Starts the activities of the run again that are lost. */
  async check(run: DescribedRun): Promise<void> {
    const { workflowId, runId } = run;
    const nowMs = performance.now();
    const suspect = this.#suspects.get(workflowId);
    const known = suspect?.runId === runId ? suspect.silent : undefined;
    const silent = silentActivities(run.silentActivities, known, nowMs);
    if (silent.size === 0) this.#suspects.delete(workflowId);
    else this.#suspects.set(workflowId, { runId, silent });
    for (const activityId of lostActivities(silent, nowMs, this.#lostAfterMs)) {
      const failure = { type: 'StartLost', message: 'no worker has reported its start' };
      if (await failActivity(this.#temporal, { workflowId, runId, activityId }, failure))
        this.#log.warn('Activity is started again', { workflowId, activityId, reason: failure.message });
    }
  }
}

/** Fails the attempt of an activity that is in progress; its retry policy starts the next one. Resolves with false if there is none any more. */
export async function failActivity(
  temporal: Client,
  activity: { workflowId: string; runId: string; activityId: string },
  { type, message }: { type: string; message: string },
): Promise<boolean> {
  // The attempts so far say nothing about the next one.
  const failure = ApplicationFailure.create({ type, message, nextRetryDelay: nextAttemptMs });
  // The stack of this process does not help.
  failure.stack = `${failure.name}: ${message}`;
  try {
    await temporal.activity.fail(activity, failure);
    return true;
  } catch (error) {
    if (error instanceof ActivityNotFoundError) return false;
    throw error;
  }
}
