import fc from 'fast-check';
import type { Node, Pod, PodScheduling } from '../../api/core.ts';

let serial = 0;

/** Returns a node with some thousandths of cpu, and room for as many pods. */
export function capacityNode(
  name: string,
  { cpu = 4_000, unschedulable = false, labels = {} }: NodeDiffers = {},
): Node {
  return {
    metadata: { name, labels: { 'kubernetes.io/hostname': name, ...labels } },
    spec: unschedulable ? { unschedulable } : {},
    status: { allocatable: { cpu: `${cpu}m`, pods: '110' } },
  };
}

interface NodeDiffers {
  cpu?: number;
  unschedulable?: boolean;
  labels?: Record<string, string>;
}

interface PodDiffers extends Omit<PodScheduling, 'containers'> {
  name?: string;
  /** Its node; none for a Pending pod. */
  node?: string;
  cpu?: string;
  labels?: Record<string, string>;
  /** UID of its ReplicaSet; none for undefined. */
  owner?: string | undefined;
  createdAt?: string;
}

/** Returns a pod of a ReplicaSet; pass only what differs. */
export function capacityPod(differs: PodDiffers = {}): Pod {
  serial += 1;
  const { name = `pod-${serial}`, node, cpu, labels = {}, createdAt, ...rest } = differs;
  const { owner = 'rs', ...scheduling } = rest;
  const reference = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: owner, uid: owner, controller: true };
  return {
    metadata: {
      name,
      namespace: 'shop',
      uid: `uid-${serial}`,
      labels,
      ownerReferences: [reference],
      ...(createdAt !== undefined && { creationTimestamp: createdAt }),
    },
    spec: {
      ...(node !== undefined && { nodeName: node }),
      scheduling: { ...(cpu !== undefined && { containers: [{ cpu }] }), ...scheduling },
    },
    status: { phase: node === undefined ? 'Pending' : 'Running', ready: node !== undefined },
  };
}

/** A small cluster: nodes, pods on them, and some of these pods, which leave. Some have anti-affinity by node or zone. */
export const drawnCluster = fc
  .record({
    nodes: fc.array(
      fc.record({
        cpu: fc.integer({ min: 0, max: 6 }),
        cordoned: fc.boolean(),
        zone: fc.constantFrom('a', 'b'),
      }),
      { minLength: 1, maxLength: 6 },
    ),
    pods: fc.array(
      fc.record({
        node: fc.nat(5),
        cpu: fc.integer({ min: 0, max: 3 }),
        app: fc.constantFrom('web', 'db'),
        apart: fc.constantFrom(undefined, 'kubernetes.io/hostname', 'topology.kubernetes.io/zone'),
        leaves: fc.boolean(),
      }),
      { maxLength: 12 },
    ),
  })
  .map((drawn) => {
    const nodes = drawn.nodes.map(({ cpu, cordoned, zone }, index) =>
      capacityNode(`n${index}`, {
        cpu: cpu * 1_000,
        unschedulable: cordoned,
        labels: { 'topology.kubernetes.io/zone': zone },
      }),
    );
    const pods = drawn.pods.map(({ node, cpu, app, apart }) =>
      capacityPod({
        node: `n${node % nodes.length}`,
        cpu: `${cpu}`,
        labels: { app },
        ...(apart !== undefined && {
          podAntiAffinity: [{ topologyKey: apart, labelSelector: { matchLabels: { app } } }],
        }),
      }),
    );
    return { nodes, pods, leaving: pods.filter((_, index) => drawn.pods[index]?.leaves) };
  });
