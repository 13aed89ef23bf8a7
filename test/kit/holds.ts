import { eventually } from './eventually.ts';

/** Longest text of what was seen last, in a failure. */
const longest = 4_000;

/** Looks until `holds` is true of what is seen, and resolves with that; the failure after `within` ms shows the last of it. */
export function eventuallyHolds<T>(
  fact: string,
  look: () => Promise<T> | T,
  holds: (seen: T) => boolean,
  within = 60_000,
): Promise<T> {
  const check = async () => {
    const seen = await look();
    if (!holds(seen)) throw new Error(JSON.stringify(seen, null, 1)?.slice(0, longest));
    return seen;
  };
  return eventually(fact, check, { within });
}
