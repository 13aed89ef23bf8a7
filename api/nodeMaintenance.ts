import * as z from 'zod';
import { conditions } from './conditions.ts';
import { DrainDeadline, drainDeadlineStays, MAX_DEADLINE_STEPS } from './drainDeadline.ts';
import type { KubeObject } from './core.ts';
import {
  ATOMIC_LIST,
  ATOMIC_MAP,
  type CelRule,
  cel,
  int32,
  int64,
  listMap,
  objectName,
  oneOf,
  text,
  timestamp,
  whenSet,
} from './schema.ts';
import { LabelSelector, NodeSelector } from './selectors.ts';

/**
 * NodeMaintenance: the single source of its TypeScript types and of its CRD. Descriptions are the sentences of KEP-4212, letter for letter. The
 * description of a field that the KEP does not have starts with "Extension to KEP-4212".
 */

/** 256 entries of the user, and the twelve entries of the KEP. */
export const MAX_DRAIN_PLAN_ENTRIES = 268;
const MAX_REASON_LENGTH = 1024;

function lines(...sentences: string[]): string {
  return sentences.join('\n');
}

const STAGES = ['Idle', 'Cordon', 'Drain', 'Complete'] as const;

export const NodeMaintenanceStage = oneOf(STAGES);
export type NodeMaintenanceStage = z.infer<typeof NodeMaintenanceStage>;

const POD_TYPES = ['Default', 'DaemonSet', 'Static'] as const;

export const PodType = oneOf(POD_TYPES);
export type PodType = z.infer<typeof PodType>;

export const DrainPlanEntry = z
  .strictObject({
    podSelector: LabelSelector.optional().describe(
      lines(
        'PodSelector selects pods according to their labels.',
        'This can help to select which pods of the same priority should be evacuated first.',
      ),
    ),
    podPriority: int32().describe(
      lines(
        'PodPriority specifies a pod priority.',
        'Pods with a priority less or equal to this value are selected.',
      ),
    ),
    podType: PodType.describe(
      lines(
        'PodType selects pods according to the pod type:',
        '- Default selects all pods except DaemonSet and Static pods.',
        '- DaemonSet selects DaemonSet pods.',
        '- Static selects static pods.',
      ),
    ),
  })
  .meta(ATOMIC_MAP);
export type DrainPlanEntry = z.infer<typeof DrainPlanEntry>;

const STAGE_ORDER = "{'Idle': 0, 'Cordon': 1, 'Drain': 2, 'Complete': 3}";

// KEP-4212 › Supported Stage Transitions: forward only; stages in parentheses there may be skipped.
const stageMovesForward: CelRule = {
  rule: `${STAGE_ORDER}[self] >= ${STAGE_ORDER}[oldSelf]`,
  message: 'stage cannot go back: the order is Idle -> Cordon -> Drain -> Complete',
  messageExpression:
    "'stage cannot go from ' + oldSelf + ' back to ' + self + (self == 'Idle' ? ' (the default when stage is left out)' : '') + ': the order is Idle -> Cordon -> Drain -> Complete. ' + (oldSelf == 'Complete' ? 'Create a new NodeMaintenance instead' : 'Set Complete to uncordon the nodes, then create a new NodeMaintenance')",
};

const POD_TYPE_ORDER = "{'Default': 0, 'DaemonSet': 1, 'Static': 2}";

const drainPlanIsImmutable: CelRule = {
  rule: 'has(self.drainPlan) == has(oldSelf.drainPlan) && (!has(self.drainPlan) || self.drainPlan == oldSelf.drainPlan)',
  message:
    'drainPlan is immutable: restore the previous value, or set stage to Complete and create a new NodeMaintenance with the new plan',
  fieldPath: '.drainPlan',
};

// "nil -> DaemonSet -> Static"
const podTypesAreInOrder: CelRule = {
  rule: `self.map(e, ${POD_TYPE_ORDER}[e.podType]).isSorted()`,
  message: 'drainPlan must list podType Default first, then DaemonSet, then Static: reorder the entries',
};

// "priority fields should be in ascending order for each podType"
function prioritiesAscend(podType: string): CelRule {
  return {
    rule: `self.filter(e, e.podType == '${podType}').map(e, e.podPriority).isSorted()`,
    message: `drainPlan must list the entries of podType ${podType} in ascending order of podPriority: reorder them`,
  };
}

