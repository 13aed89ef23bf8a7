import * as z from 'zod';
import { conditions } from './conditions.ts';
import type { KubeObject } from './core.ts';
import { MAX_READINESS_GATES } from './names.ts';
import { gateName, readinessGates } from './nodeReadiness.ts';
import { ATOMIC_LIST, type CelRule, cel, int32, int64, text } from './schema.ts';
import { NodeSelector } from './selectors.ts';

/**
 * Defines NodeReadinessPolicy, from which its TypeScript types and its CRD are derived. It extends the proposal "Node Readiness
 * Gates", which does not define who writes the gates of a node.
 */

const MAX_REQUIREMENTS = 10_000;

/** The apiserver evaluates all policies for each new node within a CEL cost budget. Beyond it, a node would join without the taint. */
const isWithinCostBudget: CelRule = {
  rule: `self.nodeSelectorTerms.map(term, (has(term.matchExpressions) ? size(term.matchExpressions) : 0) + (has(term.matchFields) ? size(term.matchFields) : 0)).sum() <= ${MAX_REQUIREMENTS}`,
  message: `nodeSelector: at most ${MAX_REQUIREMENTS} requirements are allowed in all terms together, the limit of what the apiserver can evaluate for a new node; select by a label, or split the policy`,
};

export const NodeReadinessPolicySpec = z.strictObject({
  nodeSelector: NodeSelector.describe(
    'NodeSelector selects the nodes that get the gates. New nodes that it matches are created with the taint readiness.k8s.io/gates:NoSchedule.',
  ).meta(cel(isWithinCostBudget)),
  readinessGates: readinessGates(
    'The gates that are written into the NodeReadiness of each selected node. They are removed when the node is no longer selected, and when the policy is deleted.',
  ),
});

export const NodeReadinessPolicyStatus = z.strictObject({
  observedGeneration: int64()
    .default(0)
    .describe('The .metadata.generation that this status was computed from.'),
  nodes: int32(0).default(0).describe('Number of selected nodes.'),
  gates: int32(0).default(0).describe('Number of gates.'),
  problems: text(256)
    .default('')
    .describe('The reasons of the conditions that are False, for example NoPods.'),
  suppressedGates: z
    .array(gateName())
    .max(MAX_READINESS_GATES)
    .default([])
    .describe(
      'Names of the gates that are not in effect, because some of their pods or pod templates do not tolerate the taint readiness.k8s.io/gates:NoSchedule and could not start on a node that waits for them. They are written as soon as all tolerate it. A gate that is already in effect stays in effect.',
    )
    .meta(ATOMIC_LIST),
  conditions: conditions(
    [
      'NodesAuthorized signals whether the user who changed the policy last may gate all selected nodes. The gates are not set on the others.',
      'GatesApplied signals whether the NodeReadiness of every selected node has every gate that is not suppressed.',
      'TaintTolerated signals whether the pods and pod templates of all gates tolerate the taint readiness.k8s.io/gates:NoSchedule. A pod that does not tolerate it could never start on a new node, so its gate is suppressed.',
      'OnePodPerNode signals whether each gate selects at most one pod per node, and pods of a single controller.',
      'SelectorsMatch signals whether each gate selects a pod or a pod template. A gate with a reserved selector does not.',
      'NotAllNodesSelected signals whether at least one node is not selected.',
    ].join('\n'),
  ),
});
export type NodeReadinessPolicyStatus = z.infer<typeof NodeReadinessPolicyStatus>;

/** The stored object; `status` is absent until the controller has reconciled it. */
export interface NodeReadinessPolicy extends KubeObject {
  spec: z.infer<typeof NodeReadinessPolicySpec>;
  status?: NodeReadinessPolicyStatus;
}
