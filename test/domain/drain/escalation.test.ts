import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { DrainDeadline } from '../../../api/drainDeadline.ts';
import type { DrainDeadlineStatus } from '../../../api/nodeMaintenance.ts';
import {
  deadlineInMs,
  drainDeadlineOf,
  durationMs,
  escalationAt,
  isPastDeadline,
  nextStepInMs,
  ownersOf,
  stepsDone,
  withStepsDone,
} from '../../../domain/drain/escalation.ts';
import { pod } from '../../kit/builders.ts';

const begin = '2026-01-01T12:00:00Z';
const stageStatuses = [{ name: 'Drain' as const, startTimestamp: begin }];
const spec = (differs: Partial<DrainDeadline> = {}): DrainDeadline =>
  DrainDeadline.parse({ ...(differs.at === undefined && { after: '2h' }), ...differs });
const deadlineOf = (one: DrainDeadline, before?: DrainDeadlineStatus): DrainDeadlineStatus => {
  const found = drainDeadlineOf(one, { stageStatuses, ...(before && { drainDeadline: before }) });
  if (found === undefined) throw new Error('there is no deadline');
  return found;
};
const at = (time: string) => Date.parse(time);

test.each([
  ['2h', 7_200_000],
  ['1h30m', 5_400_000],
  ['45s', 45_000],
])('the duration %s', (text, ms) => {
  expect(durationMs(text)).toBe(ms);
});

describe('the deadline', () => {
  test('counts from the start of Drain, with a step an hour and a quarter of an hour before', () => {
    expect(deadlineOf(spec())).toEqual({
      time: '2026-01-01T14:00:00Z',
      steps: [
        { time: '2026-01-01T13:00:00Z', action: 'Notify' },
        { time: '2026-01-01T13:45:00Z', action: 'Notify' },
        { time: '2026-01-01T14:00:00Z', action: 'Report' },
      ],
    });
  });

  test('is not known before Drain has started', () => {
    expect(drainDeadlineOf(spec(), { stageStatuses: [] })).toBeUndefined();
    expect(drainDeadlineOf(undefined, { stageStatuses })).toBeUndefined();
  });

  test('is not relaxed by a later, looser one, and keeps the steps that are done', () => {
    const before = withStepsDone(deadlineOf(spec()), deadlineOf(spec()).steps.slice(0, 1), begin);
    const looser = deadlineOf(spec({ after: '9h' }), before);
    expect(looser).toEqual(before);
    const earlier = deadlineOf(spec({ at: '2026-01-01T13:30:00Z', onDeadline: 'Delete' }), before);
    expect(earlier).toEqual({
      time: '2026-01-01T13:30:00Z',
      steps: [
        { time: '2026-01-01T12:30:00Z', action: 'Notify', doneAt: begin },
        { time: '2026-01-01T13:15:00Z', action: 'Notify' },
        { time: '2026-01-01T13:30:00Z', action: 'Delete' },
      ],
    });
  });

  test('never moves back, whatever the spec says afterwards', () => {
    const anySpec = fc.integer({ min: 1, max: 10_000 }).map((minutes) => spec({ after: `${minutes}m` }));
    fc.assert(
      fc.property(fc.array(anySpec, { minLength: 1 }), (specs) => {
        let before: DrainDeadlineStatus | undefined;
        for (const one of specs) {
          const next = deadlineOf(one, before);
          expect(at(next.time)).toBeLessThanOrEqual(at(before?.time ?? next.time));
          before = next;
        }
      }),
    );
  });
});

describe('whether the deadline has passed', () => {
  const time = '2026-01-01T14:00:00Z';
  const asIn = (drainDeadline: DrainDeadline | undefined, status: object) =>
    ({ spec: { ...(drainDeadline && { drainDeadline }) }, status }) as unknown as Parameters<
      typeof isPastDeadline
    >[0];
  test.each([
    {
      when: 'a second before it',
      of: asIn(spec(), { stageStatuses }),
      now: '2026-01-01T13:59:59Z',
      inMs: 1_000,
    },
    { when: 'at it', of: asIn(spec(), { stageStatuses }), now: time, inMs: 0 },
    { when: 'after it', of: asIn(spec(), { stageStatuses }), now: '2026-01-01T14:00:02Z', inMs: -2_000 },
    {
      when: 'after it, once a later one was asked for',
      of: asIn(spec({ after: '9h' }), { stageStatuses, drainDeadline: deadlineOf(spec()) }),
      now: '2026-01-01T14:00:02Z',
      inMs: -2_000,
    },
    { when: 'without one', of: asIn(undefined, { stageStatuses }), now: time },
    {
      when: 'after one was removed',
      of: asIn(undefined, { stageStatuses, drainDeadline: deadlineOf(spec()) }),
      now: time,
    },
    {
      when: 'before Drain, after one at a time',
      of: asIn(spec({ at: begin }), { stageStatuses: [] }),
      now: time,
    },
  ])('$when', ({ of, now, inMs }) => {
    expect(deadlineInMs(of, new Date(now))).toBe(inMs);
    expect(isPastDeadline(of, new Date(now))).toBe(inMs !== undefined && inMs <= 0);
  });

  test.each([
    {
      when: 'after it, if the nodes were drained in time',
      drainedAt: '2026-01-01T13:59:59.900Z',
      want: false,
    },
    { when: 'after it, if the nodes were drained at it', drainedAt: time, want: true },
    { when: 'after it, if the nodes were drained too late', drainedAt: '2026-01-01T15:00:00Z', want: true },
    {
      when: 'after it, if it was moved forward once the nodes were drained',
      drainedAt: '2026-01-01T13:30:00Z',
      changed: spec({ after: '30m' }),
      want: false,
    },
  ])('$when: $want', ({ drainedAt, changed = spec(), want }) => {
    const of = asIn(changed, { stageStatuses, drainDeadline: { ...deadlineOf(spec()), drainedAt } });
    expect(isPastDeadline(of, new Date('2026-01-01T18:00:00Z'))).toBe(want);
  });
});

