import { setTimeout as sleep } from 'node:timers/promises';

/** Milliseconds. */
const lookEvery = 100;

/**
 * Waits for a fact: looks until `holds` is true of what it sees, and returns that. Fails, after `timeoutMs`, with what was
 * expected and what was seen last.
 */
export async function eventually<T>(
  fact: string,
  look: () => Promise<T> | T,
  holds: (seen: T) => boolean,
  timeoutMs = 30_000,
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const seen = await look();
    if (holds(seen)) return seen;
    if (Date.now() > deadline) {
      throw new Error(
        `Not within ${timeoutMs / 1_000} s: ${fact}. Last seen: ${JSON.stringify(seen, null, 1)?.slice(0, 4_000)}`,
      );
    }
    await sleep(lookEvery);
  }
}
