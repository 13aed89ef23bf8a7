import { describe, expect, test } from '@jest/globals';
import {
  deletedAt,
  isAboutToBeScheduled,
  needsPlace,
  withoutReplacement,
} from '../../../domain/capacity/replacement.ts';
import { capacityPod } from '../../kit/capacity.ts';
import { daemonPod, mirrorPod, pod } from '../../kit/builders.ts';

// The apiserver sets deletionTimestamp to the end of the grace period.
test.each([
  {
    when: 'its grace period before it is to end',
    deletionGracePeriodSeconds: 30,
    want: '2026-01-01T00:00:30Z',
  },
  { when: 'when it is to end, without a grace period', want: '2026-01-01T00:01:00Z' },
])('a terminating pod was deleted $when', ({ want, deletionGracePeriodSeconds }) => {
  const deletionTimestamp = '2026-01-01T00:01:00Z';
  const grace = deletionGracePeriodSeconds === undefined ? {} : { deletionGracePeriodSeconds };
  expect(deletedAt(pod({ deletionTimestamp, ...grace }))).toBe(Date.parse(want));
  expect(deletedAt(pod())).toBeUndefined();
});

describe('a pod that leaves needs another place', () => {
  const { metadata, ...rest } = capacityPod({ node: 'n1' });
  test.each([
    { when: 'a controller recreates it', one: { metadata, ...rest }, needs: true },
    { when: 'not if nothing recreates it', one: pod(), needs: false },
    { when: 'not if it stays away until Complete', one: daemonPod(), needs: false },
    { when: 'not if it is static', one: mirrorPod(), needs: false },
    {
      when: 'not if it is done',
      one: { metadata, ...rest, status: { phase: 'Succeeded', ready: false } },
      needs: false,
    },
    {
      when: 'not that is known here, if another scheduler finds it',
      one: capacityPod({ node: 'n1', schedulerName: 'batch' }),
      needs: false,
    },
    {
      when: 'not that is known here, if it has more rules than are compared',
      one: capacityPod({ node: 'n1', hasTooManyRules: true }),
      needs: false,
    },
  ])('$when', ({ one, needs }) => {
    expect(needsPlace(one)).toBe(needs);
  });
});

describe('a Pending pod is about to use a place', () => {
  const now = Date.parse('2026-01-01T00:10:00Z');
  const created = (createdAt: string, differs = {}) => capacityPod({ createdAt, ...differs });
  test.each([
    { when: 'if it is new', one: created('2026-01-01T00:09:00Z'), want: true },
    {
      when: 'not if it has waited for longer than the scheduler takes',
      one: created('2026-01-01T00:01:00Z'),
      want: false,
    },
    {
      when: 'not if another scheduler, which may not exist, is to place it',
      one: created('2026-01-01T00:09:00Z', { schedulerName: 'none' }),
      want: false,
    },
    {
      when: 'not if it has more rules than are compared',
      one: created('2026-01-01T00:09:00Z', { hasTooManyRules: true }),
      want: false,
    },
    { when: 'not if it has a node', one: created('2026-01-01T00:09:00Z', { node: 'n1' }), want: false },
  ])('$when', ({ one, want }) => {
    expect(isAboutToBeScheduled(one, now)).toBe(want);
  });
});

describe('the replacement of a pod that leaves', () => {
  const first = capacityPod({ node: 'n1' });
  const second = capacityPod({ node: 'n1' });
  const at = (time: string) => Date.parse(`2026-01-01T00:00:${time}Z`);
  const created = (seconds: string, owner = 'rs') =>
    capacityPod({ owner, createdAt: `2026-01-01T00:00:${seconds}Z` });
  test.each([
    {
      when: 'is missing while the pod runs',
      pods: [created('30')],
      since: [undefined, undefined],
      missing: [first, second],
    },
    {
      when: 'is a later pod of its controller',
      pods: [created('30')],
      since: [at('20'), undefined],
      missing: [second],
    },
    {
      when: 'is no earlier pod',
      pods: [created('10')],
      since: [at('20'), undefined],
      missing: [first, second],
    },
    {
      when: 'is no pod of another controller',
      pods: [created('30', 'other')],
      since: [at('20'), undefined],
      missing: [first, second],
    },
    { when: 'replaces one pod only', pods: [created('30')], since: [at('20'), at('25')], missing: [second] },
  ])('$when', ({ pods, since, missing }) => {
    const leaving = [first, second].map((one, index) => ({ pod: one, since: since[index] }));
    const found = withoutReplacement(leaving, [first, second, ...pods]);
    expect(new Set(found)).toEqual(new Set(missing));
  });
});