describe('an escalation', () => {
  const deadline = deadlineOf(spec());
  const done = (one: DrainDeadlineStatus, nowMs: number) =>
    withStepsDone(one, escalationAt(one, nowMs).due, new Date(nowMs).toISOString());

  test.each([
    { when: 'before its first step', now: '2026-01-01T12:59:59Z', due: 0, next: '2026-01-01T13:00:00Z' },
    { when: 'at its first step', now: '2026-01-01T13:00:00Z', due: 1, next: '2026-01-01T13:45:00Z' },
    {
      when: 'after two steps in an outage',
      now: '2026-01-01T13:50:00Z',
      due: 2,
      next: '2026-01-01T14:00:00Z',
    },
    { when: 'after the deadline', now: '2026-01-02T00:00:00Z', due: 3, next: undefined },
  ])('$when', ({ now, due, next }) => {
    const escalation = escalationAt(deadline, at(now));
    expect(escalation.due).toHaveLength(due);
    expect(escalation.nextAtMs).toBe(next && at(next));
  });

  test('does each step once, at whatever times it runs, and all of them in the end', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 9_000_000 })), (offsets) => {
        let current = deadline;
        const steps: string[] = [];
        for (const offset of [...offsets.toSorted((a, b) => a - b), 9_000_000]) {
          const nowMs = at(begin) + offset;
          steps.push(...escalationAt(current, nowMs).due.map(({ time }) => time));
          current = done(current, nowMs);
        }
        expect(steps).toEqual(deadline.steps.map(({ time }) => time));
        expect(current.steps.every(({ doneAt }) => doneAt !== undefined)).toBe(true);
      }),
    );
  });

  test('does nothing once the nodes were drained', () => {
    const drained = { ...deadline, drainedAt: begin };
    expect(escalationAt(drained, at('2026-01-02T00:00:00Z'))).toEqual({ due: [], nextAtMs: undefined });
  });

  test('has each step in the history once, also after the deadline was moved forward', () => {
    const planned = deadlineOf(spec());
    expect(stepsDone(undefined)).toEqual({ done: [], recorded: [] });
    expect(stepsDone(planned)).toEqual({ done: [], recorded: [] });
    const first = withStepsDone(planned, planned.steps.slice(0, 1), begin);
    const recorded = ['Notify-3600'];
    expect(stepsDone(first)).toEqual({ done: ['Notify 2026-01-01T13:00:00Z'], recorded });
    expect(stepsDone(first, recorded)).toEqual({ done: [], recorded });
    const moved = deadlineOf(spec({ at: '2026-01-01T13:30:00Z' }), first);
    expect(stepsDone(moved, recorded)).toEqual({ done: [], recorded });
    expect(stepsDone(withStepsDone(moved, moved.steps, begin), recorded)).toEqual({
      done: ['Notify 2026-01-01T13:15:00Z', 'Report 2026-01-01T13:30:00Z'],
      recorded: ['Notify-3600', 'Notify-900', 'Report-0'],
    });
  });

  test('says when it continues', () => {
    const maintenance = (drainDeadline: DrainDeadlineStatus) =>
      ({ status: { drainDeadline } }) as unknown as Parameters<typeof nextStepInMs>[0];
    expect(nextStepInMs(maintenance(deadline), new Date(begin))).toBe(3_600_000);
    expect(nextStepInMs(maintenance(deadline), new Date('2026-01-01T13:10:00Z'))).toBe(0);
    const over = done(deadline, at('2026-01-02T00:00:00Z'));
    expect(nextStepInMs(maintenance(over), new Date('2026-01-02T00:00:00Z'))).toBeUndefined();
    expect(nextStepInMs({}, new Date(begin))).toBeUndefined();
  });
});

describe('the owners of pods', () => {
  const owned = (owner: string) => pod({ annotations: { 'nodemaintenance.k8s.io/owner': owner } });

  test('are named with the number of their pods, those with the most first', () => {
    const pods = [owned('team-b'), owned('team-a'), owned('team-b'), pod()];
    expect(ownersOf(pods)).toMatchObject([
      { owner: 'team-b', pods: { count: 2 } },
      { owner: 'team-a', pods: { count: 1 } },
    ]);
  });

  test('are few, on one line and short, whatever the annotations say', () => {
    const hostile = [
      owned(`a\nb\u202e${'x'.repeat(1_000_000)}`),
      owned(' \n '),
      ...Array.from({ length: 50 }, (_, i) => owned(`o${i}`)),
    ];
    const owners = ownersOf(hostile);
    expect(owners).toHaveLength(20);
    const all = ownersOf(hostile.slice(0, 2));
    expect(all).toHaveLength(1);
    expect(all[0]?.owner).toMatch(/^a b\\u202ex+…$/);
    expect(all[0]?.owner.length).toBeLessThanOrEqual(253);
  });
});