// "If the priority and podType are the same, concrete selectors are executed first."
function concreteSelectorsAreFirst(podType: string): CelRule {
  const ofType = `self.filter(e, e.podType == '${podType}')`;
  return {
    rule: `!${ofType}.map(e, e.podPriority).isSorted() || ${ofType}.map(e, e.podPriority * 2 + (has(e.podSelector) ? 0 : 1)).isSorted()`,
    message: `drainPlan must list an entry of podType ${podType} with a podSelector before the entry of the same podPriority that has none: swap them`,
  };
}

// "Duplicate entries are not allowed."
const entriesAreUnique: CelRule = {
  // Comparing the priority first decides most pairs without comparing their selectors.
  rule: 'self.all(e, self.exists_one(other, other.podPriority == e.podPriority && other == e))',
  message: 'drainPlan must not repeat an entry: remove the duplicate',
};

const drainPlanRules: CelRule[] = [
  podTypesAreInOrder,
  ...POD_TYPES.map(prioritiesAscend),
  ...POD_TYPES.map(concreteSelectorsAreFirst),
  entriesAreUnique,
];

/** The entries "added during the NodeMaintenance admission" (KEP-4212 › Pod Selection), as the KEP lists them. */
const injectedEntries = POD_TYPES.flatMap((podType) => [
  '- podPriority: 1000000000 // highest priority for user defined priority classes',
  `  podType: "${podType}"`,
  '- podPriority: 2000000000 // system-cluster-critical priority class',
  `  podType: "${podType}"`,
  '- podPriority: 2000001000 // system-node-critical priority class',
  `  podType: "${podType}"`,
  '- podPriority: 2147483647 // maximum value',
  `  podType: "${podType}"`,
]);

const stageDescription = lines(
  'The order of the stages is Idle -> Cordon -> Drain -> Complete.',
  '',
  '- The Cordon or Drain stage can be skipped by setting the stage to Complete.',
  '- The NodeMaintenance object is moved to the Complete stage on deletion unless the Idle stage has been set.',
  '',
  'The default value is Idle.',
  '',
  'Idle does not interact with the cluster.',
  'Cordon cordons all selected nodes by making them unschedulable.',
  'Drain:',
  '1. Cordons all selected nodes by making them unschedulable.',
  '2. Gives an intent to drain all selected nodes by creating Evacuation objects for the',
  "   node's pods.",
  'Complete:',
  '1. Removes all Evacuation objects requested by this NodeMaintenance.',
  '2. Uncordons all selected nodes by making them schedulable again, unless there is not another',
  '   maintenance in progress.',
);

const drainPlanDescription = lines(
  'DrainPlan is executed from the first entry to the last entry during the Drain stage.',
  'DrainPlanEntry podType fields should be in the following order:',
  'nil -> DaemonSet -> Static',
  'DrainPlanEntry priority fields should be in ascending order for each podType.',
  'If the priority and podType are the same, concrete selectors are executed first.',
  '',
  'The following entries are injected into the drainPlan on the NodeMaintenance admission:',
  ...injectedEntries,
  '',
  'Duplicate entries are not allowed.',
  'This field is immutable.',
);

/** The drain plan of a mutable object, such as the template of a window. That of a NodeMaintenance is immutable. */
export const DrainPlan = z
  .array(DrainPlanEntry, { error: 'expected a list of drain plan entries' })
  .max(MAX_DRAIN_PLAN_ENTRIES, { error: `expected at most ${MAX_DRAIN_PLAN_ENTRIES} entries` })
  .optional()
  .describe(drainPlanDescription)
  .meta({ ...ATOMIC_LIST, ...cel(...drainPlanRules) });

const RequireCapacity = z
  .boolean({ error: 'expected true or false' })
  .optional()
  .describe(
    'Extension to KEP-4212: if true, a pod that a controller recreates is evacuated only when its replacement fits on another node, by the rules of the default scheduler. The condition CapacityAvailable names the pods that wait, and why. If false, the condition only reports pods that do not fit.',
  );

