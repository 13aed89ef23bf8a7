import { describe, expect, test } from '@jest/globals';
import type { ResourceSample } from './resources.ts';
import { growthOfAll, restartsOf, valuesOf } from './record.ts';

const first = { pid: 1, peakMb: 310, codeMb: 10, objectsMb: 70, externalMb: 5, handles: 40 };
const second = { pid: 2, peakMb: 290, codeMb: 10, objectsMb: 65, externalMb: 5, handles: 41 };
const base: ResourceSample = {
  seconds: 0,
  runs: 1,
  workers: [first, second],
  objects: { Evacuations: 0, Events: 100 },
  openRuns: 3,
  openEvents: 30,
  historyEvents: 200,
  historyKb: 60,
  longestHistory: 90,
  etcdMb: 20,
  temporalMb: 50,
};

/** One sample a minute for two hours. */
const samplesOf = (differs: (minute: number) => Partial<ResourceSample>): ResourceSample[] =>
  Array.from({ length: 121 }, (_, minute) => ({
    ...base,
    seconds: minute * 60,
    runs: minute,
    ...differs(minute),
  }));

describe('the growth of samples', () => {
  test('is none of what stays the same, under the name of each value', () => {
    const growth = growthOfAll(samplesOf(() => ({})));
    expect(Object.keys(growth)).toEqual(Object.keys(valuesOf(base)));
    for (const { perHour, isGrowing } of Object.values(growth)) {
      expect(perHour).toBe(0);
      expect(isGrowing).toBe(false);
    }
  });

  test('counts the second half of the time only', () => {
    const filling = (minute: number) => ({ objects: { Evacuations: 0, Events: Math.min(minute, 60) * 10 } });
    expect(growthOfAll(samplesOf(filling))['Events']).toMatchObject({ isGrowing: false, mean: 600 });
    const leaking = (minute: number) => ({ objects: { Evacuations: minute, Events: 0 } });
    expect(growthOfAll(samplesOf(leaking))['Evacuations']).toMatchObject({ isGrowing: true });
  });

  test('does not count what returns to where it was', () => {
    const reclaimed = (minute: number) => ({
      workers: [first, { ...second, peakMb: minute < 60 ? 290 : 250 + (minute - 60) / 2 }],
    });
    expect(growthOfAll(samplesOf(reclaimed))['peak memory of worker 2, MB']).toMatchObject({
      isGrowing: false,
    });
    const leaking = (minute: number) => ({ workers: [first, { ...second, peakMb: 250 + minute / 2 }] });
    expect(growthOfAll(samplesOf(leaking))['peak memory of worker 2, MB']).toMatchObject({ isGrowing: true });
  });

  test('does not take the start of another process for growth', () => {
    const restarted = (minute: number) => ({
      workers: [
        { ...first, ...(minute < 70 ? { objectsMb: 30 } : { pid: 9 }) },
        { ...second, objectsMb: second.objectsMb + minute },
      ],
    });
    const samples = samplesOf(restarted);
    const growth = growthOfAll(samples);
    expect(growth['JavaScript objects of worker 1, MB']).toMatchObject({ isGrowing: false, mean: 70 });
    expect(growth['JavaScript objects of worker 2, MB']).toMatchObject({ isGrowing: true });
    expect(restartsOf(samples)).toBe(1);
  });

  test('is unknown of too few', () => expect(growthOfAll(samplesOf(() => ({})).slice(0, 30))).toEqual({}));
});
