import type { Condition, Pod } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { type ConditionFacts, DRAIN_DEADLINE_EXCEEDED, isTrue } from '../common/conditions.ts';
import { compareNames, listed } from '../common/names.ts';
import { podName } from '../common/pod.ts';
import { numbered } from '../common/text.ts';
import type { StoppedDrain, UnplacedPod } from './allocation.ts';
import { type CapacityDeadlock, deadlockMessage, type StrandedPod } from './deadlock.ts';
import { stoppedReasonText } from './stoppedReason.ts';
import { misfitText } from './placement.ts';

/** Condition of a NodeMaintenance that requires capacity, or whose pods have not fitted on other nodes. */
export const CAPACITY_AVAILABLE = 'CapacityAvailable';

export const CapacityReason = {
  /** All pods that are left fit on other nodes. */
  PodsFit: 'PodsFit',
  /** Pods fit on no other node. */
  PodsDoNotFit: 'PodsDoNotFit',
  /** Pods wait because free capacity is allocated to another maintenance first. */
  WaitingForMaintenance: 'WaitingForMaintenance',
  /** It is not known yet which volumes the claims of pods are bound to. */
  VolumesUnknown: 'VolumesUnknown',
  /** Pods are Pending, and would fit on nodes of the maintenance. */
  PodsPending: 'PodsPending',
  /** Pods are Pending because of cordoned nodes, and the budget that blocks the drains waits for these pods. */
  Deadlock: 'Deadlock',
} as const;
export type CapacityReason = (typeof CapacityReason)[keyof typeof CapacityReason];

/** Facts about the places for the pods of one maintenance. */
export interface CapacityFacts {
  /** Its pods wait until they fit. */
  readonly waits: boolean;
  /** They are about all of its pods, and not only about those that existed a moment ago. */
  readonly isComplete: boolean;
  readonly unplaced: readonly UnplacedPod[];
  /** Maintenances to which the missing capacity is allocated first. */
  readonly servedFirst: readonly string[];
  /** Other maintenances that keep their nodes until an operator acts. */
  readonly stopped: readonly StoppedDrain[];
  /** Pods that wait until the volumes of their claims are read. */
  readonly unread: readonly Pod[];
  /** Pending pods that would fit on its nodes. */
  readonly stranded: readonly StrandedPod[];
  /** Deadlocks that its pods or nodes are part of. */
  readonly deadlocks: readonly CapacityDeadlock[];
}

/**
 * Reports whether the pods of the maintenance wait until they fit on other nodes. `isPastDeadline`: the drain has a deadline that has passed; from
 * then on nothing is held back.
 */
export function holdsPodsBack({ spec }: Pick<NodeMaintenance, 'spec'>, isPastDeadline = false): boolean {
  return spec.requireCapacity === true && !isPastDeadline;
}

/** Reports whether a maintenance with this condition waits for capacity. */
export function waitsForCapacity(
  { spec }: Pick<NodeMaintenance, 'spec'>,
  conditions: readonly Condition[] = [],
): boolean {
  const condition = conditions.find(({ type }) => type === CAPACITY_AVAILABLE);
  if (condition?.status !== 'False') return false;
  if (condition.reason === CapacityReason.Deadlock) return true;
  return (
    holdsPodsBack({ spec }, isTrue(conditions, DRAIN_DEADLINE_EXCEEDED)) &&
    condition.reason !== CapacityReason.PodsPending
  );
}

/** Returns the condition; the most serious fact is the reason. */
export function capacityCondition(facts: CapacityFacts): ConditionFacts {
  const { unplaced, servedFirst, unread, stranded, deadlocks } = facts;
  const [deadlock] = deadlocks;
  if (deadlock !== undefined) return unavailable(CapacityReason.Deadlock, deadlockMessage(deadlock));
  if (unplaced.length > 0 && servedFirst.length > 0)
    return unavailable(CapacityReason.WaitingForMaintenance, servedFirstMessage(facts));
  if (unplaced.length > 0) return unavailable(CapacityReason.PodsDoNotFit, unplacedMessage(facts));
  if (unread.length > 0) return unavailable(CapacityReason.VolumesUnknown, unreadMessage(unread));
  if (stranded.length > 0) return unavailable(CapacityReason.PodsPending, strandedMessage(stranded));
  const message = 'All pods that are left fit on other nodes.';
  return { type: CAPACITY_AVAILABLE, status: 'True', reason: CapacityReason.PodsFit, message };
}

function unavailable(reason: CapacityReason, message: string): ConditionFacts {
  return { type: CAPACITY_AVAILABLE, status: 'False', reason, message };
}

/** Limits the pods in a message. */
const maxNames = 3;

function servedFirstMessage({ unplaced, servedFirst, stopped }: CapacityFacts): string {
  const names = listed(servedFirst, maxNames);
  return `${numbered(unplaced.length, 'pod')} ${unplaced.length === 1 ? 'waits' : 'wait'} because free capacity is allocated to NodeMaintenance ${names} first: ${podNames(unplaced.map(({ pod }) => pod))}.${stoppedNote(stopped)}`;
}

function unplacedMessage({ unplaced, waits, stopped }: CapacityFacts): string {
  const fit = unplaced.length === 1 ? 'fits' : 'fit';
  const effect = waits
    ? 'They are evicted when there is room: add a node, free resources, or set .spec.requireCapacity to false'
    : 'They are evicted nevertheless, because .spec.requireCapacity is not true: replacements will be Pending';
  return `${numbered(unplaced.length, 'pod')} ${fit} on no other node: ${unplacedNames(unplaced)}. ${effect}.${stoppedNote(stopped)}`;
}

/** Names the maintenances that do not return their nodes by themselves, with the reason. */
function stoppedNote(stopped: readonly StoppedDrain[]): string {
  if (stopped.length === 0) return '';
  const texts = stopped.map(({ name, stoppedReason }) => `${name} (${stoppedReasonText(stoppedReason)})`);
  return ` NodeMaintenance ${listed(texts, maxNames)} ${stopped.length === 1 ? 'keeps its' : 'keep their'} nodes until an operator acts.`;
}

/** Formats `shop/web-1 (0/5 nodes are available: ...), shop/web-2 (...) and 4 more`. */
export function unplacedNames(unplaced: readonly UnplacedPod[]): string {
  const texts = unplaced
    .toSorted((a, b) => compareNames(podName(a.pod), podName(b.pod)))
    .map(({ pod, misfit }) => `${podName(pod)} (${misfitText(misfit)})`);
  return listed(texts, maxNames);
}

function unreadMessage(unread: readonly Pod[]): string {
  const wait = unread.length === 1 ? 'waits until the volumes of its' : 'wait until the volumes of their';
  return `${numbered(unread.length, 'pod')} ${wait} claims are read: ${podNames(unread)}.`;
}

function strandedMessage(stranded: readonly StrandedPod[]): string {
  const pods = stranded.map(({ pod }) => pod);
  return `${numbered(pods.length, 'pod')} ${pods.length === 1 ? 'is' : 'are'} Pending and would fit on nodes that maintenances have cordoned: ${podNames(pods)}. Complete a maintenance, or add a node.`;
}

function podNames(pods: readonly Pod[]): string {
  return listed(pods.map(podName).toSorted(compareNames), maxNames);
}
