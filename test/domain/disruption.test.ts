import { describe, expect, test } from '@jest/globals';
import type { PodDisruptionBudget } from '../../api/core.ts';
import { evacuationName, isFor } from '../../domain/evacuation.ts';
import {
  ambiguousMessage,
  blockedMessage,
  budgetsOf,
  leavesUnguarded,
  remainingDisruptions,
} from '../../domain/disruption.ts';
import { withCondition } from '../../domain/conditions.ts';
import { pod } from '../kit/builders.ts';

const budget = (
  differs: Partial<PodDisruptionBudget['spec']> = {},
  status: Partial<NonNullable<PodDisruptionBudget['status']>> = {},
): PodDisruptionBudget => ({
  metadata: { name: 'web', namespace: 'default' },
  spec: { selector: { matchLabels: { app: 'web' } }, ...differs },
  status: { disruptionsAllowed: 0, currentHealthy: 3, desiredHealthy: 2, expectedPods: 3, ...status },
});
const web = pod({ labels: { app: 'web' } });

describe('the budgets that guard a pod', () => {
  test('are those of its namespace whose selector matches; no selector matches no pod, an empty one all', () => {
    const named = (
      name: string,
      selector: PodDisruptionBudget['spec']['selector'],
      namespace = 'default',
    ) => ({
      metadata: { name, namespace },
      spec: selector === undefined ? {} : { selector },
    });
    const all = [
      named('match', { matchLabels: { app: 'web' } }),
      named('none', undefined),
      named('all', {}),
      named('far', {}, 'far'),
    ];
    expect(budgetsOf(web, all).map(({ metadata }) => metadata.name)).toEqual(['match', 'all']);
  });

  test.each([
    { when: 'ready and running: guarded', of: web, guard: budget(), free: false },
    { when: 'finished', of: pod({ phase: 'Succeeded' }), guard: budget(), free: true },
    { when: 'pending', of: pod({ phase: 'Pending' }), guard: budget(), free: true },
    { when: 'not ready, application healthy', of: pod({ ready: false }), guard: budget(), free: true },
    {
      when: 'not ready, application disrupted',
      of: pod({ ready: false }),
      guard: budget({}, { currentHealthy: 1 }),
      free: false,
    },
    {
      when: 'not ready, application disrupted, AlwaysAllow',
      of: pod({ ready: false }),
      guard: budget({ unhealthyPodEvictionPolicy: 'AlwaysAllow' }, { currentHealthy: 1 }),
      free: true,
    },
  ])('$when', ({ of, guard, free }) => {
    expect(leavesUnguarded(of, guard)).toBe(free);
  });

  test('evictions that the status does not show yet count', () => {
    expect(remainingDisruptions(budget({}, { disruptionsAllowed: 3 }), 2)).toBe(1);
    expect(remainingDisruptions(budget({}, { disruptionsAllowed: 1 }), 2)).toBe(0);
    expect(remainingDisruptions({ metadata: { name: 'new' }, spec: {} }, 0)).toBe(0);
  });
});

describe('the message of a blocked eviction', () => {
  test('names the budget and its numbers', () => {
    expect(blockedMessage(budget(), 0)).toBe(
      'Blocked by PodDisruptionBudget default/web (disruptionsAllowed 0, currentHealthy 3, desiredHealthy 2, expectedPods 3).',
    );
  });

  test('says when it is our own evictions that have used the budget up', () => {
    expect(blockedMessage(budget({}, { disruptionsAllowed: 2 }), 2)).toMatch(
      /expectedPods 3\)\. 2 evictions are under way\.$/,
    );
  });

  test('names the pods that were evicted and are not gone yet, which may take two minutes', () => {
    const disruptedPods = { 'web-2': '2026-01-01T00:00:00Z', 'web-1': '2026-01-01T00:00:00Z' };
    expect(blockedMessage(budget({}, { disruptedPods }), 0)).toMatch(
      /expectedPods 3\)\. It waits for web-1, web-2 to go, or two minutes for each whose eviction was cut off\.$/,
    );
  });

  test('says when waiting cannot help', () => {
    expect(blockedMessage(budget({}, { desiredHealthy: 3 }), 0)).toMatch(
      /can never allow a disruption: add a replica or relax the budget/,
    );
  });

  test('names every budget of a pod that has more than one', () => {
    expect(
      ambiguousMessage([budget(), { ...budget(), metadata: { name: 'a', namespace: 'default' } }]),
    ).toMatch(/\(default\/a, default\/web\)/);
  });
});

describe('the name of an Evacuation', () => {
  test("is the KEP's <podUID>-<podName>", () => {
    const metadata = { uid: 'f5823a89-e03f-4752-b013-445643b8c7a0', name: 'muffin-orders-6b59d9cb88-ks7wb' };
    expect(evacuationName(metadata)).toBe(
      'f5823a89-e03f-4752-b013-445643b8c7a0-muffin-orders-6b59d9cb88-ks7wb',
    );
  });

  test('is cut to 253 characters and still ends like a name', () => {
    const name = evacuationName({ uid: 'u'.repeat(36), name: `${'n'.repeat(215)}.-tail` });
    expect(name).toBe(`${'u'.repeat(36)}-${'n'.repeat(215)}`);
  });

  test('a namesake is another pod', () => {
    expect(isFor({ name: web.metadata.name, uid: 'other' }, web)).toBe(false);
    expect(isFor({ name: web.metadata.name, uid: web.metadata.uid ?? '' }, web)).toBe(true);
  });
});

describe('a condition', () => {
  const facts = { type: 'Drained', status: 'False', reason: 'Draining', message: '' } as const;
  test('keeps its transition time while its status stays', () => {
    const first = withCondition([], facts, 't1');
    expect(withCondition(first, { ...facts, message: 'more' }, 't2')).toEqual([
      { ...facts, message: 'more', lastTransitionTime: 't1' },
    ]);
    expect(withCondition(first, { ...facts, status: 'True' }, 't2')).toEqual([
      { ...facts, status: 'True', lastTransitionTime: 't2' },
    ]);
  });
});
