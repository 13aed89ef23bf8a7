import { describe, expect, test } from '@jest/globals';
import { decideDrain } from '../../../domain/drain/decide.ts';
import { completeDrainPlan } from '../../../domain/drain/plan.ts';
import { terminatingSinceMs, terminationText } from '../../../domain/evacuation/termination.ts';
import { emptyStatus, withDrain } from '../../../domain/maintenance/status.ts';
import { pod, pods } from '../../kit/builders.ts';

const now = '2026-01-01T12:00:00Z';
const terminating = (name: string, end: string, grace: number, finalizers: string[] = []) =>
  pod({
    name,
    namespace: 'shop',
    deletionTimestamp: end,
    deletionGracePeriodSeconds: grace,
    ...(finalizers.length > 0 && { finalizers }),
  });

describe('a terminating pod', () => {
  test.each([
    { finalizers: [], want: '' },
    { finalizers: ['example.com/backup'], want: '; finalizer example.com/backup' },
    { finalizers: ['b/b', 'a/a'], want: '; finalizers a/a, b/b' },
    { finalizers: ['e/e', 'd/d', 'c/c', 'b/b', 'a/a'], want: '; finalizers a/a, b/b, c/c and 2 more' },
    { finalizers: [`x/${'y'.repeat(500)}`], want: `; finalizer x/${'y'.repeat(97)}…` },
  ])('is described with its grace period and finalizers$want', ({ finalizers, want }) => {
    const text = terminationText(terminating('db-0', '2026-01-01T13:00:00Z', 3600, finalizers));
    expect(text).toBe(`its grace period of 3600 s ends at 2026-01-01T13:00:00Z${want}`);
  });

  test('terminates since its deletion, whose time is that of its end without the grace period', () => {
    const since = terminatingSinceMs(terminating('db-0', '2026-01-01T13:00:00Z', 3600));
    expect(new Date(since).toISOString()).toBe('2026-01-01T12:00:00.000Z');
    expect(terminatingSinceMs(pod())).toBeNaN();
  });

  test('is described by the maintenance from its first moment, also in a later tier; of many, those that end last', () => {
    const plan = completeDrainPlan([pods(1000)]);
    const own = { name: 'own', createdAt: now, plan, position: 0, nodes: ['one'] };
    const later = terminating('later', '2026-01-01T12:10:00Z', 600, ['x/y']);
    const all = [
      ...[1, 2, 3].map((i) => terminating(`db-${i}`, `2026-01-01T12:00:0${i}Z`, 5)),
      { ...later, spec: { ...later.spec, priority: 5000 } },
    ];
    const decision = decideDrain({
      maintenance: 'own',
      maintenances: [own],
      nodes: [{ name: 'one', pods: all.map((one) => ({ pod: one, evacuating: false })), reached: [] }],
      waiting: [],
      published: new Map(),
    });
    const status = withDrain(emptyStatus, decision, {
      planLength: plan.length,
      now,
      existing: new Set(['one']),
    });
    expect(status.conditions[0]?.message).toBe(
      '4 pods left to evacuate; 4 terminating: shop/later (its grace period of 600 s ends at 2026-01-01T12:10:00Z; finalizer x/y), shop/db-3 (its grace period of 5 s ends at 2026-01-01T12:00:03Z), shop/db-2 (its grace period of 5 s ends at 2026-01-01T12:00:02Z) and 1 more.',
    );
  });
});
