import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type PermissionAnswer, reviewsDue } from '../../../domain/common/permissionReviews.ts';

const timing = { validMs: 30_000, startedValidMs: 300_000 };
const now = 10_000_000;

interface Row {
  name: string;
  isStarted: boolean;
  /** Undefined: never asked. */
  ageMs: number | undefined;
  isPermitted: boolean;
}

const rows = fc.uniqueArray(
  fc.record({
    name: fc.stringMatching(/^[a-z]{1,4}$/),
    isStarted: fc.boolean(),
    ageMs: fc.option(fc.integer({ min: 0, max: 600_000 }), { nil: undefined }),
    isPermitted: fc.boolean(),
  }),
  { selector: ({ name }) => name, maxLength: 200 },
);

const answersOf = (all: readonly Row[]) =>
  new Map<string, PermissionAnswer>(
    all.flatMap(({ name, ageMs, isPermitted }) =>
      ageMs === undefined ? [] : [[name, { isPermitted, at: now - ageMs }]],
    ),
  );

const dueOf = (all: readonly Row[]) => reviewsDue(all, answersOf(all), timing, now);

describe('the permission for a node is asked for', () => {
  test('before anything begins on it with an answer that is missing or expired', () => {
    fc.assert(
      fc.property(rows, (all) => {
        const due = new Set(dueOf(all));
        for (const { name, isStarted, ageMs, isPermitted } of all) {
          if (ageMs === undefined) expect(due).toContain(name);
          if (isPermitted && !isStarted && (ageMs ?? 0) >= timing.validMs) expect(due).toContain(name);
        }
      }),
    );
  });

  test('never while its answer is valid, and never twice', () => {
    fc.assert(
      fc.property(rows, (all) => {
        const due = dueOf(all);
        expect(new Set(due).size).toBe(due.length);
        const valid = all.filter(({ ageMs = Infinity }) => ageMs < timing.validMs);
        expect(due.filter((name) => valid.some((one) => one.name === name))).toEqual([]);
      }),
    );
  });

  test('again within a bounded number of calls, a few nodes at a time and the oldest first', () => {
    const all = Array.from({ length: 1_000 }, (_, i) => ({
      name: `n${i}`,
      isStarted: true,
      ageMs: 400_000 + i,
      isPermitted: true,
    }));
    const answers = new Map(answersOf(all));
    const counts: number[] = [];
    for (;;) {
      const due = reviewsDue(all, answers, timing, now);
      if (due.length === 0) break;
      if (counts.length === 0) expect(due[0]).toBe('n999');
      for (const name of due) answers.set(name, { isPermitted: false, at: now });
      counts.push(due.length);
    }
    expect(Math.max(...counts)).toBe(34);
    expect(counts).toHaveLength(30);
  });

  test('so that many nodes that are denied cause at most 50 reviews a second', () => {
    const all = Array.from({ length: 10_000 }, (_, i) => ({
      name: `n${i}`,
      isStarted: false,
      ageMs: 199_999,
      isPermitted: false,
    }));
    expect(dueOf(all)).toEqual([]);
  });

  test('at once if the clock went back', () => {
    const row = { name: 'n', isStarted: false, ageMs: -1, isPermitted: true };
    expect(dueOf([row])).toEqual(['n']);
  });
});
