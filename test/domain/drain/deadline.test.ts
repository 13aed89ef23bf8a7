import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Pod } from '../../../api/core.ts';
import { podTypeOf } from '../../../domain/common/pod.ts';
import {
  decideDeletions,
  deletionTimes,
  maxLeadOfLaterTiersMs,
  type PodAtDeadline,
} from '../../../domain/drain/deadline.ts';
import { type DrainSnapshot, decideDrain } from '../../../domain/drain/decide.ts';
import { completeDrainPlan } from '../../../domain/drain/plan.ts';
import { targetsPod } from '../../../domain/drain/targets.ts';
import { daemonPod, mirrorPod, pod, pods } from '../../kit/builders.ts';

const timeMs = Date.parse('2026-01-01T12:00:00Z');
const seconds = (count: number) => count * 1_000;

function withGrace(one: Pod, terminationGracePeriodSeconds: number): Pod {
  return { ...one, spec: { ...one.spec, terminationGracePeriodSeconds } };
}

function terminating(deletionGracePeriodSeconds: number, endsInSeconds: number, differs = {}): Pod {
  const deletionTimestamp = new Date(timeMs + seconds(endsInSeconds)).toISOString();
  return pod({ deletionTimestamp, deletionGracePeriodSeconds, ...differs });
}

const left = (one: Pod, tier = 0, forbidsCancellation = false): PodAtDeadline => ({
  pod: one,
  tier,
  forbidsCancellation,
});

const decideBefore = (secondsLeft: number, all: PodAtDeadline[]) =>
  decideDeletions(all, { timeMs, nowMs: timeMs - seconds(secondsLeft) });

/** The times at which pods that can all be deleted are deleted. */
const timesOf = (all: PodAtDeadline[], at = timeMs) =>
  deletionTimes(all, { timeMs: at, firstTier: Math.min(...all.map(({ tier }) => tier)) });

const graces = (secondsLeft: number, all: PodAtDeadline[]) =>
  decideBefore(secondsLeft, all).due.map(({ gracePeriodSeconds }) => gracePeriodSeconds);

describe('a pod is deleted so that it is gone at the deadline', () => {
  test.each([
    { when: 'its grace period fits', grace: 30, secondsLeft: 32, want: [] },
    { when: 'its grace period fits just so', grace: 30, secondsLeft: 31, want: [30] },
    { when: 'the drain begins too late for its grace period', grace: 3_600, secondsLeft: 600, want: [600] },
    { when: 'less than a second is left', grace: 30, secondsLeft: 0.5, want: [1] },
    { when: 'the deadline has passed', grace: 30, secondsLeft: -60, want: [1] },
    { when: 'its own grace period is 0', grace: 0, secondsLeft: 2, want: [1] },
  ])('$when', ({ grace, secondsLeft, want }) => {
    expect(graces(secondsLeft, [left(withGrace(pod(), grace))])).toEqual(want);
  });

  test('the decision says when the next pod is due', () => {
    const decision = decideBefore(3_600, [left(pod()), left(withGrace(pod(), 600))]);
    expect(decision).toEqual({ due: [], nextAtMs: timeMs - seconds(601) });
  });

  test('a pod whose Evacuation says Forbid, and a static pod, are never deleted', () => {
    const decision = decideBefore(-60, [left(pod(), 0, true), left(mirrorPod())]);
    expect(decision).toEqual({ due: [], nextAtMs: undefined });
  });
});

describe('a pod that is terminating', () => {
  test.each([
    { when: 'and is gone in time, is not deleted', one: terminating(30, -10), secondsLeft: 20, want: [] },
    {
      when: 'and would outlive the deadline, gets a shorter grace period',
      one: terminating(3_600, 3_000),
      secondsLeft: 600,
      want: [600],
    },
    { when: 'past the deadline, gets a second', one: terminating(3_600, 3_000), secondsLeft: -5, want: [1] },
    {
      when: 'past the deadline with a grace period of a second, is not deleted again',
      one: terminating(1, 3),
      secondsLeft: -5,
      want: [],
    },
  ])('$when', ({ one, secondsLeft, want }) => {
    expect(graces(secondsLeft, [left(one)])).toEqual(want);
  });

  test('in a later tier, keeps its grace period until the deadline is near', () => {
    const all = [left(pod()), left(terminating(9_000, 1_000), 1)];
    expect(graces(3_600, all)).toEqual([]);
    expect(graces(600, [left(pod()), left(terminating(9_000, 8_500), 1)])).toEqual([600]);
  });

  // The apiserver counts the shorter period from the first deletion: if it is over, it kills the pod at once.
  test.each([
    { when: 'in the first tier', tier: 0 },
    { when: 'in a later tier', tier: 1 },
  ])('$when, keeps its grace period until the last second if it has had more than is left', ({ tier }) => {
    const all = [left(pod()), left(terminating(9_000, 1_000), tier)];
    const { due, nextAtMs } = decideBefore(600, all);
    expect(due).toEqual([]);
    expect(nextAtMs).toBe(timeMs - seconds(31));
    expect(decideBefore(600, all.slice(1)).nextAtMs).toBe(timeMs - seconds(1));
    expect(graces(1, all.slice(1))).toEqual([1]);
  });
});

