import * as z from 'zod';
import { conditions } from './conditions.ts';
import type { KubeObject } from './core.ts';
import { readinessGates } from './nodeReadiness.ts';
import { int32, int64 } from './schema.ts';
import { NodeSelector } from './selectors.ts';

/**
 * NodeReadinessPolicy, the only source of its TypeScript types and of its CRD. It extends the proposal "Node Readiness Gates",
 * which leaves open who writes the gates of a node.
 */

export const NodeReadinessPolicySpec = z.strictObject({
  nodeSelector: NodeSelector.describe(
    'NodeSelector selects the nodes that get the gates. New nodes among them have the taint readiness.k8s.io/gates:NoSchedule from their very first appearance.',
  ),
  readinessGates: readinessGates(
    'The gates that each of these nodes gets, in its NodeReadiness. They are taken back when the node is no longer selected, and when the policy is deleted.',
  ),
});

export const NodeReadinessPolicyStatus = z.strictObject({
  observedGeneration: int64()
    .default(0)
    .describe('The .metadata.generation that this status was computed from.'),
  nodes: int32(0).default(0).describe('Number of nodes that are selected.'),
  gates: int32(0).default(0).describe('Number of gates.'),
  conditions: conditions(
    [
      'GatesWritten signals whether every selected node has every gate in its NodeReadiness.',
      'GatesTolerated signals whether the pods and pod templates of all gates tolerate the taint readiness.k8s.io/gates:NoSchedule; one that does not could never open its gate on a new node.',
      'SelectorsNarrow signals whether each gate selects at most one pod on a node, and pods of one controller.',
      'SelectorsMatch signals whether each gate selects a pod or a pod template; one with a reserved selector does not.',
      'NodesLimited signals whether some nodes are left that the policy does not select.',
    ].join('\n'),
  ),
});
export type NodeReadinessPolicyStatus = z.infer<typeof NodeReadinessPolicyStatus>;

/** The stored object; `status` is absent until the controller has seen it. */
export interface NodeReadinessPolicy extends KubeObject {
  spec: z.infer<typeof NodeReadinessPolicySpec>;
  status?: NodeReadinessPolicyStatus;
}
