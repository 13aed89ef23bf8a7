import * as z from 'zod';
import { conditions } from './conditions.ts';
import type { KubeObject } from './core.ts';
import { MAX_READINESS_GATES } from './names.ts';
import { gateName, readinessGates } from './nodeReadiness.ts';
import { ATOMIC_LIST, type CelRule, cel, int32, int64, text } from './schema.ts';
import { NodeSelector } from './selectors.ts';

/**
 * NodeReadinessPolicy, the only source of its TypeScript types and of its CRD. It extends the proposal "Node Readiness Gates",
 * which leaves open who writes the gates of a node.
 */

const MAX_REQUIREMENTS = 10_000;

/** The apiserver judges each new node by each policy, with a budget; beyond it, a node would join without the taint. */
const isJudgedInTime: CelRule = {
  rule: `self.nodeSelectorTerms.map(term, (has(term.matchExpressions) ? size(term.matchExpressions) : 0) + (has(term.matchFields) ? size(term.matchFields) : 0)).sum() <= ${MAX_REQUIREMENTS}`,
  message: `nodeSelector: at most ${MAX_REQUIREMENTS} requirements in all of its terms together, so that the apiserver can judge a new node by them: select by a label, or write several policies`,
};

export const NodeReadinessPolicySpec = z.strictObject({
  nodeSelector: NodeSelector.describe(
    'NodeSelector selects the nodes that get the gates. New nodes among them have the taint readiness.k8s.io/gates:NoSchedule from their very first appearance.',
  ).meta(cel(isJudgedInTime)),
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
  problems: text(256)
    .default('')
    .describe('What is not as it should be: the reasons of the conditions that are False, such as NoPods.'),
  withheldGates: z
    .array(gateName())
    .max(MAX_READINESS_GATES)
    .default([])
    .describe(
      'The gates that are not in effect, by name: pods or pod templates of them do not tolerate the taint readiness.k8s.io/gates:NoSchedule, and so could not start on a node that waits for them. They are given to the nodes as soon as these tolerate it. A gate that is in effect already stays so.',
    )
    .meta(ATOMIC_LIST),
  conditions: conditions(
    [
      'GatesWritten signals whether every selected node has every gate that is not withheld in its NodeReadiness.',
      'GatesTolerated signals whether the pods and pod templates of all gates tolerate the taint readiness.k8s.io/gates:NoSchedule; one that does not could never open its gate on a new node, which is why such a gate is withheld.',
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
