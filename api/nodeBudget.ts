import * as z from 'zod';
import { conditions } from './conditions.ts';
import type { KubeObject } from './core.ts';
import { ATOMIC_LIST, type CelRule, cel, countOrPercent, int32, int64, text, timestamp } from './schema.ts';

/**
 * NodeBudget, the only source of its TypeScript types and of its CRD: an extension to KEP-4212. How many nodes of the cluster
 * may be out of service at once is said here, and nowhere else.
 */

const isCountOrPercent: CelRule = {
  rule: "type(self) == int ? self >= 0 : self.matches('^(100|[0-9]{1,2})%$')",
  message: 'maxUnavailable must be a number of 0 or more, or a percentage such as "10%"',
};

export const DEFAULT_NODE_BUDGET = '10%';

export const NodeBudgetSpec = z.strictObject({
  maxUnavailable: countOrPercent()
    .default(DEFAULT_NODE_BUDGET)
    .describe(
      'How many nodes may be out of service at once, as a number or as a percentage of all nodes, rounded down but at least one. Nodes count that anybody cordoned, that are not ready, that wait for their readiness gates, or whose turn in a window is under way. 0 lets no window begin a turn.',
    )
    .meta(cel(isCountOrPercent)),
});
export type NodeBudgetSpec = z.infer<typeof NodeBudgetSpec>;

const NodeClaim = z.strictObject({
  node: text(253).describe('Name of the node.'),
  window: text(63).describe('Name of the MaintenanceWindow in which the node has its turn.'),
  since: timestamp().describe('When the turn was allowed to begin.'),
});
export type NodeClaim = z.infer<typeof NodeClaim>;

export const NodeBudgetStatus = z.strictObject({
  conditions: conditions('Exhausted signals whether no further node may be taken out of service.'),
  observedGeneration: int64()
    .default(0)
    .describe('The .metadata.generation that this status was computed from.'),
  nodes: int32(0).default(0).describe('Number of nodes of the cluster.'),
  allowed: int32(0).default(0).describe('How many of them may be out of service at once.'),
  outOfService: int32(0).default(0).describe('How many of them are out of service.'),
  claims: z
    .array(NodeClaim)
    .max(5000)
    .default([])
    .describe(
      'Nodes whose turn in a window is under way. A turn begins only after its claim was written, under the resourceVersion that was decided on, so that windows that decide at the same moment cannot exceed the budget together.',
    )
    .meta(ATOMIC_LIST),
});
export type NodeBudgetStatus = z.infer<typeof NodeBudgetStatus>;

/** The stored object; `status` is absent until a worker has seen it. */
export interface NodeBudget extends KubeObject {
  spec: NodeBudgetSpec;
  status?: NodeBudgetStatus;
}
