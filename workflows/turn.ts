import { CancellationScope, condition, isCancellation } from '@temporalio/workflow';

/** Work that a message may interrupt, so that the workflow looks again at what is asked of it. */
export interface Turn {
  /** Resolves with the work's result, or with undefined when it was interrupted; its cancellation is awaited. */
  take<T>(work: () => Promise<T>): Promise<T | undefined>;
  /** Ends the work under way, if there is any; the next turn is not affected. */
  interrupt(): void;
  /** Resolves when the work that is under way now has ended. */
  ended(): Promise<void>;
}

export function createTurn(): Turn {
  let interrupt: () => void = () => undefined;
  let underWay = 0;
  let ended = 0;
  return {
    interrupt: () => interrupt(),
    ended: () => {
      const awaited = underWay;
      return condition(() => ended >= awaited);
    },
    async take(work) {
      const scope = new CancellationScope();
      let interrupted = false;
      underWay += 1;
      interrupt = () => {
        interrupted = true;
        scope.cancel();
      };
      try {
        return await scope.run(work);
      } catch (error) {
        // A cancellation of the whole workflow is not ours to swallow.
        if (interrupted && isCancellation(error)) return undefined;
        throw error;
      } finally {
        interrupt = () => undefined;
        ended += 1;
      }
    },
  };
}
