import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Node, PersistentVolume, Pod } from '../../../api/core.ts';
import { ClusterState, schedulingOf } from '../../../domain/capacity/clusterState.ts';
import { fittingNodes, misfitText, Placer } from '../../../domain/capacity/placement.ts';
import { allocatableOf, requestsOf } from '../../../domain/capacity/requests.ts';
import { trimWithScheduling } from '../../../kube/podScheduling.ts';
import { caseObjects, schedulingCases } from '../../kit/schedulingCases.ts';
import { capacityNode, capacityPod, drawnCluster } from '../../kit/capacity.ts';

const trimmed = trimWithScheduling();
const names = (nodes: { node: Node }[]) => nodes.map(({ node }) => node.metadata.name);

// test/sandbox/scheduler.slow.test.ts shows that the kube-scheduler decides the same.
describe('the nodes that fit a pod', () => {
  test.each(schedulingCases)('$when', (one) => {
    const { nodes, existing, pod, volumes, claims } = caseObjects(one, 'c');
    const bound = claims.map((claim, index) => [`c/${claim.metadata.name}`, volumes[index]] as const);
    const cluster = new ClusterState({
      nodes,
      pods: existing.map(trimmed),
      volumes: new Map(bound) as Map<string, PersistentVolume>,
    });
    expect(names(fittingNodes(trimmed(pod), cluster))).toEqual(one.fits.map((name) => `c-${name}`));
    if (one.because === undefined) return;
    const placement = new Placer(cluster).place(trimmed(pod));
    expect(placement.kind === 'Unplaced' && misfitText(placement.misfit)).toBe(
      `0/${nodes.length} nodes are available: ${one.because}`,
    );
  });
});

describe('placements', () => {
  test('use what they have reserved: of five equal pods two fit on the last two places', () => {
    const placer = new Placer(new ClusterState({ nodes: [capacityNode('n1', { cpu: 2_000 })], pods: [] }));
    const pods = Array.from({ length: 5 }, () => capacityPod({ cpu: '1' }));
    expect(pods.map((one) => placer.place(one).kind)).toEqual([
      'Placed',
      'Placed',
      'Unplaced',
      'Unplaced',
      'Unplaced',
    ]);
  });

  test('after a pod has left may use its host ports, and not those of the pods that stay', () => {
    const using = (port: number, node?: string) =>
      capacityPod({
        hostPorts: [{ port, protocol: 'TCP', ip: '0.0.0.0' }],
        ...(node !== undefined && { node }),
      });
    const leaving = using(80, 'n1');
    const cluster = new ClusterState({
      nodes: [capacityNode('n1')],
      pods: [using(22, 'n1'), leaving, using(443, 'n1')],
    });
    cluster.remove(leaving);
    const free = [22, 80, 443].filter((port) => fittingNodes(using(port), cluster).length > 0);
    expect(free).toEqual([80]);
  });

  test('after pods have left ignore their anti-affinity once the last of them is gone', () => {
    const apart = { topologyKey: 'kubernetes.io/hostname', labelSelector: { matchLabels: { app: 'web' } } };
    const [first, second] = [1, 2].map(() => capacityPod({ node: 'n1', podAntiAffinity: [apart] }));
    const cluster = new ClusterState({ nodes: [capacityNode('n1')], pods: [first, second] as Pod[] });
    const repels = () => fittingNodes(capacityPod({ labels: { app: 'web' } }), cluster).length === 0;
    cluster.remove(first as Pod);
    expect([repels(), cluster.hasRepulsions]).toEqual([true, true]);
    cluster.remove(second as Pod);
    expect([repels(), cluster.hasRepulsions]).toEqual([false, false]);
  });

  test('that are undone leave the cluster as it was', () => {
    fc.assert(
      fc.property(drawnCluster, ({ nodes, pods, leaving }) => {
        const cluster = new ClusterState({ nodes, pods });
        const placer = new Placer(cluster);
        const place = () => leaving.map((one) => placer.move(one)).map(placementText);
        const mark = cluster.mark;
        const first = place();
        cluster.undo(mark);
        expect(place()).toEqual(first);
      }),
    );
  });

  test('never choose a cordoned node, and never more than a node has', () => {
    fc.assert(
      fc.property(drawnCluster, ({ nodes, pods, leaving }) => {
        const cluster = new ClusterState({ nodes, pods });
        const placer = new Placer(cluster);
        for (const one of leaving) {
          const placement = placer.move(one);
          if (placement.kind === 'Unplaced') continue;
          const { node, used } = placement.node;
          expect(node.spec.unschedulable).not.toBe(true);
          // Pods that were there before may use more than the node has; nothing more is added to them.
          const requested = requestsOf(schedulingOf(one)).get('cpu') ?? 0;
          if (requested > 0) expect(used.get('cpu')).toBeLessThanOrEqual(allocatableOf(node).get('cpu') ?? 0);
        }
      }),
    );
  });

  test('do not depend on the order of nodes and pods in the snapshot', () => {
    fc.assert(
      fc.property(drawnCluster, ({ nodes, pods, leaving }) => {
        const place = (facts: { nodes: Node[]; pods: Pod[] }) => {
          const placer = new Placer(new ClusterState(facts));
          return leaving.map((one) => placementText(placer.move(one)));
        };
        expect(place({ nodes: nodes.toReversed(), pods: pods.toReversed() })).toEqual(place({ nodes, pods }));
      }),
    );
  });
});

test('a pod that fits still fits when a node is added', () => {
  fc.assert(
    fc.property(drawnCluster, fc.boolean(), ({ nodes, pods, leaving: [one] }, unschedulable) => {
      if (one === undefined) return;
      const added = capacityNode('added', { cpu: 1_000, unschedulable });
      const before = names(fittingNodes(one, new ClusterState({ nodes, pods })));
      const after = names(fittingNodes(one, new ClusterState({ nodes: [...nodes, added], pods })));
      expect(after).toEqual(expect.arrayContaining(before));
    }),
  );
});

function placementText(placement: ReturnType<Placer['place']>): string {
  return placement.kind === 'Placed' ? placement.node.node.metadata.name : misfitText(placement.misfit);
}
