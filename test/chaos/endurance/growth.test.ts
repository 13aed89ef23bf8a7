import { describe, expect, test } from '@jest/globals';
import { Random } from '../random.ts';
import { growthOf, isGrowing, type Point } from './growth.ts';

/** Points of an hour: a line with noise that is the same for each seed. */
function pointsOf(
  seed: number,
  { base, perHour, noise }: { base: number; perHour: number; noise: number },
): Point[] {
  const random = new Random(seed);
  return Array.from({ length: 100 }, (_, index) => {
    const hours = index / 100;
    return { hours, value: base + perHour * hours + (noise * random.integer(-100, 100)) / 100 };
  });
}

const seeds = Array.from({ length: 200 }, (_, index) => index + 1);

describe('growth', () => {
  test('of a line without noise is its slope', () => {
    const growth = growthOf(pointsOf(1, { base: 300, perHour: 12, noise: 0 }));
    expect(growth?.perHour).toBeCloseTo(12, 6);
    expect(growth?.low).toBeCloseTo(12, 6);
    expect(growth?.high).toBeCloseTo(12, 6);
    expect(growth?.mean).toBeCloseTo(300 + 12 * 0.495, 6);
  });

  test('of a constant is nothing', () =>
    expect(growthOf(pointsOf(1, { base: 7, perHour: 0, noise: 0 }))).toEqual({
      mean: 7,
      perHour: 0,
      low: 0,
      high: 0,
    }));

  test('has an interval that contains the slope in about 95 % of all cases', () => {
    const hits = seeds.filter((seed) => {
      const growth = growthOf(pointsOf(seed, { base: 300, perHour: 5, noise: 20 }));
      return growth !== undefined && growth.low <= 5 && growth.high >= 5;
    });
    expect(hits.length).toBeGreaterThanOrEqual(180);
    expect(hits.length).toBeLessThan(200);
  });

  test('of too few points is unknown', () =>
    expect(growthOf(pointsOf(1, { base: 1, perHour: 1, noise: 0 }).slice(0, 19))).toBeUndefined());
});

describe('a value grows', () => {
  const isGrowingIn = (seed: number, line: Parameters<typeof pointsOf>[1]) => {
    const growth = growthOf(pointsOf(seed, line));
    return growth !== undefined && isGrowing(growth);
  };

  test('if it leaks a tenth of itself in an hour, in spite of noise', () => {
    for (const seed of seeds) expect(isGrowingIn(seed, { base: 300, perHour: 30, noise: 20 })).toBe(true);
  });

  test('not if it only varies, but for a few of a hundred', () => {
    const wrong = seeds.filter((seed) => isGrowingIn(seed, { base: 300, perHour: 0, noise: 20 }));
    expect(wrong.length).toBeLessThan(seeds.length / 20);
  });

  test('not if it shrinks, and not by less than a hundredth in an hour', () => {
    expect(isGrowingIn(1, { base: 300, perHour: -30, noise: 0 })).toBe(false);
    expect(isGrowingIn(1, { base: 300, perHour: 2.9, noise: 0 })).toBe(false);
    expect(isGrowingIn(1, { base: 300, perHour: 3.2, noise: 0 })).toBe(true);
  });

  test('if it grows from nothing', () =>
    expect(isGrowingIn(1, { base: 0, perHour: 1, noise: 0 })).toBe(true));
});
