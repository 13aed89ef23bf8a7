import { describe, expect, test } from '@jest/globals';
import type { Pod, PodDisruptionBudget } from '../../../api/core.ts';
import { capacityDeadlocks, deadlockMessage, strandedPods } from '../../../domain/capacity/deadlock.ts';
import { finish } from '../../../domain/common/steps.ts';
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
  const facts = { budgets: [budget(allowed)], blocked, holders };
  const pods = [...blocked, ...waiting];
  return capacityDeadlocks(finish(strandedPods({ nodes, pods, ...facts })), facts);
}

describe('a deadlock of maintenances, Pending pods and a budget', () => {
  test('names the node to uncordon, and its maintenance', () => {
    expect(deadlocks().map(deadlockMessage)).toEqual([
      'Deadlock: shop/web-2 is Pending because maintenances have cordoned every node on which it fits, and until it runs, PodDisruptionBudget shop/web allows no eviction of 1 pod on n1. To resolve it, uncordon node n2: complete NodeMaintenance rack-2, or change its nodeSelector and then uncordon the node; or add a node.',
    ]);
  });

  test('names at most three pods', () => {
    const waiting = ['a', 'b', 'c', 'd'].map((name) => capacityPod({ name, cpu: '1', labels: web }));
    const [message = ''] = deadlocks({ waiting }).map(deadlockMessage);
    expect(message).toMatch(/^Deadlock: shop\/a, shop\/b, shop\/c and 1 more are Pending/);
  });

  test('is found among many other pods that are Pending', () => {
    const others = Array.from({ length: 50 }, (_, index) => capacityPod({ name: `a-${index}`, cpu: '8' }));
    expect(deadlocks({ waiting: [...others, pending] })).toMatchObject([{ pending: [pending], node: 'n2' }]);
  });

  test('of one budget is found beside that of another one with many Pending pods', () => {
    const api = { app: 'api' };
    const apiPending = Array.from({ length: 30 }, (_, index) =>
      capacityPod({ name: `api-${index}`, cpu: '1', labels: api }),
    );
    const blocked = [running('n1'), capacityPod({ name: 'api', cpu: '1', labels: api, node: 'n1' })];
    const apiBudget = {
      ...budget(0),
      metadata: { name: 'api', namespace: 'shop' },
      spec: { selector: { matchLabels: api } },
    };
    const facts = { budgets: [apiBudget, budget(0)], blocked, holders };
    const nodes = [cordoned('n1', 1_000), cordoned('n2'), full];
    const stranded = finish(strandedPods({ nodes, pods: [...blocked, ...apiPending, pending], ...facts }));
    expect(capacityDeadlocks(stranded, facts).map(({ budget: name }) => name)).toEqual([
      'shop/api',
      'shop/web',
    ]);
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
