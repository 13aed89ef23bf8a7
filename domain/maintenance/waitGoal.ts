import type { NodeMaintenance, NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { isCordoned } from '../common/cordon.ts';
import { compareNames, listed } from '../common/names.ts';
import { NODES_AUTHORIZED } from '../common/nodePermission.ts';
import { hasStarted, isCompleted, isDrained, stageOf, stagesAfter } from '../common/stage.ts';
import { entryText, planOf, positionOf } from '../drain/plan.ts';
import { NODE_LEASES_HELD } from '../leases/nodeLease.ts';
import { notUncordonedReason, outOfServiceReasons, recordOf } from './backInService.ts';
import { hasCordonRecord } from './status.ts';
import {
  isPaused,
  type MaintenanceSummaryInput,
  type NodeSummary,
  notProgressingOf,
  summaryOf,
} from './summary.ts';

export type WaitResult =
  | { kind: 'Reached'; notes: readonly string[] }
  /** Each entry names one thing to wait for. The text is the same as long as the cause is. */
  | { kind: 'Waiting'; on: readonly string[] }
  /** The goal cannot be reached any more. */
  | { kind: 'Missed'; because: string };

/** `isDeleted`: the object has been deleted since it was observed. */
export type WaitInput = MaintenanceSummaryInput & { isDeleted: boolean };

/**
 * Decides whether a maintenance has reached the goal of a stage. Idle: started by a worker. Cordon: all nodes are cordoned for the
 * maintenance. Drain: the Drained condition is True. Complete: every node exists and is in service.
 */
export function decideWait(goal: NodeMaintenanceStage, input: WaitInput): WaitResult {
  const { maintenance } = input;
  const stage = stageOf(maintenance);
  if (goal === 'Complete') return waitForComplete(input);
  if (input.isDeleted) return { kind: 'Missed', because: 'it was deleted' };
  if (goal === 'Drain' && isDrained(maintenance)) return reachedDrained(maintenance);
  if (stagesAfter(goal).includes(stage))
    return { kind: 'Missed', because: `it was advanced to stage ${stage}` };
  if (!hasStarted(maintenance, goal)) return { kind: 'Waiting', on: waitingForStart(input) };
  if (goal === 'Idle') return { kind: 'Reached', notes: [] };
  const stageWork = goal === 'Cordon' ? waitingForCordon(input) : waitingForDrain(input);
  const on = stageWork.length === 0 ? [] : [...waitingForProgress(input), ...stageWork];
  return on.length === 0 ? { kind: 'Reached', notes: [] } : { kind: 'Waiting', on };
}

const notStarted = 'a worker to start the stage (kubectl maintenance workers lists the running workers)';

function waitingForStart(input: WaitInput): string[] {
  const problem = waitingForProgress(input);
  return problem.length === 0 ? [notStarted] : problem;
}

function waitingForProgress(input: WaitInput): string[] {
  const problem = notProgressingOf(input);
  return problem === undefined ? [] : [`its workflow to progress: ${problem.message}`];
}

/** A node that was cordoned before the maintenance counts only when the maintenance has recorded that. */
function waitingForCordon({ maintenance, nodes }: MaintenanceSummaryInput): string[] {
  const isRecorded = (name: string) => hasCordonRecord(recordOf(maintenance, name));
  const names = nodes
    .filter(({ node }) => !isCordoned(node) || !isRecorded(node.metadata.name))
    .map(({ node }) => node.metadata.name);
  const cordon = names.length === 0 ? [] : [`nodes to be cordoned: ${sortedList(names)}`];
  return [...cordon, ...waitingForLeases(maintenance), ...waitingForPermission(maintenance)];
}

function waitingForLeases({ status }: NodeMaintenance): string[] {
  const held = status?.conditions.find(({ type }) => type === NODE_LEASES_HELD);
  return held?.status === 'False' && held.reason === 'Waiting' ? [`maintenance Leases: ${held.message}`] : [];
}

function waitingForPermission({ status }: NodeMaintenance): string[] {
  const authorized = status?.conditions.find(({ type }) => type === NODES_AUTHORIZED);
  return authorized?.status === 'False' ? [`permissions: ${authorized.message}`] : [];
}

function reachedDrained({ status }: NodeMaintenance): WaitResult {
  const condition = status?.conditions.find(({ type }) => type === 'Drained');
  return { kind: 'Reached', notes: remains.has(condition?.reason ?? '') ? [condition?.message ?? ''] : [] };
}

/** Reasons of a condition Drained that is True although something is left on the nodes. */
const remains = new Set(['StaticPodsRemain', 'VolumesRemain']);

/** Returns what nodes without pods wait for. */
function waitingWithoutPods({ status }: NodeMaintenance): string[] {
  const drained = status?.conditions.find(({ type }) => type === 'Drained');
  const reasons: readonly (string | undefined)[] = ['CordonRejected', 'VolumesAttached', 'WorkInProgress'];
  return drained?.status === 'False' && reasons.includes(drained.reason) ? [drained.message] : [];
}

function waitingForDrain(input: MaintenanceSummaryInput): string[] {
  const { maintenance } = input;
  const { nodes, podsToEvacuate } = summaryOf(input);
  const entry = planOf(maintenance)[positionOf(maintenance)];
  const noNodes = nodes.length === 0 ? ['a node that its selector matches'] : [];
  const tier = entry === undefined || podsToEvacuate === 0 ? [] : [`${entryText(entry)} to leave`];
  const paused = isPaused(maintenance) ? ['the maintenance to be resumed: it is paused'] : [];
  const on = [
    ...noNodes,
    ...paused,
    ...tier,
    ...blockersOf(nodes),
    ...waitingWithoutPods(maintenance),
    ...waitingForLeases(maintenance),
    ...waitingForPermission(maintenance),
  ];
  return on.length === 0 ? ['the worker to report that no pod is left'] : on;
}

/** Returns one message for each blocker, with one of the pods that it blocks. */
function blockersOf(nodes: readonly NodeSummary[]): string[] {
  const byMessage = new Map<string, string[]>();
  for (const { node, leaving } of nodes) {
    for (const { pod, blocker } of leaving) {
      if (blocker === undefined) continue;
      byMessage.set(blocker.message, [...(byMessage.get(blocker.message) ?? []), `${pod} on ${node}`]);
    }
  }
  return [...byMessage].map(
    ([message, pods]) => `${pods.toSorted(compareNames)[0]}, which cannot leave: ${message}`,
  );
}

function waitForComplete(input: WaitInput): WaitResult {
  const { maintenance, nodes, isDeleted } = input;
  if (!isDeleted && !hasStarted(maintenance, 'Complete'))
    return { kind: 'Waiting', on: waitingForStart(input) };
  if (!isDeleted && !isCompleted(maintenance))
    return {
      kind: 'Waiting',
      on: [...waitingForProgress(input), 'the nodes to be uncordoned', ...waitingForLeases(maintenance)],
    };
  const on = [
    ...(input.missing ?? []).map((name) => `node ${name}: it does not exist`),
    ...nodes.flatMap((one) =>
      outOfServiceReasons(one, maintenance, input).map((text) => `node ${one.node.metadata.name}: ${text}`),
    ),
  ];
  return on.length > 0 ? { kind: 'Waiting', on } : { kind: 'Reached', notes: notUncordonedNotes(input) };
}

const notUncordonedText = {
  CordonedBefore: 'Still cordoned, as before the maintenance',
  CordonedByAnother: 'Still cordoned, by another client',
  NeverCordoned: 'Skipped, never cordoned by the maintenance',
} as const;

function notUncordonedNotes({ maintenance, nodes }: MaintenanceSummaryInput): string[] {
  const byReason = Map.groupBy(nodes, ({ node }) => notUncordonedReason(node, maintenance));
  return (['CordonedBefore', 'CordonedByAnother', 'NeverCordoned'] as const).flatMap((reason) => {
    const names = (byReason.get(reason) ?? []).map(({ node }) => node.metadata.name);
    return names.length === 0 ? [] : [`${notUncordonedText[reason]}: ${sortedList(names)}.`];
  });
}

function sortedList(names: readonly string[]): string {
  return listed(names.toSorted(compareNames));
}