describe('tiers', () => {
  const slow = left(withGrace(pod({ name: 'slow' }), 300), 1);

  test('an earlier tier is deleted before a later one, and does not hold it back', () => {
    const { due } = decideBefore(301, [slow, left(pod({ name: 'quick' }))]);
    expect(
      due.map(({ pod: { metadata }, gracePeriodSeconds }) => [metadata.name, gracePeriodSeconds]),
    ).toEqual([
      ['quick', 30],
      ['slow', 300],
    ]);
  });

  test('pods of an earlier tier that are stuck hold nothing back', () => {
    expect(graces(3_601, [left(terminating(30, -5_000)), left(withGrace(pod(), 3_600), 1)])).toEqual([3_600]);
  });

  test.each([
    { when: 'is not deleted', earlier: left(pod(), 0, true) },
    { when: 'has its grace period', earlier: left(terminating(9_000, -10)) },
  ])('a later tier waits until the deadline is near if a pod of an earlier tier $when', ({ earlier }) => {
    const all = [earlier, left(withGrace(pod(), 7_200), 1)];
    expect(decideBefore(7_201, all)).toEqual({ due: [], nextAtMs: timeMs - maxLeadOfLaterTiersMs });
    expect(graces(600, all)).toEqual([600]);
  });

  test('one pod of a later tier, with a grace period of days, cannot have the others deleted at once', () => {
    const patient = left(withGrace(pod(), 5 * 86_400), 1);
    const decision = decideBefore(3_600, [left(pod()), patient]);
    expect(decision).toEqual({ due: [], nextAtMs: timeMs - maxLeadOfLaterTiersMs });
  });
});

const anyGrace = fc.oneof(fc.integer({ min: 0, max: 700 }), fc.integer({ min: 0, max: 1_000_000 }));
const anyPod = fc
  .record({
    of: fc.constantFrom(pod, daemonPod, mirrorPod),
    grace: anyGrace,
    tier: fc.integer({ min: 0, max: 4 }),
    forbidsCancellation: fc.boolean(),
    terminates: fc.option(
      fc.record({ of: fc.integer({ min: 0, max: 10_000 }), endsIn: fc.integer({ min: -5_000, max: 5_000 }) }),
      { nil: undefined },
    ),
  })
  .map(({ of, grace, tier, forbidsCancellation, terminates }): PodAtDeadline => {
    const differs =
      terminates === undefined
        ? {}
        : {
            deletionTimestamp: new Date(timeMs + seconds(terminates.endsIn)).toISOString(),
            deletionGracePeriodSeconds: terminates.of,
          };
    return { pod: withGrace(of(differs), grace), tier, forbidsCancellation };
  });
const anyPods = fc.array(anyPod, { maxLength: 12 });
const anyNow = fc.integer({ min: -20_000, max: 2_000 }).map((offset) => timeMs + seconds(offset));

