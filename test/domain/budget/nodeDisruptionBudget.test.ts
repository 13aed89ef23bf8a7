import type { Node } from '../../../api/core.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { budgetStatus, limitOf, outOfService } from '../../../domain/budget/nodeDisruptionBudget.ts';

const node = (name: string, spec: Node['spec'] = {}): Node => ({ metadata: { name }, spec });
const tainted = (name: string, key: string) => node(name, { taints: [{ key, effect: 'NoSchedule' }] });

function maintenance(name: string, stage: NodeMaintenance['spec']['stage'], on: string): NodeMaintenance {
  const matchFields = [{ key: 'metadata.name', operator: 'In' as const, values: [on] }];
  return { metadata: { name }, spec: { stage, nodeSelector: { nodeSelectorTerms: [{ matchFields }] } } };
}

describe('maxUnavailable', () => {
  test.each([
    { given: 3, of: 10, is: 3 },
    { given: 0, of: 10, is: 0 },
    { given: '25%', of: 10, is: 2 },
    { given: '10%', of: 4, is: 1 },
    { given: '0%', of: 4, is: 0 },
    { given: '100%', of: 4, is: 4 },
  ])('of $given allows $is of $of nodes', ({ given, of, is }) => {
    expect(limitOf(given, of)).toBe(is);
  });
});

describe('a node is out of service', () => {
  test.each([
    { reason: 'cordoned', nodes: [node('n', { unschedulable: true })] },
    { reason: 'not ready', nodes: [tainted('n', 'node.kubernetes.io/not-ready')] },
    { reason: 'unreachable', nodes: [tainted('n', 'node.kubernetes.io/unreachable')] },
    { reason: 'readiness gates are not ready', nodes: [tainted('n', 'readiness.k8s.io/gates')] },
    {
      reason: 'held by NodeMaintenance a',
      nodes: [node('n')],
      maintenances: [maintenance('a', 'Cordon', 'n')],
    },
    { reason: 'in maintenance by window w', nodes: [node('n')], reservations: [{ node: 'n', window: 'w' }] },
  ])('$reason', ({ reason, nodes, maintenances = [], reservations = [] }) => {
    expect([...outOfService({ nodes, maintenances, reservations })]).toEqual([['n', reason]]);
  });

  test('not because of other taints, or of maintenances in Idle or Complete', () => {
    const input = {
      nodes: [tainted('n', 'dedicated')],
      maintenances: [maintenance('a', 'Idle', 'n'), maintenance('b', 'Complete', 'n')],
      reservations: [{ node: 'gone', window: 'w' }],
    };
    expect(outOfService(input).size).toBe(0);
  });
});

describe('a budget', () => {
  test.each([
    {
      when: 'is not exhausted below its limit',
      maxUnavailable: '50%',
      want: {
        status: 'False',
        reason: 'NodesAvailable',
        message: '1 node out of service, and 2 allowed.',
      },
    },
    {
      when: 'is exhausted at its limit, and says how windows can continue',
      maxUnavailable: 1,
      want: {
        status: 'True',
        reason: 'LimitReached',
        message:
          '1 node out of service, and 1 allowed: windows start no node until a node is back in service or spec.maxUnavailable is increased.',
      },
    },
    {
      when: 'is exhausted if it allows none, and says how windows can continue',
      maxUnavailable: '0%',
      want: {
        status: 'True',
        reason: 'NoneAllowed',
        message: 'spec.maxUnavailable is 0%: windows start no node until it is increased.',
      },
    },
  ])('$when', ({ maxUnavailable, want }) => {
    const nodes = [node('out', { unschedulable: true }), ...['a', 'b', 'c'].map((name) => node(name))];
    const budget = { metadata: { name: 'cluster' }, spec: { maxUnavailable } };
    const now = '2026-11-21T12:00:00Z';
    const status = budgetStatus(budget, { nodes, maintenances: [], reservations: [] }, now);
    expect(status.conditions).toEqual([{ type: 'Exhausted', ...want, lastTransitionTime: now }]);
    const again = { ...budget, status: { ...status, reservations: [] } };
    expect(
      budgetStatus(again, { nodes, maintenances: [], reservations: [] }, '2026-11-21T13:00:00Z'),
    ).toEqual(status);
  });
});
