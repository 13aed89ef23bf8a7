import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { forEachBounded } from '../../kube/bounded.ts';

/** Runs calls that end in the drawn order, and returns how many ran at the same time whenever one started. */
async function parallelCalls(
  count: number,
  { limit, startWith, pick }: { limit: number; startWith?: number; pick: (running: number) => number },
): Promise<{ parallel: number[]; items: number[]; left: number }> {
  const parallel: number[] = [];
  const items: number[] = [];
  const running: (() => void)[] = [];
  const act = async (item: number) => {
    items.push(item);
    await new Promise<void>((end) => {
      running.push(end);
      parallel.push(running.length);
    });
  };
  const all = Array.from({ length: count }, (_, index) => index);
  const result = forEachBounded(limit, all, act, startWith === undefined ? {} : { startWith });
  for (let ended = 0; ended < count; ended += 1) {
    await new Promise(setImmediate);
    running.splice(pick(running.length), 1).forEach((end) => end());
  }
  return { parallel, items, left: await result };
}

describe('forEachBounded', () => {
  test('performs each item once, and never more than the limit at the same time', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.nat(40),
        fc.integer({ min: 1, max: 12 }),
        fc.option(fc.integer({ min: 1, max: 20 }), { nil: undefined }),
        fc.infiniteStream(fc.nat(100)),
        async (count, limit, startWith, stream) => {
          const pick = (running: number) => (stream.next().value ?? 0) % Math.max(1, running);
          const called = await parallelCalls(count, { limit, pick, ...(startWith && { startWith }) });
          expect(called.items.toSorted((a, b) => a - b)).toEqual(Array.from({ length: count }, (_, i) => i));
          expect(called.left).toBe(0);
          expect(Math.max(0, ...called.parallel)).toBeLessThanOrEqual(limit);
        },
      ),
      { numRuns: 100 },
    );
  });

  test('starts with few, and doubles with each answer up to the limit', async () => {
    const { parallel } = await parallelCalls(40, { limit: 8, startWith: 2, pick: () => 0 });
    expect(parallel.slice(0, 2)).toEqual([1, 2]);
    expect(Math.max(...parallel.slice(0, 4))).toBeLessThan(4);
    expect(Math.max(...parallel)).toBe(8);
  });

  test('without a start value begins with as many as the limit allows', async () => {
    const { parallel } = await parallelCalls(10, { limit: 4, pick: () => 0 });
    expect(parallel.slice(0, 4)).toEqual([1, 2, 3, 4]);
  });

  test('starts no further call after an error, awaits the others, and rejects with it', async () => {
    const ended: number[] = [];
    const act = async (item: number) => {
      await new Promise(setImmediate);
      ended.push(item);
      if (item === 1) throw new Error('item 1');
    };
    await expect(forEachBounded(3, [0, 1, 2, 3, 4, 5, 6, 7], act, { startWith: 2 })).rejects.toThrow(
      'item 1',
    );
    expect(ended).toContain(0);
    expect(ended).not.toContain(7);
  });

  test('starts no call after the end, and resolves with the number of items left', async () => {
    expect(await forEachBounded(2, [1, 2, 3], async () => undefined, { endsAt: performance.now() - 1 })).toBe(
      3,
    );
  });
});