describe('laws', () => {
  test('no grace period is below a second or above that of the pod, and what is excluded stays', () => {
    fc.assert(
      fc.property(anyPods, anyNow, (all, nowMs) => {
        for (const { pod: one, gracePeriodSeconds } of decideDeletions(all, { timeMs, nowMs }).due) {
          const given = all.find((other) => other.pod === one);
          const { terminationGracePeriodSeconds = 30 } = one.spec;
          const longest =
            one.metadata.deletionGracePeriodSeconds ?? Math.max(1, terminationGracePeriodSeconds);
          expect(Number.isInteger(gracePeriodSeconds)).toBe(true);
          expect(gracePeriodSeconds).toBeGreaterThanOrEqual(1);
          expect(gracePeriodSeconds).toBeLessThanOrEqual(longest);
          expect(given?.forbidsCancellation).toBe(false);
          expect(podTypeOf(one)).not.toBe('Static');
          // It ends at the deadline, or a second from now.
          expect(nowMs + seconds(gracePeriodSeconds)).toBeLessThanOrEqual(
            Math.max(timeMs, nowMs + seconds(1)),
          );
        }
      }),
    );
  });

  test('no pod of a later tier is deleted before one of an earlier tier', () => {
    fc.assert(
      fc.property(anyPods, (all) => {
        const planned = timesOf(all);
        for (const earlier of planned)
          for (const later of planned)
            if (earlier.tier < later.tier) expect(earlier.atMs).toBeLessThanOrEqual(later.atMs);
        expect(planned).toHaveLength(all.length);
      }),
    );
  });

  test('what is due stays due, and all that is left is due at the deadline', () => {
    fc.assert(
      fc.property(anyPods, anyNow, (all, nowMs) => {
        const names = (atMs: number) =>
          decideDeletions(all, { timeMs, nowMs: atMs })
            .due.filter(({ pod: { metadata } }) => metadata.deletionTimestamp === undefined)
            .map(({ pod: { metadata } }) => metadata.name);
        const deletable = all.filter(
          (one) =>
            !one.forbidsCancellation &&
            podTypeOf(one.pod) !== 'Static' &&
            one.pod.metadata.deletionTimestamp === undefined,
        );
        expect(names(Math.max(nowMs, timeMs))).toEqual(expect.arrayContaining(names(nowMs)));
        expect(names(timeMs)).toHaveLength(deletable.length);
      }),
    );
  });

  test('an earlier deadline deletes no pod later', () => {
    fc.assert(
      fc.property(anyPods, fc.nat({ max: 10_000 }), (all, secondsEarlier) => {
        const times = (at: number) => timesOf(all, at).map(({ atMs }) => atMs);
        const earlier = times(timeMs - seconds(secondsEarlier));
        for (const [i, atMs] of times(timeMs).entries()) expect(earlier[i]).toBeLessThanOrEqual(atMs);
      }),
    );
  });

  test('hundreds of thousands of pods are decided on together', () => {
    const all = Array.from({ length: 200_000 }, () => left(pod()));
    expect(decideBefore(-1, all).due).toHaveLength(all.length);
    expect(decideBefore(60, all)).toEqual({ due: [], nextAtMs: timeMs - seconds(31) });
  });

  test('the order of the pods does not matter', () => {
    fc.assert(
      fc.property(anyPods, anyNow, (all, nowMs) => {
        const decide = (some: PodAtDeadline[]) => decideDeletions(some, { timeMs, nowMs });
        expect(decide(all.toReversed())).toEqual(decide(all));
      }),
    );
  });
});

describe('the decision of a drain with a deadline that deletes', () => {
  const plan = completeDrainPlan([pods(5000), pods(15000)]);
  const drain = (living: Pod[], secondsLeft: number | undefined): DrainSnapshot => ({
    maintenance: 'own',
    maintenances: [{ name: 'own', createdAt: '2026-01-01T00:00:00Z', plan, position: 0, nodes: ['one'] }],
    nodes: [
      { name: 'one', pods: living.map((one) => ({ pod: one, evacuating: false })), reached: [] },
      { name: 'other', pods: [{ pod: pod({ name: 'elsewhere' }), evacuating: false }], reached: [] },
    ],
    waiting: [],
    published: new Map(),
    deletion: secondsLeft === undefined ? undefined : { timeMs, nowMs: timeMs - seconds(secondsLeft) },
  });
  const [app, late, daemon] = [pod(), pod({ priority: 9000 }), daemonPod({ name: 'daemon' })];

  test('reaches the targets of every tier that it deletes, and keeps the position of the first that is left', () => {
    const { deletions, nodeStatuses, position, evacuate } = decideDrain(drain([daemon, late, app], -1));
    expect(deletions.map(({ pod: one }) => one)).toEqual([app, late, daemon]);
    expect(evacuate).toEqual(expect.arrayContaining([app, late, daemon]));
    expect(position).toBe(0);
    const targets = nodeStatuses[0]?.drainTargets ?? [];
    for (const one of [app, late, daemon]) expect(targetsPod(targets, one)).toBe(true);
  });

  test('touches nothing before, and only the nodes of the maintenance', () => {
    const before = decideDrain(drain([daemon, late, app], 3_600));
    expect(before).toMatchObject({ deletions: [], nextDeletionAtMs: timeMs - seconds(31) });
    expect(before.nodeStatuses).toEqual(decideDrain(drain([daemon, late, app], undefined)).nodeStatuses);
    const names = decideDrain(drain([app], -1)).deletions.map(({ pod: one }) => one.metadata.name);
    expect(names).toEqual([app.metadata.name]);
  });
});
