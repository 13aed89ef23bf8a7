interface Bounds {
  /** No call starts after this time, by performance.now(). */
  endsAt?: number;
  /** Number of calls that start together; each call that ends lets one more run at a time, up to the limit. */
  startWith?: number;
}

/**
 * Runs `act` for every item, at most `limit` at a time. Rejects with the first error once the calls in progress have settled. Resolves with
 * the number of items that are left.
 */
export async function forEachBounded<T>(
  limit: number,
  items: readonly T[],
  act: (item: T) => Promise<unknown>,
  { endsAt = Infinity, startWith = limit }: Bounds = {},
): Promise<number> {
  const errors: unknown[] = [];
  let left = items.length;
  const remaining = items.values();
  const workers: Promise<void>[] = [];
  const maxWorkers = Math.min(limit, items.length);
  const work = async () => {
    for (const item of remaining) {
      if (errors.length > 0 || performance.now() >= endsAt) return;
      left -= 1;
      try {
        await act(item);
      } catch (error) {
        errors.push(error);
      }
      if (workers.length < maxWorkers) workers.push(work());
    }
  };
  while (workers.length < Math.min(startWith, maxWorkers)) workers.push(work());
  // The list grows while it is iterated.
  for (const worker of workers) await worker;
  if (errors.length > 0) throw errors[0];
  return left;
}
