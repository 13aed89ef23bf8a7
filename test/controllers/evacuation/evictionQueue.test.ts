import { jest } from '@jest/globals';
import { EvictionQueue } from '../../../controllers/evacuation/evictionQueue.ts';
import type { Pod, PodDisruptionBudget } from '../../../api/core.ts';
import { byNamespace } from '../../../kube/cluster.ts';
import { Store } from '../../../kube/store.ts';
import { pod } from '../../kit/builders.ts';

let serial = 0;

interface BudgetDiffers {
  name?: string;
  allowed?: number;
  healthy?: number;
  desired?: number;
  generation?: number;
  /** Pods that are evicted and not observed to be gone. */
  disrupted?: Pod[];
  policy?: 'IfHealthyBudget' | 'AlwaysAllow';
}

/** Builds a budget for all pods of the namespace. */
function budget(differs: BudgetDiffers = {}): PodDisruptionBudget {
  const { name = 'web', allowed = 0, desired = 2, healthy = desired + allowed, generation = 1 } = differs;
  const { disrupted = [], policy } = differs;
  serial += 1;
  return {
    metadata: { name, namespace: 'default', uid: name, resourceVersion: String(serial), generation },
    spec: { selector: {}, minAvailable: desired, ...(policy && { unhealthyPodEvictionPolicy: policy }) },
    status: {
      observedGeneration: generation,
      disruptionsAllowed: allowed,
      currentHealthy: healthy,
      desiredHealthy: desired,
      expectedPods: 3,
      disruptedPods: Object.fromEntries(disrupted.map(({ metadata }) => [metadata.name, `at ${serial}`])),
    },
  };
}

/** Creates a queue for these budgets, and records the keys that it wakes. */
function queueFor(...budgets: PodDisruptionBudget[]) {
  const store = new Store<PodDisruptionBudget>({
    [byNamespace]: ({ metadata }) => [metadata.namespace ?? ''],
  });
  const woken: string[] = [];
  const queue = new EvictionQueue(store, (key) => woken.push(key));
  const apply = (changes: ReturnType<typeof store.put>) => {
    for (const change of changes)
      queue.budgetChanged(change.object, change.type === 'Updated' ? change.previous : undefined);
  };
  for (const one of budgets) apply(store.put(one));
  return {
    queue,
    /** Returns the keys woken since the last call, without duplicates. */
    woken: () => [...new Set(woken.splice(0))],
    changed: (next: PodDisruptionBudget) => apply(store.put(next)),
    removed: (name: string) => apply(store.remove(`default/${name}`)),
  };
}

/** Requests admission for each of the keys `a`, `b`, ..., and returns the kinds of the results. */
function admissions(queue: EvictionQueue, keys: string, pods: Pod[] = []): string {
  return keys
    .split('')
    .map((key, index) => queue.admit(key, pods[index] ?? pod()).kind)
    .join(' ');
}

/** Requests admission for each of the keys, which must be admitted, and records that the apiserver accepted the eviction. */
function evicted(queue: EvictionQueue, keys: string, pods: Pod[] = []): void {
  keys.split('').forEach((key, index) => {
    expect(queue.admit(key, pods[index] ?? pod()).kind).toBe('Admitted');
    queue.accepted(key);
  });
}

