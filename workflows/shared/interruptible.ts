import { CancellationScope, condition } from '@temporalio/workflow';
import { isEndOfCancelled } from './failures.ts';

/** Runs work that a message can interrupt, so that the workflow checks again what it has to do. */
export interface Interruptible {
  /** Resolves with the result of the work, or with undefined if it was interrupted; waits until the work has been cancelled. */
  run<T>(work: () => Promise<T>): Promise<T | undefined>;
  /** Interrupts the work in progress, if there is any. Later work is not affected. */
  interrupt(): void;
  /** Resolves when the work that is in progress now has ended. */
  settled(): Promise<void>;
}

export function createInterruptible(): Interruptible {
  let interrupt: () => void = () => undefined;
  let startedCount = 0;
  let endedCount = 0;
  return {
    interrupt: () => interrupt(),
    settled: () => {
      const awaitedCount = startedCount;
      return condition(() => endedCount >= awaitedCount);
    },
    async run(work) {
      const scope = new CancellationScope();
      let interrupted = false;
      startedCount += 1;
      interrupt = () => {
        interrupted = true;
        scope.cancel();
      };
      try {
        return await scope.run(work);
      } catch (error) {
        // A cancellation of the whole workflow is rethrown.
        if (interrupted && isEndOfCancelled(error, scope)) return undefined;
        throw error;
      } finally {
        interrupt = () => undefined;
        endedCount += 1;
      }
    },
  };
}
