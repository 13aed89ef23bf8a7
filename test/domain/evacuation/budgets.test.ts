import { describe, expect, test } from '@jest/globals';
import type { PodDisruptionBudget } from '../../../api/core.ts';
import { evacuationName, isFor } from '../../../domain/evacuation/evacuation.ts';
import {
  multipleBudgetsMessage,
  pendingEviction,
  blockedMessage,
  budgetBlocker,
  budgetsOf,
  isCounted,
  bypassesBudget,
  remainingDisruptions,
} from '../../../domain/evacuation/budgets.ts';
import { withCondition } from '../../../domain/common/conditions.ts';
import { pod } from '../../kit/builders.ts';

const budget = (
  differs: Partial<PodDisruptionBudget['spec']> = {},
  status: Partial<NonNullable<PodDisruptionBudget['status']>> = {},
): PodDisruptionBudget => ({
  metadata: { name: 'web', namespace: 'default' },
  spec: { selector: { matchLabels: { app: 'web' } }, ...differs },
  status: { disruptionsAllowed: 0, currentHealthy: 3, desiredHealthy: 2, expectedPods: 3, ...status },
});
/** A new budget, with the status that the apiserver sets. */
const uncomputed = (spec: Partial<PodDisruptionBudget['spec']>): PodDisruptionBudget => {
  const made = budget(spec, { currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 });
  return { ...made, metadata: { ...made.metadata, generation: 1 } };
};
const edited = (...differs: Parameters<typeof budget>): PodDisruptionBudget => {
  const [spec, status] = differs;
  const computed = budget(spec, { ...status, observedGeneration: 1 });
  return { ...computed, metadata: { ...computed.metadata, generation: 2 } };
};
const disrupted = (spec: Partial<PodDisruptionBudget['spec']> = {}) => budget(spec, { currentHealthy: 1 });
const web = pod({ labels: { app: 'web' } });
const unready = pod({ labels: { app: 'web' }, ready: false });