describe('An eviction is admitted', () => {
  test('at once when no budget selects the pod', () => {
    const { queue } = queueFor();
    expect(admissions(queue, 'abc')).toBe('Admitted Admitted Admitted');
  });

  test('as often as the budget allows, minus admitted evictions that its status does not count yet', () => {
    const { queue } = queueFor(budget({ allowed: 2 }));
    evicted(queue, 'ab');
    expect(admissions(queue, 'cd')).toBe('Waiting Waiting');
  });

  test('when the response to the previous one has arrived, because two evictions of one budget would conflict in its status', () => {
    const { queue, woken } = queueFor(budget({ allowed: 3 }));
    expect(admissions(queue, 'abc')).toBe('Admitted Waiting Waiting');
    queue.accepted('a');
    expect(woken()).toEqual(['b']);
    expect(admissions(queue, 'cb')).toBe('Waiting Admitted');
  });

  test('when the response to the previous one is slow, because that one conflicts with another write and sleeps', () => {
    jest.useFakeTimers();
    try {
      const { queue, woken } = queueFor(budget({ allowed: 3 }));
      admissions(queue, 'abc');
      jest.runOnlyPendingTimers();
      expect(woken()).toEqual(['b']);
      expect(admissions(queue, 'bc')).toBe('Admitted Waiting');
    } finally {
      jest.useRealTimers();
    }
  });

  test('in parallel with the evictions of another budget', () => {
    const app = (name: string) => ({ selector: { matchLabels: { app: name } } });
    const of = (name: string) => ({ ...budget({ name, allowed: 1 }), spec: app(name) });
    const { queue } = queueFor(of('a'), of('b'));
    const pods = [pod({ labels: { app: 'a' } }), pod({ labels: { app: 'b' } })];
    expect(admissions(queue, 'ab', pods)).toBe('Admitted Admitted');
  });

  test('for a pod that does not run, regardless of its budgets', () => {
    const { queue } = queueFor(budget(), budget({ name: 'second' }));
    expect(admissions(queue, 'ab', [pod({ phase: 'Pending' }), pod({ phase: 'Failed' })])).toBe(
      'Admitted Admitted',
    );
  });

  test('not for a pod that was lost with its node, unless its budget allows it', () => {
    const { queue } = queueFor(budget());
    expect(admissions(queue, 'a', [pod({ phase: 'Unknown' })])).toBe('Waiting');
  });

  test('for a pod that is not ready while the application is healthy without it', () => {
    const { queue } = queueFor(budget());
    expect(admissions(queue, 'ab', [pod({ ready: false }), pod({ ready: false })])).toBe('Admitted Admitted');
  });

  test('never while more than one budget selects the pod, and the message names them', () => {
    const { queue } = queueFor(budget({ name: 'web', allowed: 3 }), budget({ name: 'all', allowed: 3 }));
    expect(queue.admit('a', pod())).toEqual({
      kind: 'Waiting',
      message:
        'Blocked by more than one PodDisruptionBudget (default/all, default/web): the eviction API supports only one; make their selectors disjoint.',
      blocker: expect.objectContaining({ reason: 'MultipleDisruptionBudgets' }),
    });
  });

  test('without waiting for a pod that several budgets select', () => {
    const ofTier = { selector: { matchLabels: { tier: 'db' } } };
    const web = budget({ name: 'web', allowed: 1 });
    const { queue, changed, woken, removed } = queueFor(web, {
      ...budget({ name: 'db', allowed: 1 }),
      spec: ofTier,
    });
    const both = pod({ labels: { tier: 'db' } });
    expect(admissions(queue, 'ab', [both])).toBe('Waiting Admitted');
    queue.accepted('b');
    expect(admissions(queue, 'c')).toBe('Waiting');
    changed(budget({ name: 'web', allowed: 2 }));
    expect(woken()).toEqual(['c']);
    expect(admissions(queue, 'c')).toBe('Admitted');
    removed('db');
    expect(woken()).toEqual(['a']);
  });

  test('and without waking itself, if one of its budgets would ignore it', () => {
    const always = budget({ name: 'web', policy: 'AlwaysAllow' });
    const { queue, woken, removed } = queueFor(always, budget({ name: 'db' }));
    const both = pod({ ready: false });
    expect(admissions(queue, 'a', [both])).toBe('Waiting');
    expect(woken()).toEqual([]);
    removed('db');
    expect(woken()).toEqual(['a']);
    expect(admissions(queue, 'a', [both])).toBe('Admitted');
  });

  test('before an older pod, once another budget selects that one', () => {
    const { queue, changed, woken } = queueFor(budget({ name: 'web' }));
    const older = pod({ labels: { tier: 'db' } });
    admissions(queue, 'ab', [older]);
    changed({ ...budget({ name: 'db' }), spec: { selector: { matchLabels: { tier: 'db' } } } });
    changed(budget({ name: 'web', allowed: 1 }));
    expect(woken()).toEqual(['a']);
    expect(queue.admit('a', older).kind).toBe('Waiting');
    expect(woken()).toEqual(['b']);
    expect(admissions(queue, 'b')).toBe('Admitted');
  });

  test('not while the spec of the budget is newer than its status', () => {
    const edited = budget({ allowed: 3 });
    const { queue, changed } = queueFor({ ...edited, metadata: { ...edited.metadata, generation: 2 } });
    expect(admissions(queue, 'a')).toBe('Waiting');
    changed(budget({ allowed: 3, generation: 2 }));
    expect(admissions(queue, 'a')).toBe('Admitted');
  });
});

