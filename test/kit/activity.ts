import { MockActivityEnvironment } from '@temporalio/testing';

/** Runs an activity as the Temporal worker does, until it ends. */
export function performed<T>(act: () => Promise<T>): Promise<T> {
  return new MockActivityEnvironment().run(act);
}

export interface UnderWay<T> {
  /** How it ends. */
  ended: Promise<T>;
  /** Cancels it, as the workflow or a worker that stops does, and resolves when it has ended. */
  cancelled(): Promise<void>;
}

/** Starts an activity that lasts. */
export function started<T>(act: () => Promise<T>): UnderWay<T> {
  const environment = new MockActivityEnvironment();
  const ended: Promise<T> = environment.run(act);
  // Awaited, if at all, only later: until then a failure is nobody's.
  ended.catch(() => undefined);
  return {
    ended,
    cancelled: async () => {
      environment.cancel('CANCELLED');
      await ended.then(
        () => undefined,
        (error: unknown) => {
          if ((error as Error).name !== 'CancelledFailure') throw error;
        },
      );
    },
  };
}
