import { jest } from '@jest/globals';
import { DisruptionGate } from '../../controllers/disruptionGate.ts';
import type { Pod, PodDisruptionBudget } from '../../api/core.ts';
import { byNamespace } from '../../kube/cluster.ts';
import { Store } from '../../kube/store.ts';
import { pod } from '../kit/builders.ts';

let serial = 0;

interface BudgetDiffers {
  name?: string;
  allowed?: number;
  healthy?: number;
  desired?: number;
  generation?: number;
  /** What was evicted and has not been seen to go. */
  disrupted?: Pod[];
  policy?: 'IfHealthyBudget' | 'AlwaysAllow';
}

/** A budget for all pods of the namespace; name only what differs. */
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

/** A gate over these budgets, and the keys that it has woken. */
function gateOver(...budgets: PodDisruptionBudget[]) {
  const store = new Store<PodDisruptionBudget>({
    [byNamespace]: ({ metadata }) => [metadata.namespace ?? ''],
  });
  const woken: string[] = [];
  const gate = new DisruptionGate(store, (key) => woken.push(key));
  const tell = (changes: ReturnType<typeof store.put>) => {
    for (const change of changes)
      gate.changed(change.object, change.type === 'Updated' ? change.previous : undefined);
  };
  for (const one of budgets) tell(store.put(one));
  return {
    gate,
    /** The keys woken since the last look, each once. */
    woken: () => [...new Set(woken.splice(0))],
    changed: (next: PodDisruptionBudget) => tell(store.put(next)),
    removed: (name: string) => tell(store.remove(`default/${name}`)),
  };
}

/** The answers for these pods, `a`, `b`, ..., in turn. */
function answers(gate: DisruptionGate, keys: string, pods: Pod[] = []): string {
  return keys
    .split('')
    .map((key, index) => gate.ask(key, pods[index] ?? pod()).kind)
    .join(' ');
}

/** Asks for each of these, which may go, and has the apiserver accept it. */
function evicted(gate: DisruptionGate, keys: string, pods: Pod[] = []): void {
  keys.split('').forEach((key, index) => {
    expect(gate.ask(key, pods[index] ?? pod()).kind).toBe('Go');
    gate.accepted(key);
  });
}

describe('An eviction may be tried', () => {
  test('at once when no budget guards the pod', () => {
    const { gate } = gateOver();
    expect(answers(gate, 'abc')).toBe('Go Go Go');
  });

  test('as often as the budget allows, less what was tried and cannot be seen yet', () => {
    const { gate } = gateOver(budget({ allowed: 2 }));
    evicted(gate, 'ab');
    expect(answers(gate, 'cd')).toBe('Wait Wait');
  });

  test('when the one before is answered: two of one budget would meet in its status', () => {
    const { gate, woken } = gateOver(budget({ allowed: 3 }));
    expect(answers(gate, 'abc')).toBe('Go Wait Wait');
    gate.accepted('a');
    expect(woken()).toEqual(['b']);
    expect(answers(gate, 'cb')).toBe('Wait Go');
  });

  test('when the answer to the one before is late: that one has met another write, and sleeps', () => {
    jest.useFakeTimers();
    try {
      const { gate, woken } = gateOver(budget({ allowed: 3 }));
      answers(gate, 'abc');
      jest.runOnlyPendingTimers();
      expect(woken()).toEqual(['b']);
      expect(answers(gate, 'bc')).toBe('Go Wait');
    } finally {
      jest.useRealTimers();
    }
  });

  test('at once beside the evictions of another budget', () => {
    const app = (name: string) => ({ selector: { matchLabels: { app: name } } });
    const of = (name: string) => ({ ...budget({ name, allowed: 1 }), spec: app(name) });
    const { gate } = gateOver(of('a'), of('b'));
    const pods = [pod({ labels: { app: 'a' } }), pod({ labels: { app: 'b' } })];
    expect(answers(gate, 'ab', pods)).toBe('Go Go');
  });

  test('whatever the budget says for a pod that does not run', () => {
    const { gate } = gateOver(budget(), budget({ name: 'second' }));
    expect(answers(gate, 'ab', [pod({ phase: 'Pending' }), pod({ phase: 'Failed' })])).toBe('Go Go');
  });

  test('for a pod that is not ready, when the application is healthy without it', () => {
    const { gate } = gateOver(budget());
    expect(answers(gate, 'ab', [pod({ ready: false }), pod({ ready: false })])).toBe('Go Go');
  });

  test('never while more than one budget guards the pod; the message names them', () => {
    const { gate } = gateOver(budget({ name: 'web', allowed: 3 }), budget({ name: 'all', allowed: 3 }));
    expect(gate.ask('a', pod())).toEqual({
      kind: 'Wait',
      message:
        'Blocked by more than one PodDisruptionBudget (default/all, default/web): the eviction API allows one; make their selectors disjoint.',
      blocker: expect.objectContaining({ reason: 'SeveralDisruptionBudgets' }),
    });
  });

  test('not while the rules of the budget are newer than its numbers', () => {
    const edited = budget({ allowed: 3 });
    const { gate, changed } = gateOver({ ...edited, metadata: { ...edited.metadata, generation: 2 } });
    expect(answers(gate, 'a')).toBe('Wait');
    changed(budget({ allowed: 3, generation: 2 }));
    expect(answers(gate, 'a')).toBe('Go');
  });
});

