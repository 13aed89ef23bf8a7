import { describe, expect, test } from '@jest/globals';
import type { PodDisruptionBudget } from '../../api/core.ts';
import { evacuationName, isFor } from '../../domain/evacuation.ts';
import {
  ambiguousMessage,
  askedEviction,
  blockedMessage,
  budgetBlocker,
  budgetsOf,
  isTakenOff,
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
/** As the apiserver makes it. */
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
});

describe('a pod leaves whatever its budget says', () => {
  test.each([
    { when: 'ready and running', of: web, guard: budget(), free: false },
    { when: 'finished', of: pod({ phase: 'Succeeded' }), guard: budget(), free: true },
    { when: 'pending', of: pod({ phase: 'Pending' }), guard: budget(), free: true },
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
      when: 'not ready, nothing desired: it is not known what is healthy',
      of: unready,
      guard: budget({}, { desiredHealthy: 0 }),
      free: false,
    },
  ])('$when: $free', ({ of, guard, free }) => {
    expect(leavesUnguarded(of, guard)).toBe(free);
  });
});

describe('the disruptions that remain', () => {
  test.each([
    { when: 'nothing is under way', allowed: 3, unseen: 0, want: 3 },
    { when: 'the status does not show two evictions', allowed: 3, unseen: 2, want: 1 },
    { when: 'the status allows less than is under way', allowed: 1, unseen: 2, want: 0 },
  ])('$when: $want', ({ allowed, unseen, want }) => {
    expect(remainingDisruptions(budget({}, { disruptionsAllowed: allowed }), unseen)).toBe(want);
  });

  test('are none while the status is not computed, or is of former rules: the eviction API would refuse', () => {
    expect(remainingDisruptions({ metadata: { name: 'new' }, spec: {} }, 0)).toBe(0);
    expect(remainingDisruptions(edited({}, { disruptionsAllowed: 3 }), 0)).toBe(0);
  });

  test.each([
    { when: 'does not name the pod yet', before: {}, after: { other: 't1' }, want: false },
    { when: 'names the pod', before: {}, after: { [web.metadata.name]: 't1' }, want: true },
    {
      when: 'has named it all along, since an eviction that was cut off',
      before: { [web.metadata.name]: 't1' },
      after: { [web.metadata.name]: 't1' },
      want: false,
    },
    {
      when: 'names it anew after an eviction that was cut off',
      before: { [web.metadata.name]: 't1' },
      after: { [web.metadata.name]: 't2' },
      want: true,
    },
  ])('are less an eviction when the status $when: $want', ({ before, after, want }) => {
    const asked = askedEviction(web, budget({}, { disruptedPods: before }));
    expect(isTakenOff(asked, budget({}, { disruptedPods: after }))).toBe(want);
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

  test('says that others go first when the budget does allow disruptions', () => {
    expect(blockedMessage(budget({}, { disruptionsAllowed: 2 }), 0)).toMatch(
      /expectedPods 3\)\. Pods that have waited for longer go first\.$/,
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

  test('says when waiting cannot help, and what does', () => {
    expect(blockedMessage(budget({}, { desiredHealthy: 3 }), 0)).toMatch(
      /can never allow a disruption: add a replica or relax the budget\.$/,
    );
    expect(blockedMessage(budget({ maxUnavailable: 1 }, { expectedPods: 0, desiredHealthy: 0 }), 0)).toMatch(
      /can never allow a disruption: its pods have no controller, so give it a minAvailable that is a number\.$/,
    );
  });

  test('names every budget of a pod that has more than one', () => {
    expect(
      ambiguousMessage([budget(), { ...budget(), metadata: { name: 'a', namespace: 'default' } }]),
    ).toMatch(/\(default\/a, default\/web\)/);
  });
});

describe('a budget can never allow a disruption', () => {
  test.each([
    { when: 'maxUnavailable 0, before its status is computed', guard: uncomputed({ maxUnavailable: 0 }) },
    { when: 'maxUnavailable 0 %, likewise', guard: uncomputed({ maxUnavailable: '0%' }) },
    { when: 'minAvailable 100 %, likewise', guard: uncomputed({ minAvailable: '100%' }) },
    { when: 'maxUnavailable 0', guard: budget({ maxUnavailable: 0 }, { desiredHealthy: 3 }) },
    { when: 'as many desired as there are', guard: budget({ minAvailable: 3 }, { desiredHealthy: 3 }) },
    { when: 'more desired than there are', guard: budget({ minAvailable: 5 }, { desiredHealthy: 5 }) },
    {
      when: 'a percentage that rounds up to all',
      guard: budget({ minAvailable: '90%' }, { desiredHealthy: 3 }),
    },
    {
      when: 'pods that no controller counts',
      guard: budget({ maxUnavailable: 1 }, { expectedPods: 0, desiredHealthy: 0 }),
    },
  ])('$when', ({ guard }) => {
    expect(budgetBlocker(guard).reason).toBe('DisruptionBudgetNeverAllows');
  });
});

describe('a budget may allow a disruption by itself', () => {
  test.each([
    { when: 'its status is not there', guard: { ...budget(), status: undefined } as never },
    { when: 'its status is not computed', guard: uncomputed({ minAvailable: 2 }) },
    { when: 'its status is of former rules', guard: edited({ maxUnavailable: 1 }, { desiredHealthy: 3 }) },
    { when: 'it is used up', guard: budget({ minAvailable: 2 }, { currentHealthy: 2 }) },
    { when: 'its pods are not healthy', guard: budget({ maxUnavailable: 1 }, { currentHealthy: 0 }) },
    {
      when: 'it has no pods',
      guard: budget({ maxUnavailable: 1 }, { currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 }),
    },
  ])('$when', ({ guard }) => {
    expect(budgetBlocker(guard).reason).toBe('DisruptionBudget');
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
