import type { Node } from '../../../api/core.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import {
  budgetStatus,
  limitOf,
  limitsOf,
  outOfService,
} from '../../../domain/budget/nodeDisruptionBudget.ts';

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
    const out = new Map([['out', 'cordoned']]);
    const status = budgetStatus(budget, { nodes, out }, now);
    expect(status.conditions).toEqual([{ type: 'Exhausted', ...want, lastTransitionTime: now }]);
    const again = { ...budget, status: { ...status, reservations: [] } };
    expect(budgetStatus(again, { nodes, out }, '2026-11-21T13:00:00Z')).toEqual(status);
  });
});

describe('a budget with a nodeSelector', () => {
  const inPool = (pool: string) => ({
    nodeSelectorTerms: [{ matchExpressions: [{ key: 'pool', operator: 'In' as const, values: [pool] }] }],
  });
  const nodes: Node[] = ['gpu', 'gpu', 'web'].map((pool, index) => ({
    metadata: { name: `n${index}`, labels: { pool } },
    spec: {},
  }));
  const out = new Map(['n0', 'n2'].map((name) => [name, 'cordoned']));
  const now = '2026-11-21T12:00:00Z';
  const statusOf = (pool: string, maxUnavailable: number | string = '50%') => {
    const spec = { maxUnavailable, nodeSelector: inPool(pool) };
    return budgetStatus({ metadata: { name: pool }, spec }, { nodes, out }, now);
  };

  test('counts the nodes that it selects, and takes percentages of them', () => {
    expect(statusOf('gpu')).toMatchObject({
      nodes: 2,
      allowed: 1,
      outOfService: 1,
      conditions: [
        {
          status: 'True',
          reason: 'LimitReached',
          message:
            '1 selected node out of service, and 1 allowed: windows start no selected node until a selected node is back in service or spec.maxUnavailable is increased.',
        },
      ],
    });
    expect(statusOf('gpu', 2)).toMatchObject({ conditions: [{ reason: 'NodesAvailable' }] });
    expect(statusOf('gpu', 0)).toMatchObject({ conditions: [{ reason: 'NoneAllowed' }] });
  });

  test('says that it selects no node', () => {
    expect(statusOf('tpu', 0)).toMatchObject({
      nodes: 0,
      outOfService: 0,
      conditions: [
        {
          status: 'False',
          reason: 'NoNodeSelected',
          message: 'spec.nodeSelector selects no node: check the names and labels of the nodes.',
        },
      ],
    });
  });

  test('limits beside the others, in the order of their names', () => {
    const budgets = [
      { metadata: { name: 'gpu' }, spec: { maxUnavailable: '100%', nodeSelector: inPool('gpu') } },
      { metadata: { name: 'cluster' }, spec: { maxUnavailable: 2 } },
    ];
    const want = [
      { name: 'cluster', allowed: 2, nodes: new Set(['n0', 'n1', 'n2']) },
      { name: 'gpu', allowed: 2, nodes: new Set(['n0', 'n1']) },
    ];
    expect(limitsOf(budgets, nodes)).toEqual(want);
    expect(limitsOf(budgets.toReversed(), nodes)).toEqual(want);
  });
});