describe('An eviction counts once', () => {
  test('from when the status of the budget counts it, long before its pod is observed to be gone', () => {
    const first = pod();
    const { queue, changed, woken } = queueFor(budget({ allowed: 2 }));
    evicted(queue, 'a', [first]);
    evicted(queue, 'b');
    expect(admissions(queue, 'c')).toBe('Waiting');
    // Two were allowed. Now one is, because the first is counted; the second is not counted yet and uses it.
    changed(budget({ allowed: 1, disrupted: [first] }));
    expect(woken()).toEqual([]);
    // Another pod has become ready, so one disruption is left for the third.
    changed(budget({ allowed: 2, disrupted: [first] }));
    expect(woken()).toEqual(['c']);
    // The disruption controller has observed that the first pod is gone; our informer has not.
    changed(budget({ allowed: 2 }));
    expect(admissions(queue, 'c')).toBe('Admitted');
  });

  test('also when the status counts it before its response arrives', () => {
    const first = pod();
    const { queue, changed } = queueFor(budget({ allowed: 2 }));
    admissions(queue, 'a', [first]);
    changed(budget({ allowed: 1, disrupted: [first] }));
    queue.accepted('a');
    expect(admissions(queue, 'b')).toBe('Admitted');
  });

  test('until its pod is observed to be gone, when no observed version of the status has counted it', () => {
    const { queue, woken } = queueFor(budget({ allowed: 1 }));
    evicted(queue, 'a');
    admissions(queue, 'b');
    queue.done('a');
    expect(woken()).toEqual(['b']);
    expect(admissions(queue, 'b')).toBe('Admitted');
  });
});

describe('Waiting pods', () => {
  test('get a message with the budget that blocks them, its numbers and a remedy', () => {
    const { queue } = queueFor(budget({ desired: 3 }));
    expect(queue.admit('a', pod())).toEqual({
      kind: 'Waiting',
      message:
        'Blocked by PodDisruptionBudget default/web (disruptionsAllowed 0, currentHealthy 3, desiredHealthy 3, expectedPods 3). It can never allow a disruption: add a replica or relax the budget.',
      blocker: {
        reason: 'DisruptionBudgetNeverAllows',
        message:
          'PodDisruptionBudget default/web can never allow a disruption: add a replica or relax the budget.',
      },
    });
  });

  test('have a reason with the current numbers, and none once they are admitted', () => {
    const { queue, changed } = queueFor(budget());
    admissions(queue, 'a');
    expect(queue.reasonOf('a')?.message).toMatch(/disruptionsAllowed 0, currentHealthy 2/);
    changed(budget({ healthy: 1 }));
    expect(queue.reasonOf('a')?.message).toMatch(/disruptionsAllowed 0, currentHealthy 1/);
    changed(budget({ allowed: 1 }));
    admissions(queue, 'a');
    expect(queue.reasonOf('a')).toBeUndefined();
  });

  test('get a message that counts our own evictions in progress', () => {
    const { queue } = queueFor(budget({ allowed: 1 }));
    evicted(queue, 'a');
    const { message } = queue.admit('b', pod()) as { message: string };
    expect(message).toMatch(/\(disruptionsAllowed 1, .*\)\. 1 eviction is in progress\.$/);
  });

  test('are admitted in the order of their requests', () => {
    const { queue, changed, woken } = queueFor(budget());
    admissions(queue, 'abc');
    changed(budget({ allowed: 2 }));
    expect(admissions(queue, 'dcb')).toBe('Waiting Waiting Waiting');
    expect(woken()).toEqual(['a']);
    evicted(queue, 'ab');
    changed(budget({ allowed: 4 }));
    evicted(queue, 'cd');
  });

  test('are woken one at a time, however many wait and however much the budget allows', () => {
    const { queue, changed, woken } = queueFor(budget());
    const keys = Array.from({ length: 1_000 }, (_, index) => `pod-${index}`);
    for (const key of keys) queue.admit(key, pod());
    changed(budget({ allowed: 10 }));
    expect(woken()).toEqual(['pod-0']);
  });

  test.each([
    { when: 'the spec of the budget changes', next: { generation: 2 } },
    { when: 'the budget can never allow a disruption any more', next: { desired: 3 } },
  ])('are all woken when $when', ({ next }) => {
    const { queue, changed, woken } = queueFor(budget());
    admissions(queue, 'abc');
    changed(budget(next));
    expect(woken()).toEqual(['a', 'b', 'c']);
  });

  test('are all woken when the budget is deleted', () => {
    const { queue, removed, woken } = queueFor(budget());
    admissions(queue, 'abc');
    removed('web');
    expect(woken()).toEqual(['a', 'b', 'c']);
    expect(admissions(queue, 'abc')).toBe('Admitted Admitted Admitted');
  });

  test('of two budgets are woken when one of them is deleted', () => {
    const { queue, removed, woken } = queueFor(budget({ allowed: 1 }), budget({ name: 'all', allowed: 1 }));
    admissions(queue, 'a');
    removed('all');
    expect(woken()).toEqual(['a']);
    expect(admissions(queue, 'a')).toBe('Admitted');
  });

  test('do not block the queue of a budget that no longer selects them', () => {
    const selecting = (app: string) => ({ ...budget(), spec: { selector: { matchLabels: { app } } } });
    const { queue, changed } = queueFor(selecting('x'));
    const labels = { app: 'x' };
    const [moved, stays] = [pod({ labels }), pod({ labels })];
    admissions(queue, 'ab', [moved, stays]);
    const relabelled = { ...moved, metadata: { ...moved.metadata, labels: {} } };
    expect(admissions(queue, 'a', [relabelled])).toBe('Admitted');
    changed({ ...budget({ allowed: 1 }), spec: { selector: { matchLabels: labels } } });
    expect(admissions(queue, 'b', [stays])).toBe('Admitted');
  });

  test('that are not ready are woken at any position in the queue when the application is healthy without them', () => {
    const { queue, changed, woken } = queueFor(budget({ healthy: 1 }));
    admissions(queue, 'abc', [pod(), pod({ ready: false }), pod()]);
    changed(budget({ healthy: 2 }));
    expect(woken()).toEqual(['b']);
  });

  test('that are not ready are woken when the budget changes to AlwaysAllow', () => {
    const { queue, changed } = queueFor(budget({ healthy: 1 }));
    const unready = pod({ ready: false });
    admissions(queue, 'ab', [pod(), unready]);
    changed(budget({ healthy: 1, generation: 2, policy: 'AlwaysAllow' }));
    expect(admissions(queue, 'b', [unready])).toBe('Admitted');
    expect(admissions(queue, 'a')).toBe('Waiting');
  });

  test('are woken when an eviction in progress did not take place', () => {
    const { queue, woken } = queueFor(budget({ allowed: 1 }));
    admissions(queue, 'ab');
    queue.done('a');
    expect(woken()).toEqual(['b']);
    expect(admissions(queue, 'b')).toBe('Admitted');
  });

  test('are woken when the first of them is removed from the queue', () => {
    const { queue, changed, woken } = queueFor(budget());
    admissions(queue, 'ab');
    changed(budget({ allowed: 1 }));
    expect(woken()).toEqual(['a']);
    queue.done('a');
    expect(woken()).toEqual(['b']);
  });

  test('are not woken by a change that allows no disruption', () => {
    const { queue, changed, woken } = queueFor(budget());
    admissions(queue, 'abc');
    changed(budget());
    expect(woken()).toEqual([]);
  });
});