export const NodeMaintenanceSpec = z
  .strictObject({
    nodeSelector: NodeSelector.describe('NodeSelector selects nodes for this node maintenance.'),
    stage: NodeMaintenanceStage.default('Idle').describe(stageDescription).meta(cel(stageMovesForward)),
    drainPlan: DrainPlan.meta(cel(...drainPlanRules.map(whenSet))),
    reason: text(MAX_REASON_LENGTH).optional().describe('Reason for the maintenance.'),
    drainDeadline: DrainDeadline.optional(),
    requireCapacity: RequireCapacity,
  })
  .meta(cel(drainPlanIsImmutable, drainDeadlineStays));
export type NodeMaintenanceSpec = z.infer<typeof NodeMaintenanceSpec>;

const DeadlineStepStatus = z.strictObject({
  time: timestamp().describe('Time at which the step is due.'),
  action: oneOf(['Notify', 'Report', 'Delete']).describe(
    'What the step does: a step of .spec.drainDeadline.steps, or, at the deadline, .spec.drainDeadline.onDeadline.',
  ),
  doneAt: timestamp()
    .optional()
    .describe(
      'Time at which the step was done. Missing before, and if the nodes were drained in time. Steps that are overdue together are done as one.',
    ),
});
export type DeadlineStepStatus = z.infer<typeof DeadlineStepStatus>;

export const DrainDeadlineStatus = z
  .strictObject({
    time: timestamp().describe('The deadline. A later change of the spec can only make it earlier.'),
    steps: z
      .array(DeadlineStepStatus)
      .max(MAX_DEADLINE_STEPS + 1)
      .default([])
      .describe('Steps of the escalation, in the order of their times. The last one is due at the deadline.')
      .meta(ATOMIC_LIST),
    drainedAt: timestamp()
      .optional()
      .describe(
        'Time at which the nodes were drained for the first time. From then on, the deadline has no effect.',
      ),
  })
  .describe('Extension to KEP-4212: the deadline of the drain that is in effect, and its escalation.');
export type DrainDeadlineStatus = z.infer<typeof DrainDeadlineStatus>;

const StageStatus = z.strictObject({
  name: NodeMaintenanceStage.describe('Name of the Stage.'),
  startTimestamp: timestamp().describe('StartTimestamp is the time that indicates the start of this stage.'),
});

const NodeReference = z.strictObject({ name: objectName().describe('Name of the node.') });

function count(description: string) {
  return int32(0).default(0).describe(description);
}

export const NodeMaintenanceNodeStatus = z.strictObject({
  nodeRef: NodeReference.describe('NodeRef identifies a Node.'),
  drainTargets: z
    .array(DrainPlanEntry)
    .default([])
    .describe(
      lines(
        'DrainTargets specifies which pods on this node are currently being targeted for evacuation.',
        'Once evacuation of the Default PodType finishes, DaemonSet PodType entries appear.',
        'Once the evacuation of DaemonSet PodType finishes, Static PodType entries appear.',
        'The PodPriority for these entries is increased over time according to the .spec.DrainPlan',
        'as the lower-priority pods finish evacuation.',
        'The next entry in the .spec.DrainPlan is selected once all the nodes have reached their',
        'DrainTargets.',
        'If there are multiple NodeMaintenances for a node, the least powerful DrainTargets among',
        'them are selected and set for all the NodeMaintenances for that node. Thus, the DrainTargets',
        'do not have to correspond to the entries in .spec.drainPlan for a single NodeMaintenance',
        'instance.',
        'DrainTargets cannot backtrack and will target more pods with each update until all pods on',
        'the node are targeted.',
      ),
    )
    .meta(ATOMIC_LIST),
  drainMessage: z
    .string()
    .default('')
    .describe(
      lines(
        'DrainMessage may specify a state of the drain on this node and a reason why the drain',
        'targets are set to a particular values.',
      ),
    ),
  podsPendingEvacuation: count('Number of pods that have not yet started evacuation.'),
  podsEvacuating: count('Number of pods that have started evacuation and have a matching Evacuation object.'),
  podsPeak: int32(0)
    .optional()
    .describe(
      'Extension to KEP-4212: the highest number of pods that were left to evacuate on the node at one time. Drain progress is measured against it.',
    ),
  unschedulableBefore: z
    .boolean()
    .optional()
    .describe(
      'Extension to KEP-4212: whether the node was unschedulable before a NodeMaintenance first cordoned it. If true, Complete does not uncordon the node.',
    ),
  autoscalerAnnotationsBefore: z
    .array(z.string().max(253))
    .max(16)
    .optional()
    .describe(
      'Extension to KEP-4212: the annotations that keep autoscalers from removing the node, if the node had them before a NodeMaintenance first held it. Complete removes the other ones. Missing if the NodeMaintenances set none on the node.',
    )
    .meta(ATOMIC_LIST),
  agentVersion: z
    .string()
    .max(64)
    .optional()
    .describe(
      'Extension to KEP-4212: the version of the node agent, present while it reports from this node. Updated during the Drain stage.',
    ),
  agentCapabilities: z
    .array(z.string().max(63))
    .max(16)
    .optional()
    .describe(
      'Extension to KEP-4212: what the node agent of this node can do, present while it reports: `static-pods` (it has found their folder) and `reboot` (it has a reboot command). Static pods are evacuated only from nodes whose agent has `static-pods`. Updated during the Drain stage.',
    )
    .meta(ATOMIC_LIST),
  authorized: z
    .boolean()
    .optional()
    .describe(
      'Extension to KEP-4212: false if the user who requested the maintenance may not maintain this node. A node that was not cordoned yet is then skipped; on one that was, nothing more is started. Missing otherwise.',
    ),
});
export type NodeMaintenanceNodeStatus = z.infer<typeof NodeMaintenanceNodeStatus>;