describe('An eviction counts once', () => {
  test('from when the status of the budget has it taken off, long before its pod is seen to go', () => {
    const first = pod();
    const { gate, changed, woken } = gateOver(budget({ allowed: 2 }));
    evicted(gate, 'a', [first]);
    evicted(gate, 'b');
    expect(answers(gate, 'c')).toBe('Wait');
    // Two were allowed; now one is, because the first is taken off. The second is not, and takes the one.
    changed(budget({ allowed: 1, disrupted: [first] }));
    expect(woken()).toEqual([]);
    // Another pod has become ready: one for the second, one for the third.
    changed(budget({ allowed: 2, disrupted: [first] }));
    expect(woken()).toEqual(['c']);
    // The budget's controller has seen the first go; we have not.
    changed(budget({ allowed: 2 }));
    expect(answers(gate, 'c')).toBe('Go');
  });

  test('also when the status shows it before it is answered', () => {
    const first = pod();
    const { gate, changed } = gateOver(budget({ allowed: 2 }));
    answers(gate, 'a', [first]);
    changed(budget({ allowed: 1, disrupted: [first] }));
    gate.accepted('a');
    expect(answers(gate, 'b')).toBe('Go');
  });

  test('until its pod is seen to go, when no version of the status that we saw has shown it', () => {
    const { gate, woken } = gateOver(budget({ allowed: 1 }));
    evicted(gate, 'a');
    answers(gate, 'b');
    gate.settled('a');
    expect(woken()).toEqual(['b']);
    expect(answers(gate, 'b')).toBe('Go');
  });
});

