import { describe, expect, test } from '@jest/globals';
import type { Pod, PodDisruptionBudget } from '../../../api/core.ts';
import { capacityDeadlocks, deadlockMessage, strandedPods } from '../../../domain/capacity/deadlock.ts';
import { capacityNode, capacityPod } from '../../kit/capacity.ts';

const web = { app: 'web' };
const budget = (disruptionsAllowed: number): PodDisruptionBudget => ({
  metadata: { name: 'web', namespace: 'shop' },
  spec: { selector: { matchLabels: web } },
  status: { disruptionsAllowed, currentHealthy: 1, desiredHealthy: 1, expectedPods: 2 },
});
const cordoned = (name: string, cpu = 4_000) => capacityNode(name, { cpu, unschedulable: true });
const full = capacityNode('full', { cpu: 0 });
const pending = capacityPod({ name: 'web-2', cpu: '1', labels: web });
const running = (node: string) => capacityPod({ name: 'web-1', cpu: '1', labels: web, node });
const holders = new Map([
  ['n1', ['rack-1']],
  ['n2', ['rack-2']],
]);

function deadlocks({
  nodes = [cordoned('n1', 1_000), cordoned('n2'), full],
  waiting = [pending],
  allowed = 0,
}: {
  nodes?: ReturnType<typeof cordoned>[];
  waiting?: Pod[];
  allowed?: number;
} = {}) {
  const blocked = [running('n1')];
  const facts = { nodes, pods: [...blocked, ...waiting], holders };
  return capacityDeadlocks(strandedPods(facts), { budgets: [budget(allowed)], blocked, holders });
}

describe('a deadlock of maintenances, Pending pods and a budget', () => {
  test('names the node whose release solves it, and its maintenance', () => {
    expect(deadlocks().map(deadlockMessage)).toEqual([
      'Deadlock: shop/web-2 is Pending because maintenances have cordoned every node on which it fits, and until it runs, PodDisruptionBudget shop/web allows no eviction of 1 pod on n1. To solve it, release node n2: complete NodeMaintenance rack-2, or change its nodeSelector and uncordon the node; or add a node.',
    ]);
  });

  test('names at most three pods', () => {
    const waiting = ['a', 'b', 'c', 'd'].map((name) => capacityPod({ name, cpu: '1', labels: web }));
    const [message = ''] = deadlocks({ waiting }).map(deadlockMessage);
    expect(message).toMatch(/^Deadlock: shop\/a, shop\/b, shop\/c and 1 more are Pending/);
  });

  test.each([
    { when: 'the budget allows an eviction', differs: { allowed: 1 } },
    { when: 'no pod is Pending', differs: { waiting: [] } },
    {
      when: 'a pod fits on a node that no maintenance holds',
      differs: { nodes: [cordoned('n1'), capacityNode('n3')] },
    },
    { when: 'a pod fits on no node, held or not', differs: { nodes: [cordoned('n1', 0), full] } },
    {
      when: 'another client has cordoned the node on which a pod fits',
      differs: { nodes: [cordoned('n1', 0), cordoned('n3')] },
    },
  ])('does not exist if $when', ({ differs }) => {
    expect(deadlocks(differs)).toEqual([]);
  });
});
