import type { Pod } from '../api/core.ts';
import type {
  NodeMaintenanceNodeStatus,
  NodeMaintenanceStage,
  NodeMaintenanceStatus,
} from '../api/nodeMaintenance.ts';
import { type ConditionFacts, withCondition } from './conditions.ts';
import { compareNames, type DrainDecision, listed } from './drain.ts';
import { podName, podTypeOf } from './pod.ts';

export const emptyStatus: NodeMaintenanceStatus = {
  stageStatuses: [],
  nodeStatuses: [],
  conditions: [],
  observedGeneration: 0,
  drainPosition: 0,
  nodes: 0,
  podsPendingEvacuation: 0,
  podsEvacuating: 0,
};

/** "Amended when a new stage is selected" (KEP-4212 > Status): a stage keeps the time at which it first began. */
export function withStage(
  status: NodeMaintenanceStatus,
  name: NodeMaintenanceStage,
  now: string,
): NodeMaintenanceStatus {
  if (status.stageStatuses.some((stage) => stage.name === name)) return status;
  return { ...status, stageStatuses: [...status.stageStatuses, { name, startTimestamp: now }] };
}

/**
 * The status with these nodes, and their sums for `kubectl get`. What was recorded of a node before stays with it, also
 * when the node is no longer selected: it is given back on Complete like the others.
 */
export function withNodes(
  status: NodeMaintenanceStatus,
  nodeStatuses: readonly NodeMaintenanceNodeStatus[],
): NodeMaintenanceStatus {
  const before = new Map(status.nodeStatuses.map((node) => [node.nodeRef.name, node.unschedulableBefore]));
  const merged = nodeStatuses.map((node) => {
    const recorded = node.unschedulableBefore ?? before.get(node.nodeRef.name);
    return recorded === undefined ? node : { ...node, unschedulableBefore: recorded };
  });
  const selected = new Set(merged.map((node) => node.nodeRef.name));
  const left = status.nodeStatuses.filter((node) => !selected.has(node.nodeRef.name)).map(deselected);
  return {
    ...status,
    nodeStatuses: [...merged, ...left].toSorted((a, b) => compareNames(a.nodeRef.name, b.nodeRef.name)),
    nodes: merged.length,
    podsPendingEvacuation: sum(merged.map((node) => node.podsPendingEvacuation)),
    podsEvacuating: sum(merged.map((node) => node.podsEvacuating)),
  };
}

function deselected(node: NodeMaintenanceNodeStatus): NodeMaintenanceNodeStatus {
  return { ...node, drainMessage: 'No longer selected.', podsPendingEvacuation: 0, podsEvacuating: 0 };
}

/** The status that a drain decision leads to: targets, messages, counts, position and the Drained condition. */
export function withDrain(
  status: NodeMaintenanceStatus,
  decision: DrainDecision,
  { planLength, now }: { planLength: number; now: string },
): NodeMaintenanceStatus {
  const drained = withNodes(status, decision.nodeStatuses);
  return {
    ...drained,
    // "DrainTargets cannot backtrack": a position that was published once is never taken back.
    drainPosition: Math.max(status.drainPosition, Math.min(decision.position, planLength - 1)),
    podsRemaining: decision.remaining.length,
    conditions: withCondition(status.conditions, drainedCondition(decision, planLength), now),
  };
}

/** "Set to true if all pods pending evacuation/termination have terminated on all target nodes" (KEP-4212 > Status). */
function drainedCondition(decision: DrainDecision, planLength: number): ConditionFacts {
  const type = 'Drained';
  if (decision.nodeStatuses.length === 0) {
    return { type, status: 'False', reason: 'NoNodeMatches', message: 'No node matches .spec.nodeSelector.' };
  }
  if (decision.position < planLength) {
    const left = sum(decision.nodeStatuses.map((node) => node.podsPendingEvacuation + node.podsEvacuating));
    return { type, status: 'False', reason: 'Draining', message: `${left} pods are left to evacuate.` };
  }
  return { type, status: 'True', ...drainedReason(decision.remaining) };
}

function drainedReason(remaining: readonly Pod[]): { reason: string; message: string } {
  if (remaining.length === 0) return { reason: 'AllPodsTerminated', message: 'No pod is left on the nodes.' };
  const daemons = remaining.filter((pod) => podTypeOf(pod) === 'DaemonSet');
  return {
    reason: daemons.length > 0 ? 'DaemonSetPodsRemain' : 'StaticPodsRemain',
    message: `Left running: ${listed(remaining.map(podName))}.`,
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
