import type { Node } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { limitOf, outOfService } from '../../domain/nodeBudget.ts';

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
