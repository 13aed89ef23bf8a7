/** Runs `act` for every item, at most `limit` at a time. Rejects with the first error once the calls in progress have settled. */
export async function forEachBounded<T>(
  limit: number,
  items: readonly T[],
  act: (item: T) => Promise<unknown>,
): Promise<void> {
  const errors: unknown[] = [];
  const remaining = items.values();
  const work = async () => {
    for (const item of remaining) {
      if (errors.length > 0) return;
      try {
        await act(item);
      } catch (error) {
        errors.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, work));
  if (errors.length > 0) throw errors[0];
}