describe('Those that wait', () => {
  test('are told which budget holds them up, with its numbers and what to do', () => {
    const { gate } = gateOver(budget({ desired: 3 }));
    expect(gate.ask('a', pod())).toEqual({
      kind: 'Wait',
      message:
        'Blocked by PodDisruptionBudget default/web (disruptionsAllowed 0, currentHealthy 3, desiredHealthy 3, expectedPods 3). It can never allow a disruption: add a replica or relax the budget.',
      blocker: {
        reason: 'DisruptionBudgetNeverAllows',
        message:
          'PodDisruptionBudget default/web can never allow a disruption: add a replica or relax the budget.',
      },
    });
  });

  test('are told the numbers of the moment when asked again, and nothing once they may go', () => {
    const { gate, changed } = gateOver(budget());
    answers(gate, 'a');
    expect(gate.reasonOf('a')?.message).toMatch(/disruptionsAllowed 0, currentHealthy 2/);
    changed(budget({ healthy: 1 }));
    expect(gate.reasonOf('a')?.message).toMatch(/disruptionsAllowed 0, currentHealthy 1/);
    changed(budget({ allowed: 1 }));
    answers(gate, 'a');
    expect(gate.reasonOf('a')).toBeUndefined();
  });

  test('are told when our own evictions have used the budget up', () => {
    const { gate } = gateOver(budget({ allowed: 1 }));
    evicted(gate, 'a');
    const { message } = gate.ask('b', pod()) as { message: string };
    expect(message).toMatch(/\(disruptionsAllowed 1, .*\)\. 1 eviction is under way\.$/);
  });

  test('go in the order of their asking; whoever comes later waits behind them', () => {
    const { gate, changed, woken } = gateOver(budget());
    answers(gate, 'abc');
    changed(budget({ allowed: 2 }));
    expect(answers(gate, 'dcb')).toBe('Wait Wait Wait');
    expect(woken()).toEqual(['a']);
    evicted(gate, 'ab');
    changed(budget({ allowed: 4 }));
    evicted(gate, 'cd');
  });

  test('are woken one at a time, however many there are and however much the budget allows', () => {
    const { gate, changed, woken } = gateOver(budget());
    const keys = Array.from({ length: 1_000 }, (_, index) => `pod-${index}`);
    for (const key of keys) gate.ask(key, pod());
    changed(budget({ allowed: 10 }));
    expect(woken()).toEqual(['pod-0']);
  });

  test.each([
    { when: 'the rules of the budget change', next: { generation: 2 } },
    { when: 'it turns out that the budget can never allow a disruption', next: { desired: 3 } },
  ])('are woken all together when $when', ({ next }) => {
    const { gate, changed, woken } = gateOver(budget());
    answers(gate, 'abc');
    changed(budget(next));
    expect(woken()).toEqual(['a', 'b', 'c']);
  });

  test('are woken all together when the budget is removed', () => {
    const { gate, removed, woken } = gateOver(budget());
    answers(gate, 'abc');
    removed('web');
    expect(woken()).toEqual(['a', 'b', 'c']);
    expect(answers(gate, 'abc')).toBe('Go Go Go');
  });

  test('behind two budgets are woken when one of them is removed', () => {
    const { gate, removed, woken } = gateOver(budget({ allowed: 1 }), budget({ name: 'all', allowed: 1 }));
    answers(gate, 'a');
    removed('all');
    expect(woken()).toEqual(['a']);
    expect(answers(gate, 'a')).toBe('Go');
  });

  test('do not hold up the line of a budget that no longer guards them', () => {
    const selecting = (app: string) => ({ ...budget(), spec: { selector: { matchLabels: { app } } } });
    const { gate, changed } = gateOver(selecting('x'));
    const labels = { app: 'x' };
    const [moved, stays] = [pod({ labels }), pod({ labels })];
    answers(gate, 'ab', [moved, stays]);
    const relabelled = { ...moved, metadata: { ...moved.metadata, labels: {} } };
    expect(answers(gate, 'a', [relabelled])).toBe('Go');
    changed({ ...budget({ allowed: 1 }), spec: { selector: { matchLabels: labels } } });
    expect(answers(gate, 'b', [stays])).toBe('Go');
  });

  test('and are not ready are woken, wherever they stand, when the application is healthy without them', () => {
    const { gate, changed, woken } = gateOver(budget({ healthy: 1 }));
    answers(gate, 'abc', [pod(), pod({ ready: false }), pod()]);
    changed(budget({ healthy: 2 }));
    expect(woken()).toEqual(['b']);
  });

  test('and are not ready are woken when the budget lets such pods go always', () => {
    const { gate, changed } = gateOver(budget({ healthy: 1 }));
    const unready = pod({ ready: false });
    answers(gate, 'ab', [pod(), unready]);
    changed(budget({ healthy: 1, generation: 2, policy: 'AlwaysAllow' }));
    expect(answers(gate, 'b', [unready])).toBe('Go');
    expect(answers(gate, 'a')).toBe('Wait');
  });

  test('are woken when an eviction under way turns out not to count', () => {
    const { gate, woken } = gateOver(budget({ allowed: 1 }));
    answers(gate, 'ab');
    gate.settled('a');
    expect(woken()).toEqual(['b']);
    expect(answers(gate, 'b')).toBe('Go');
  });

  test('are woken when the first of them gives up its turn', () => {
    const { gate, changed, woken } = gateOver(budget());
    answers(gate, 'ab');
    changed(budget({ allowed: 1 }));
    expect(woken()).toEqual(['a']);
    gate.settled('a');
    expect(woken()).toEqual(['b']);
  });

  test('are left asleep by a change that allows nothing', () => {
    const { gate, changed, woken } = gateOver(budget());
    answers(gate, 'abc');
    changed(budget());
    expect(woken()).toEqual([]);
  });
});

describe('After a refusal of the apiserver', () => {
  test('nothing more is tried until the budget changes, whatever its status says; the refused one is the next', () => {
    const { gate, changed, woken } = gateOver(budget({ allowed: 3 }));
    const refused = pod();
    answers(gate, 'ab', [refused]);
    gate.refused('a', refused);
    expect(answers(gate, 'bc')).toBe('Wait Wait');
    expect(woken()).toEqual([]);
    changed(budget({ allowed: 1 }));
    expect(woken()).toEqual(['a']);
    expect(answers(gate, 'ab')).toBe('Go Wait');
  });

  test('and a budget that does not change, one is tried again after a while', () => {
    jest.useFakeTimers();
    try {
      const { gate, woken } = gateOver(budget({ allowed: 3 }));
      const refused = pod();
      answers(gate, 'ab', [refused]);
      gate.refused('a', refused);
      jest.runAllTimers();
      expect(woken()).toEqual(['a']);
      expect(answers(gate, 'ab')).toBe('Go Wait');
    } finally {
      jest.useRealTimers();
    }
  });

  test('the refused eviction does not count as under way', () => {
    const { gate, changed } = gateOver(budget({ allowed: 1 }));
    const refused = pod();
    answers(gate, 'a', [refused]);
    gate.refused('a', refused);
    changed(budget({ allowed: 1 }));
    expect(answers(gate, 'a', [refused])).toBe('Go');
  });
});
