type Task = (signal: AbortSignal) => Promise<unknown>;

/** Runs tasks until they have ended. When one fails, it aborts the signal of the others, waits for them, and rejects with the first failure. */
export async function runTogether(signal: AbortSignal, tasks: readonly Task[]): Promise<void> {
  const stop = new AbortController();
  const onAbort = () => stop.abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  const failures: unknown[] = [];
  const run = async (task: Task) => {
    try {
      await task(stop.signal);
    } catch (error) {
      failures.push(error);
      stop.abort(error);
    }
  };
  await Promise.all(tasks.map(run));
  signal.removeEventListener('abort', onAbort);
  if (failures.length > 0) throw failures[0];
}
