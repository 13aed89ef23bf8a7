import { DisruptionGate } from '../../controllers/disruptionGate.ts';
import type { Pod, PodDisruptionBudget } from '../../api/core.ts';
import { byNamespace } from '../../kube/cluster.ts';
import { Store } from '../../kube/store.ts';
import { pod } from '../kit/builders.ts';

let serial = 0;

/** A budget for all pods of the namespace; name only what differs. */
function budget({ name = 'web', allowed = 0, generation = 1 } = {}): PodDisruptionBudget {
  serial += 1;
  return {
    metadata: { name, namespace: 'default', uid: name, resourceVersion: String(serial), generation },
    spec: { selector: {}, maxUnavailable: allowed },
    status: { disruptionsAllowed: allowed, currentHealthy: 3, desiredHealthy: 3 - allowed, expectedPods: 3 },
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
    /** The keys woken since the last look. */
    woken: () => woken.splice(0),
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

describe('An eviction may be tried', () => {
  test('at once when no budget guards the pod', () => {
    const { gate } = gateOver();
    expect(answers(gate, 'abc')).toBe('Go Go Go');
  });

  test('as often as the budget allows, less what was tried and cannot be seen yet', () => {
    const { gate } = gateOver(budget({ allowed: 2 }));
    expect(answers(gate, 'abcd')).toBe('Go Go Wait Wait');
  });

  test('whatever the budget says for a pod that does not run', () => {
    const { gate } = gateOver(budget(), budget({ name: 'second' }));
    expect(answers(gate, 'ab', [pod({ phase: 'Pending' }), pod({ phase: 'Failed' })])).toBe('Go Go');
  });

  test('for a pod that is not ready, when the application is healthy without it', () => {
    const { gate } = gateOver(budget());
    expect(answers(gate, 'a', [pod({ ready: false })])).toBe('Go');
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
});

describe('Those that wait', () => {
  test('are told which budget holds them up, with its numbers and what to do', () => {
    const { gate } = gateOver(budget());
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

  test('are told when our own evictions have used the budget up', () => {
    const { gate } = gateOver(budget({ allowed: 1 }));
    answers(gate, 'a');
    const { message } = gate.ask('b', pod()) as { message: string };
    expect(message).toMatch(/\(disruptionsAllowed 1, .*\)\. 1 eviction is under way\.$/);
  });

  test('are woken one for each disruption that the budget newly allows, in the order of their asking', () => {
    const { gate, changed, woken } = gateOver(budget());
    answers(gate, 'abcd');
    changed(budget({ allowed: 2 }));
    expect(woken()).toEqual(['a', 'b']);
  });

  test('are woken all together when the rules of the budget change', () => {
    const { gate, changed, woken } = gateOver(budget());
    answers(gate, 'abc');
    changed(budget({ generation: 2 }));
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

  test('are woken when an eviction under way turns out not to count', () => {
    const { gate, woken } = gateOver(budget({ allowed: 1 }));
    answers(gate, 'ab');
    gate.settled('a');
    expect(woken()).toEqual(['b']);
    expect(answers(gate, 'b')).toBe('Go');
  });

  test('are not woken any more once they are settled', () => {
    const { gate, changed, woken } = gateOver(budget());
    answers(gate, 'ab');
    gate.settled('a');
    changed(budget({ allowed: 2 }));
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
  test('nothing more is tried until the budget changes, whatever its status says', () => {
    const { gate, changed, woken } = gateOver(budget({ allowed: 3 }));
    const refused = pod();
    answers(gate, 'a', [refused]);
    gate.refused('a', refused);
    expect(answers(gate, 'bc')).toBe('Wait Wait');
    changed(budget({ allowed: 1 }));
    expect(woken()).toEqual(['a']);
    expect(answers(gate, 'ab')).toBe('Go Wait');
  });

  test('the refused eviction does not count as under way', () => {
    const { gate, changed } = gateOver(budget({ allowed: 1 }));
    const refused = pod();
    answers(gate, 'a', [refused]);
    gate.refused('a', refused);
    changed(budget({ allowed: 1 }));
    expect(answers(gate, 'b')).toBe('Go');
  });
});

test('An eviction that is tried again counts once', () => {
  const { gate } = gateOver(budget({ allowed: 2 }));
  expect(answers(gate, 'aab')).toBe('Go Go Go');
});
