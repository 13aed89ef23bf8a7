/** The reason why an evacuator must stop before it has completed. */
export const StopReason = {
  /** The Evacuation was cancelled: the pod stays, so undo the work. */
  Cancelled: 'Cancelled',
  /** No progress was reported before the deadline, and another evacuator is active now: leave everything as it is. */
  DeadlineExceeded: 'DeadlineExceeded',
  /** The pod no longer exists, or has terminated by itself. */
  PodGone: 'PodGone',
  /** The process is shutting down or is no longer the leader: the next leader calls the function again. */
  ShuttingDown: 'ShuttingDown',
} as const;
export type StopReason = (typeof StopReason)[keyof typeof StopReason];

/** The reason of an aborted `progress.signal`. */
export class EvacuationStopped extends Error {
  override readonly name = 'EvacuationStopped';
  readonly reason: StopReason;

  constructor(reason: StopReason) {
    super(`the evacuation was stopped: ${reason}`);
    this.reason = reason;
  }
}

export interface ProgressReport {
  /** One sentence for users: what is done and what remains. */
  readonly message: string;
  /** Time at which the pod is expected to be gone. If it is missing or an invalid Date, the previous value stays. */
  readonly expectedFinishTime?: Date;
}

/** Reports the progress of an evacuator, and signals when it must stop. */
export interface Progress {
  /**
   * Reports progress. Only this extends the deadline (`spec.progressDeadlineSeconds`), so call it after work was done. Returns at
   * once; of several reports within a second, the last one is written.
   */
  report(report: ProgressReport): void;
  /** Reports what the evacuator waits for, without extending the deadline. */
  reportWaiting(message: string): void;
  /**
   * Forbids the cancellation of the evacuation. Resolves when this is written to the Evacuation. Rejects when the evacuation was
   * already cancelled or handed over: do not pass the point of no return then.
   */
  forbidCancellation(): Promise<void>;
  allowCancellation(): Promise<void>;
  /** Aborts with an EvacuationStopped. Reports after that are not written. */
  readonly signal: AbortSignal;
}