describe('the budgets of a pod', () => {
  test('are those of its namespace whose selector matches; a null selector matches no pod, an empty one all', () => {
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
});

describe('a pod bypasses its budget', () => {
  test.each([
    { when: 'ready and running', of: web, guard: budget(), free: false },
    { when: 'finished', of: pod({ phase: 'Succeeded' }), guard: budget(), free: true },
    { when: 'pending', of: pod({ phase: 'Pending' }), guard: budget(), free: true },
    { when: 'lost with its node', of: pod({ phase: 'Unknown' }), guard: budget(), free: false },
    { when: 'not ready, application healthy', of: unready, guard: budget(), free: true },
    { when: 'not ready, application disrupted', of: unready, guard: disrupted(), free: false },
    {
      when: 'not ready, application disrupted, IfHealthyBudget',
      of: unready,
      guard: disrupted({ unhealthyPodEvictionPolicy: 'IfHealthyBudget' }),
      free: false,
    },
    {
      when: 'not ready, application disrupted, AlwaysAllow',
      of: unready,
      guard: disrupted({ unhealthyPodEvictionPolicy: 'AlwaysAllow' }),
      free: true,
    },
    {
      when: 'ready, application disrupted, AlwaysAllow',
      of: web,
      guard: disrupted({ unhealthyPodEvictionPolicy: 'AlwaysAllow' }),
      free: false,
    },
    {
      when: 'not ready, desiredHealthy 0',
      of: unready,
      guard: budget({}, { desiredHealthy: 0 }),
      free: false,
    },
  ])('$when: $free', ({ of, guard, free }) => {
    expect(bypassesBudget(of, guard)).toBe(free);
  });
});

describe('the remaining disruptions', () => {
  test.each([
    { when: 'nothing is in progress', allowed: 3, uncounted: 0, want: 3 },
    { when: 'the status does not count two evictions', allowed: 3, uncounted: 2, want: 1 },
    { when: 'the status allows less than is in progress', allowed: 1, uncounted: 2, want: 0 },
  ])('$when: $want', ({ allowed, uncounted, want }) => {
    expect(remainingDisruptions(budget({}, { disruptionsAllowed: allowed }), uncounted)).toBe(want);
  });

  test('are none while the status is missing or older than the spec, because the eviction API would reject evictions', () => {
    expect(remainingDisruptions({ metadata: { name: 'new' }, spec: {} }, 0)).toBe(0);
    expect(remainingDisruptions(edited({}, { disruptionsAllowed: 3 }), 0)).toBe(0);
  });

  test.each([
    { when: 'does not name the pod yet', before: {}, after: { other: 't1' }, want: false },
    { when: 'names the pod', before: {}, after: { [web.metadata.name]: 't1' }, want: true },
    {
      when: 'still names it from an interrupted eviction',
      before: { [web.metadata.name]: 't1' },
      after: { [web.metadata.name]: 't1' },
      want: false,
    },
    {
      when: 'names it again after an interrupted eviction',
      before: { [web.metadata.name]: 't1' },
      after: { [web.metadata.name]: 't2' },
      want: true,
    },
  ])('count an eviction when the status $when: $want', ({ before, after, want }) => {
    const pending = pendingEviction(web, budget({}, { disruptedPods: before }));
    expect(isCounted(pending, budget({}, { disruptedPods: after }))).toBe(want);
  });
});

describe('the message of a blocked eviction', () => {
  test('names the budget and its numbers', () => {
    expect(blockedMessage(budget(), 0)).toBe(
      'Blocked by PodDisruptionBudget default/web (disruptionsAllowed 0, currentHealthy 3, desiredHealthy 2, expectedPods 3).',
    );
  });

  test('contains the number of our own evictions in progress', () => {
    expect(blockedMessage(budget({}, { disruptionsAllowed: 2 }), 2)).toMatch(
      /expectedPods 3\)\. 2 evictions are in progress\.$/,
    );
  });

  test('names the evicted pods that still exist', () => {
    const disruptedPods = { 'web-2': '2026-01-01T00:00:00Z', 'web-1': '2026-01-01T00:00:00Z' };
    expect(blockedMessage(budget({}, { disruptedPods }), 0)).toMatch(
      /expectedPods 3\)\. Waiting for web-1, web-2 to terminate; an interrupted eviction stops counting after two minutes\.$/,
    );
  });

  test('says that other pods are evicted first when the budget allows disruptions', () => {
    expect(blockedMessage(budget({}, { disruptionsAllowed: 2 }), 0)).toMatch(
      /expectedPods 3\)\. Pods that have waited longer are evicted first\.$/,
    );
  });

  test('names the budget before its status is computed', () => {
    expect(blockedMessage(uncomputed({ maxUnavailable: 1 }), 0)).toBe(
      'Blocked by PodDisruptionBudget default/web: its status is not computed yet.',
    );
    expect(blockedMessage(uncomputed({ maxUnavailable: 0 }), 0)).toBe(
      'Blocked by PodDisruptionBudget default/web: its status is not computed yet. It can never allow a disruption: add a replica or relax the budget.',
    );
  });

  test('contains a remedy when the budget never allows a disruption', () => {
    expect(blockedMessage(budget({}, { desiredHealthy: 3 }), 0)).toMatch(
      /can never allow a disruption: add a replica or relax the budget\.$/,
    );
    expect(blockedMessage(budget({ maxUnavailable: 1 }, { expectedPods: 0, desiredHealthy: 0 }), 0)).toMatch(
      /can never allow a disruption: its pods have no controller, so set minAvailable to an absolute number\.$/,
    );
  });

  test('names every budget of a pod that has more than one', () => {
    expect(
      multipleBudgetsMessage([budget(), { ...budget(), metadata: { name: 'a', namespace: 'default' } }]),
    ).toMatch(/\(default\/a, default\/web\)/);
  });
});