describe('After the apiserver rejected an eviction', () => {
  test('no other is admitted until the budget changes, whatever its status is, and the rejected one is the next', () => {
    const { queue, changed, woken } = queueFor(budget({ allowed: 3 }));
    const rejectedPod = pod();
    admissions(queue, 'ab', [rejectedPod]);
    queue.rejected('a', rejectedPod);
    expect(admissions(queue, 'bc')).toBe('Waiting Waiting');
    expect(woken()).toEqual([]);
    changed(budget({ allowed: 1 }));
    expect(woken()).toEqual(['a']);
    expect(admissions(queue, 'ab')).toBe('Admitted Waiting');
  });

  test('and the budget does not change, one is admitted again after a while', () => {
    jest.useFakeTimers();
    try {
      const { queue, woken } = queueFor(budget({ allowed: 3 }));
      const rejectedPod = pod();
      admissions(queue, 'ab', [rejectedPod]);
      queue.rejected('a', rejectedPod);
      jest.runAllTimers();
      expect(woken()).toEqual(['a']);
      expect(admissions(queue, 'ab')).toBe('Admitted Waiting');
    } finally {
      jest.useRealTimers();
    }
  });

  test('the rejected eviction does not count as in progress', () => {
    const { queue, changed } = queueFor(budget({ allowed: 1 }));
    const rejectedPod = pod();
    admissions(queue, 'a', [rejectedPod]);
    queue.rejected('a', rejectedPod);
    changed(budget({ allowed: 1 }));
    expect(admissions(queue, 'a', [rejectedPod])).toBe('Admitted');
  });
});
