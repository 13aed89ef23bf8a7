import type { Node } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { type ClaimedTurn, limitOf, measured, outOfService, stands } from '../../domain/nodeBudget.ts';
import { emptyStatus } from '../../domain/status.ts';

const node = (name: string, spec: Node['spec'] = {}): Node => ({ metadata: { name }, spec });
const tainted = (name: string, key: string) => node(name, { taints: [{ key, effect: 'NoSchedule' }] });

function maintenance(name: string, stage: NodeMaintenance['spec']['stage'], on: string): NodeMaintenance {
  const matchFields = [{ key: 'metadata.name', operator: 'In' as const, values: [on] }];
  return { metadata: { name }, spec: { stage, nodeSelector: { nodeSelectorTerms: [{ matchFields }] } } };
}

describe('a limit', () => {
  test.each([
    { given: 3, of: 10, is: 3 },
    { given: 0, of: 10, is: 0 },
    { given: '25%', of: 10, is: 2 },
    { given: '10%', of: 4, is: 1 },
    { given: '0%', of: 4, is: 0 },
    { given: '100%', of: 4, is: 4 },
  ])('of $given is $is of $of nodes', ({ given, of, is }) => {
    expect(limitOf(given, of)).toBe(is);
  });
});

describe('a node is out of service', () => {
  test.each([
    { when: 'somebody cordoned it', nodes: [node('n', { unschedulable: true })] },
    { when: 'it is not ready', nodes: [tainted('n', 'node.kubernetes.io/not-ready')] },
    { when: 'it is unreachable', nodes: [tainted('n', 'node.kubernetes.io/unreachable')] },
    { when: 'its readiness gates are not open', nodes: [tainted('n', 'readiness.k8s.io/gates')] },
    { when: 'maintenance a holds it', nodes: [node('n')], maintenances: [maintenance('a', 'Cordon', 'n')] },
    { when: 'it has its turn in window w', nodes: [node('n')], claims: [{ node: 'n', window: 'w' }] },
  ])('when $when', ({ when, nodes, maintenances = [], claims = [] }) => {
    expect([...outOfService({ nodes, maintenances, claims })]).toEqual([['n', when]]);
  });

  test('not for a taint that says nothing of it, nor for maintenances that plan or are over', () => {
    const sight = {
      nodes: [tainted('n', 'dedicated')],
      maintenances: [maintenance('a', 'Idle', 'n'), maintenance('b', 'Complete', 'n')],
      claims: [{ node: 'gone', window: 'w' }],
    };
    expect(outOfService(sight).size).toBe(0);
  });
});

describe('a budget', () => {
  test.each([
    {
      when: 'has nodes to spare',
      maxUnavailable: '50%',
      want: {
        status: 'False',
        reason: 'NodesToSpare',
        message: '1 of 2 nodes that may be out of service are.',
      },
    },
    {
      when: 'is used up, and says what has windows go on',
      maxUnavailable: 1,
      want: {
        status: 'True',
        reason: 'NoNodeToSpare',
        message:
          '1 of 1 nodes that may be out of service are: no window begins a turn until one is back, or spec.maxUnavailable is more.',
      },
    },
    {
      when: 'allows none, and says what has windows go on',
      maxUnavailable: '0%',
      want: {
        status: 'True',
        reason: 'NoneAllowed',
        message: 'spec.maxUnavailable is 0%: no window begins a turn until it is more.',
      },
    },
  ])('$when', ({ maxUnavailable, want }) => {
    const nodes = [node('out', { unschedulable: true }), ...['a', 'b', 'c'].map((name) => node(name))];
    const budget = { metadata: { name: 'cluster' }, spec: { maxUnavailable } };
    const now = '2026-11-21T12:00:00Z';
    const said = measured(budget, { nodes, maintenances: [], claims: [] }, now);
    expect(said.conditions).toEqual([{ type: 'Exhausted', ...want, lastTransitionTime: now }]);
    const again = { ...budget, status: { ...said, claims: [] } };
    expect(measured(again, { nodes, maintenances: [], claims: [] }, '2026-11-21T13:00:00Z')).toEqual(said);
  });
});

describe('a claim', () => {
  const now = Date.parse('2026-11-21T12:00:00Z');
  const claimed = (secondsAgo: number) => new Date(now - secondsAgo * 1_000).toISOString();

  function turn(stage: NodeMaintenance['spec']['stage'], ...finalizers: string[]): ClaimedTurn {
    const stageStatuses = [{ name: stage, startTimestamp: claimed(0) }];
    const one = maintenance('turn', stage, 'n');
    const status = { ...emptyStatus, stageStatuses };
    return {
      window: 'w',
      node: 'n',
      maintenance: { ...one, metadata: { name: 'turn', finalizers }, status },
    };
  }

  test.each([
    { when: 'stands while its turn is under way', turns: [turn('Drain', 'f')], want: true },
    { when: 'stands while the node is given back', turns: [turn('Complete', 'f')], want: true },
    {
      when: 'falls when the node was given back, whoever completed it',
      turns: [turn('Complete')],
      want: false,
    },
    {
      when: 'stands for the turn that is under way beside one that is over',
      turns: [turn('Complete'), turn('Drain', 'f')],
      want: true,
    },
    { when: 'of a turn that is gone falls for its own window', turns: [], want: false },
    { when: 'of a turn that is to come stands for others', turns: [], asking: 'v', want: true },
    { when: 'whose turn never came falls for others', turns: [], asking: 'v', age: 121, want: false },
  ])('$when', ({ turns, asking = 'w', age = 10, want }) => {
    expect(stands({ node: 'n', window: 'w', since: claimed(age) }, { turns, asking, now })).toBe(want);
  });
});