describe('a budget can never allow a disruption', () => {
  test.each([
    { when: 'maxUnavailable 0, before its status is computed', guard: uncomputed({ maxUnavailable: 0 }) },
    {
      when: 'maxUnavailable 0 %, before its status is computed',
      guard: uncomputed({ maxUnavailable: '0%' }),
    },
    {
      when: 'minAvailable 100 %, before its status is computed',
      guard: uncomputed({ minAvailable: '100%' }),
    },
    { when: 'maxUnavailable 0', guard: budget({ maxUnavailable: 0 }, { desiredHealthy: 3 }) },
    {
      when: 'desiredHealthy equal to the number of pods',
      guard: budget({ minAvailable: 3 }, { desiredHealthy: 3 }),
    },
    {
      when: 'desiredHealthy greater than the number of pods',
      guard: budget({ minAvailable: 5 }, { desiredHealthy: 5 }),
    },
    {
      when: 'a percentage that rounds up to all pods',
      guard: budget({ minAvailable: '90%' }, { desiredHealthy: 3 }),
    },
    {
      when: 'pods without a controller',
      guard: budget({ maxUnavailable: 1 }, { expectedPods: 0, desiredHealthy: 0 }),
    },
  ])('$when', ({ guard }) => {
    expect(budgetBlocker(guard).reason).toBe('DisruptionBudgetNeverAllows');
  });
});

describe('a budget may allow a disruption by itself', () => {
  test.each([
    { when: 'its status is missing', guard: { ...budget(), status: undefined } as never },
    { when: 'its status is not computed', guard: uncomputed({ minAvailable: 2 }) },
    {
      when: 'its status is older than its spec',
      guard: edited({ maxUnavailable: 1 }, { desiredHealthy: 3 }),
    },
  ])('$when', ({ guard }) => {
    expect(budgetBlocker(guard)).toEqual({
      reason: 'DisruptionBudget',
      message: expect.stringMatching(
        / has no current status yet, .*, check that kube-controller-manager runs\.$/,
      ),
    });
  });

  test.each([
    { when: 'it is used up', guard: budget({ minAvailable: 2 }, { currentHealthy: 2 }) },
    { when: 'its pods are not healthy', guard: budget({ maxUnavailable: 1 }, { currentHealthy: 0 }) },
    {
      when: 'it has no pods',
      guard: budget({ maxUnavailable: 1 }, { currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 }),
    },
  ])('$when', ({ guard }) => {
    expect(budgetBlocker(guard)).toEqual({
      reason: 'DisruptionBudget',
      message: expect.stringMatching(/ allows no disruption now\.$/),
    });
  });
});

describe('the name of an Evacuation', () => {
  test("is the KEP's <podUID>-<podName>", () => {
    const metadata = { uid: 'f5823a89-e03f-4752-b013-445643b8c7a0', name: 'muffin-orders-6b59d9cb88-ks7wb' };
    expect(evacuationName(metadata)).toBe(
      'f5823a89-e03f-4752-b013-445643b8c7a0-muffin-orders-6b59d9cb88-ks7wb',
    );
  });

  test('is cut to 253 characters and ends with a letter or digit', () => {
    const name = evacuationName({ uid: 'u'.repeat(36), name: `${'n'.repeat(215)}.-tail` });
    expect(name).toBe(`${'u'.repeat(36)}-${'n'.repeat(215)}`);
  });

  test('differs for another pod of the same name', () => {
    expect(isFor({ name: web.metadata.name, uid: 'other' }, web)).toBe(false);
    expect(isFor({ name: web.metadata.name, uid: web.metadata.uid ?? '' }, web)).toBe(true);
  });
});

describe('a condition', () => {
  const facts = { type: 'Drained', status: 'False', reason: 'Draining', message: '' } as const;
  test('keeps its transition time while its status is unchanged', () => {
    const first = withCondition([], facts, 't1');
    expect(withCondition(first, { ...facts, message: 'more' }, 't2')).toEqual([
      { ...facts, message: 'more', lastTransitionTime: 't1' },
    ]);
    expect(withCondition(first, { ...facts, status: 'True' }, 't2')).toEqual([
      { ...facts, status: 'True', lastTransitionTime: 't2' },
    ]);
  });
});
