/**
 * Runs `act` for every item, at most `limit` at a time. Rejects with the first error once the calls in progress have settled. Starts no call after
 * `endsAt`, by performance.now(), and resolves with the number of items that are left.
 */
export async function forEachBounded<T>(
  limit: number,
  items: readonly T[],
  act: (item: T) => Promise<unknown>,
  endsAt = Infinity,
): Promise<number> {
  const errors: unknown[] = [];
  let left = items.length;
  const remaining = items.values();
  const work = async () => {
    for (const item of remaining) {
      if (errors.length > 0 || performance.now() >= endsAt) return;
      left -= 1;
      try {
        await act(item);
      } catch (error) {
        errors.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, work));
  if (errors.length > 0) throw errors[0];
  return left;
}
