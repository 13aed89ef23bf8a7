import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { waitsForCapacity } from '../capacity/condition.ts';
import { NODES_AUTHORIZED } from '../common/nodePermission.ts';
import { isCompleted, isDrained, stageOf } from '../common/stage.ts';
import { BlockerReason } from '../evacuation/blocker.ts';
import { NODE_LEASES_HELD } from '../leases/nodeLease.ts';
import { progressProblemOf } from './progressing.ts';
import { isPaused } from './summary.ts';

/** Reasons for which a maintenance waits that is not done with its stage. */
export const WaitingReason = {
  /** Temporal has been unavailable for longer than a restart takes. */
  TemporalUnavailable: 'TemporalUnavailable',
  /** No run has seen the newest generation of the object. */
  NotObserved: 'NotObserved',
  /** A user paused the maintenance. */
  Paused: 'Paused',
  /** A pod cannot leave without intervention. */
  Blocked: 'Blocked',
  /** PodDisruptionBudgets allow no eviction now. */
  DisruptionBudget: BlockerReason.DisruptionBudget,
  /** Another client holds the maintenance Lease of a node. */
  WaitingForNodeLease: 'WaitingForNodeLease',
  /** The apiserver rejects the cordon of a node. */
  CordonRejected: 'CordonRejected',
  /** The user who requested the maintenance may not maintain a node. */
  NotAuthorized: 'NotAuthorized',
  /** No node matches the selector. */
  NoNodeMatches: 'NoNodeMatches',
  /** The Job of another maintenance works on a node. */
  WorkInProgress: 'WorkInProgress',
  /** Volumes of pods that have left are still attached to a node. */
  VolumesAttached: 'VolumesAttached',
  /** Pods fit on no other node, or cordoned nodes and a budget wait for each other. */
  Capacity: 'Capacity',
  /** Pods are being evacuated. */
  Draining: 'Draining',
  /** Nodes are being uncordoned. */
  Completing: 'Completing',
} as const;
export type WaitingReason = (typeof WaitingReason)[keyof typeof WaitingReason];

/** Returns what the maintenance waits for; undefined if it is done with its stage, or idle. */
export function waitingReasonOf(maintenance: NodeMaintenance): WaitingReason | undefined {
  const stage = stageOf(maintenance);
  if (isCompleted(maintenance)) return undefined;
  if (progressProblemOf(maintenance) !== undefined) return WaitingReason.TemporalUnavailable;
  if (stage === 'Idle') return undefined;
  if (!isObserved(maintenance)) return WaitingReason.NotObserved;
  if (stage === 'Complete')
    return isFalse(maintenance, NODE_LEASES_HELD, 'Waiting')
      ? WaitingReason.WaitingForNodeLease
      : WaitingReason.Completing;
  if (isPaused(maintenance)) return WaitingReason.Paused;
  return stage === 'Drain' ? drainReason(maintenance) : cordonReason(maintenance);
}

const drainReasons: readonly WaitingReason[] = [
  WaitingReason.Blocked,
  WaitingReason.WaitingForNodeLease,
  WaitingReason.CordonRejected,
  WaitingReason.NotAuthorized,
  WaitingReason.NoNodeMatches,
  WaitingReason.WorkInProgress,
  WaitingReason.VolumesAttached,
];

function drainReason(maintenance: NodeMaintenance): WaitingReason | undefined {
  if (isDrained(maintenance)) return undefined;
  const { conditions, podsBlocked = 0 } = maintenance.status ?? {};
  const stated = conditions?.find(({ type }) => type === 'Drained')?.reason;
  const known = drainReasons.find((reason) => reason === stated);
  if (known === undefined && waitsForCapacity(maintenance, conditions)) return WaitingReason.Capacity;
  // Pods that need intervention make the condition say Blocked: the others wait for their budgets.
  return known ?? (podsBlocked > 0 ? WaitingReason.DisruptionBudget : WaitingReason.Draining);
}

function cordonReason(maintenance: NodeMaintenance): WaitingReason | undefined {
  if (isFalse(maintenance, NODE_LEASES_HELD)) return WaitingReason.WaitingForNodeLease;
  return isFalse(maintenance, NODES_AUTHORIZED) ? WaitingReason.NotAuthorized : undefined;
}

function isObserved({ metadata, status }: NodeMaintenance): boolean {
  return (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0);
}

function isFalse({ status }: NodeMaintenance, type: string, reason?: string): boolean {
  const condition = status?.conditions.find((one) => one.type === type);
  return condition?.status === 'False' && (reason === undefined || condition.reason === reason);
}