const BlockedPod = z.strictObject({
  namespace: z.string().describe('Namespace of the pod.'),
  name: z.string().describe('Name of the pod.'),
  node: z.string().describe('Name of the node that the pod runs on.'),
  reason: z.string().describe('CamelCase reason why the pod cannot leave, for programs.'),
  message: z.string().describe('Human-readable explanation why the pod cannot leave and how to fix it.'),
});

export const DrainTier = z
  .strictObject({
    number: int32(1).describe('Number of the current tier, counted from 1.'),
    total: int32(1).describe(
      'Number of tiers: those that were drained, the current one and those that still contain pods.',
    ),
  })
  .describe(
    'Extension to KEP-4212: the tier of the drain plan that this maintenance has reached. Counts only tiers that contain pods, or contained some before they were drained. Missing until such a tier is reached.',
  );
export type DrainTier = z.infer<typeof DrainTier>;

export const NodeMaintenanceStatus = z.strictObject({
  stageStatuses: z
    .array(StageStatus)
    .default([])
    .describe('StageStatuses tracks the statuses of started stages.')
    .meta(listMap('name')),
  nodeStatuses: z
    .array(NodeMaintenanceNodeStatus)
    .default([])
    .describe('List of a maintenance statuses for all nodes targeted by this maintenance.')
    .meta(ATOMIC_LIST),
  conditions: conditions(
    'Drained signals whether all pods pending termination have terminated on all target nodes when drain is requested by the maintenance object.',
  ),
  observedGeneration: int64()
    .default(0)
    .describe('Extension to KEP-4212: the .metadata.generation that this status was computed from.'),
  drainPosition: count(
    'Extension to KEP-4212: the index of the drain plan entry that this maintenance has reached. It never decreases.',
  ),
  drainTier: DrainTier.optional(),
  drainDeadline: DrainDeadlineStatus.optional(),
  nodes: count('Extension to KEP-4212: number of nodes targeted by this maintenance.'),
  podsPendingEvacuation: count(
    'Extension to KEP-4212: number of pods on all nodes that have not yet started evacuation.',
  ),
  podsEvacuating: count(
    'Extension to KEP-4212: number of pods on all nodes that have started evacuation and have a matching Evacuation object.',
  ),
  podsRemaining: int32(0)
    .optional()
    .describe(
      'Extension to KEP-4212: number of static pods that keep running, because no node agent reports from their node or because they belong to the control plane. The condition Drained says why.',
    ),
  podsBlocked: int32(0)
    .optional()
    .describe('Extension to KEP-4212: number of targeted pods that cannot leave.'),
  blockedPods: z
    .array(BlockedPod)
    .optional()
    .describe(
      'Extension to KEP-4212: the first twenty of the targeted pods that cannot leave, and why. .status.podsBlocked counts all of them.',
    )
    .meta(ATOMIC_LIST),
});
export type NodeMaintenanceStatus = z.infer<typeof NodeMaintenanceStatus>;

/** The stored object. `status` is absent until a worker has processed the object. */
export interface NodeMaintenance extends KubeObject {
  spec: NodeMaintenanceSpec;
  status?: NodeMaintenanceStatus;
}
