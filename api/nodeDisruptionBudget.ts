import * as z from 'zod';
import { conditions } from './conditions.ts';
import type { KubeObject } from './core.ts';
import { ATOMIC_LIST, type CelRule, cel, countOrPercent, int32, int64, text, timestamp } from './schema.ts';
import { NodeSelector } from './selectors.ts';

/**
 * Schema of NodeDisruptionBudget, an extension to KEP-4212. Its TypeScript types and its CRD are derived from it. A budget limits how many
 * nodes of the cluster, or of a part of it, may be out of service at the same time.
 */

const isCountOrPercent: CelRule = {
  rule: "type(self) == int ? self >= 0 : self.matches('^(100|[0-9]{1,2})%$')",
  message: 'maxUnavailable must be a number of 0 or more, or a percentage such as "10%"',
};

export const DEFAULT_NODE_DISRUPTION_BUDGET = '10%';

export const NodeDisruptionBudgetSpec = z.strictObject({
  maxUnavailable: countOrPercent()
    .default(DEFAULT_NODE_DISRUPTION_BUDGET)
    .describe(
      'Maximum number of nodes that may be out of service at the same time: a number, or a percentage of the selected nodes, rounded down to at least one. A node is out of service if it is cordoned, is not ready, waits for its readiness gates, is held by a NodeMaintenance in stage Cordon or Drain, or is reserved by a window. With 0, windows start no nodes.',
    )
    .meta(cel(isCountOrPercent)),
  nodeSelector: NodeSelector.optional().describe(
    'The nodes that the budget limits; all nodes of the cluster if it is not set. Windows start a node only when every budget that selects it allows it.',
  ),
});
export type NodeDisruptionBudgetSpec = z.infer<typeof NodeDisruptionBudgetSpec>;

const NodeReservation = z.strictObject({
  node: text(253).describe('Name of the node.'),
  window: text(63).describe('Name of the MaintenanceWindow that maintains the node.'),
  since: timestamp().describe('Time at which the node was reserved.'),
});
export type NodeReservation = z.infer<typeof NodeReservation>;

export const NodeDisruptionBudgetStatus = z.strictObject({
  conditions: conditions('Exhausted signals that no further selected node may be taken out of service.'),
  observedGeneration: int64()
    .default(0)
    .describe('The .metadata.generation that this status was computed from.'),
  nodes: int32(0).default(0).describe('Number of nodes that the budget selects.'),
  allowed: int32(0).default(0).describe('Number of nodes that may be out of service at the same time.'),
  outOfService: int32(0).default(0).describe('Number of selected nodes that are out of service.'),
  reservations: z
    .array(NodeReservation)
    .max(5000)
    .default([])
    .describe(
      'Nodes that are reserved for maintenance by a window, whichever budgets select them. Only the budget named cluster has reservations. A window reserves a node before it starts the node. The write carries the resourceVersion that the decision is based on, so that windows that decide at the same time cannot exceed any budget together.',
    )
    .meta(ATOMIC_LIST),
});
export type NodeDisruptionBudgetStatus = z.infer<typeof NodeDisruptionBudgetStatus>;

/** The stored object. `status` is not set until a worker has reconciled it. */
export interface NodeDisruptionBudget extends KubeObject {
  spec: NodeDisruptionBudgetSpec;
  status?: NodeDisruptionBudgetStatus;
}
