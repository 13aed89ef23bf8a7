import { setTimeout as sleep } from 'node:timers/promises';
import { isKubeError } from '../../kube/errors.ts';

/** How long a user tries again while servers do not answer. */
const timeoutLimitMs = 60_000;
const pauseMs = 200;

/** Repeats a request while it fails for a reason that passes, as a user does. Throws what does not pass. */
export async function retryUntilAnswered<T>(
  what: string,
  request: () => Promise<T>,
  timeoutMs = timeoutLimitMs,
): Promise<T> {
  const startedAt = performance.now();
  for (;;) {
    try {
      return await request();
    } catch (error) {
      if (isFinal(error)) throw error;
      if (performance.now() - startedAt > timeoutMs)
        throw new Error(`No answer within ${timeoutMs / 1_000} s: ${what}`, { cause: error });
    }
    await sleep(pauseMs);
  }
}

const finalKinds: readonly string[] = ['NotFound', 'Invalid', 'Forbidden', 'AlreadyExists'];

/** The apiserver decided. For some seconds after its start it forbids what it has not read yet, but not to administrators. */
function isFinal(error: unknown): boolean {
  return isKubeError(error) && finalKinds.includes(error.kind);
}
