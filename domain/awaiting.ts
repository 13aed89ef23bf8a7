import type { NodeMaintenance, NodeMaintenanceStage } from '../api/nodeMaintenance.ts';
import { entryText, completeDrainPlan } from './drainPlan.ts';
import { isCordoned } from './cordon.ts';
import {
  hasBegun,
  isDrained,
  isGivenBack,
  isPaused,
  type MaintenanceSight,
  type NodeSummary,
  summaryOf,
} from './maintenanceSummary.ts';
import { compareNames, listed } from './names.ts';
import { NODE_LEASES_HELD } from './nodeHold.ts';
import { leftAs, obstaclesToService, recordOf } from './nodeService.ts';
import { stageOf, stagesAfter } from './stage.ts';
import { isTouched } from './status.ts';

/** How it stands with what somebody waits for. */
export type Awaited =
  /** With what is worth knowing all the same. */
  | { kind: 'Reached'; notes: readonly string[] }
  /** What is waited for, a sentence each; the same for as long as the cause is. */
  | { kind: 'Waiting'; on: readonly string[] }
  /** It will not come any more. */
  | { kind: 'Missed'; because: string };

/**
 * Whether a maintenance has done what its stage is for: Idle, to be taken up; Cordon, all nodes unschedulable for it; Drain, Drained;
 * Complete, every node there, given back, Ready, and with its readiness gates open. `isGone`: the object was deleted since.
 */
export function awaited(goal: NodeMaintenanceStage, sight: MaintenanceSight & { isGone: boolean }): Awaited {
  const stage = stageOf(sight.maintenance);
  if (goal === 'Complete') return returned(sight);
  if (sight.isGone) return { kind: 'Missed', because: 'it was deleted' };
  if (goal === 'Drain' && isDrained(sight.maintenance)) return drained(sight);
  if (stagesAfter(goal).includes(stage))
    return { kind: 'Missed', because: `it was moved on to stage ${stage}` };
  if (!hasBegun(sight.maintenance, goal)) return { kind: 'Waiting', on: [notTakenUp] };
  if (goal === 'Idle') return { kind: 'Reached', notes: [] };
  const on = goal === 'Cordon' ? uncordoned(sight) : draining(sight);
  return on.length === 0 ? { kind: 'Reached', notes: [] } : { kind: 'Waiting', on };
}

const notTakenUp = 'a worker to take it up (kubectl maintenance workers shows which live)';

/** A node that was cordoned already is waited for all the same until it is the maintenance's. */
function uncordoned({ maintenance, nodes }: MaintenanceSight): string[] {
  const isOurs = (name: string) => isTouched(recordOf(maintenance, name));
  const names = nodes
    .filter(({ node }) => !isCordoned(node) || !isOurs(node.metadata.name))
    .map(({ node }) => node.metadata.name);
  const cordon = names.length === 0 ? [] : [`nodes to be cordoned: ${sortedList(names)}`];
  return [...cordon, ...leases(maintenance)];
}

/** Of nodes that others hold. */
function leases({ status }: NodeMaintenance): string[] {
  const held = status?.conditions.find(({ type }) => type === NODE_LEASES_HELD);
  return held?.status === 'False' && held.reason === 'Waiting' ? [`maintenance Leases: ${held.message}`] : [];
}

function drained({ maintenance }: MaintenanceSight): Awaited {
  const condition = maintenance.status?.conditions.find(({ type }) => type === 'Drained');
  return { kind: 'Reached', notes: condition?.reason === 'StaticPodsRemain' ? [condition.message] : [] };
}

function draining(sight: MaintenanceSight): string[] {
  const { maintenance } = sight;
  const { nodes, podsLeft } = summaryOf(sight);
  const plan = completeDrainPlan(maintenance.spec.drainPlan);
  const entry = plan[Math.min(maintenance.status?.drainPosition ?? 0, plan.length - 1)];
  const noNodes = nodes.length === 0 ? ['a node that its selector matches'] : [];
  const tier = entry === undefined || podsLeft === 0 ? [] : [`${entryText(entry)} to leave`];
  const paused = isPaused(maintenance) ? ['somebody to resume it: it is paused'] : [];
  const on = [...noNodes, ...paused, ...tier, ...causesOf(nodes), ...leases(maintenance)];
  return on.length === 0 ? ['the worker to find that no pod is left'] : on;
}

/** What blocks pods, one sentence for each cause with a pod that it concerns. */
function causesOf(nodes: readonly NodeSummary[]): string[] {
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

function returned(sight: MaintenanceSight & { isGone: boolean }): Awaited {
  const { maintenance, nodes } = sight;
  const isBegun = sight.isGone || hasBegun(maintenance, 'Complete');
  if (!isBegun) return { kind: 'Waiting', on: [notTakenUp] };
  if (!sight.isGone && !isGivenBack(maintenance))
    return { kind: 'Waiting', on: ['the nodes to be given back', ...leases(maintenance)] };
  const on = [
    ...(sight.missing ?? []).map((name) => `node ${name}: it does not exist`),
    ...nodes.flatMap((seen) =>
      obstaclesToService(seen, maintenance, sight).map((text) => `node ${seen.node.metadata.name}: ${text}`),
    ),
  ];
  return on.length > 0 ? { kind: 'Waiting', on } : { kind: 'Reached', notes: leftNotes(sight) };
}

const leftWords = {
  CordonedBefore: 'Left cordoned, as before the maintenance',
  NeverTouched: 'Left alone, never touched by the maintenance',
} as const;

function leftNotes({ maintenance, nodes }: MaintenanceSight): string[] {
  const byKind = Map.groupBy(nodes, ({ node }) => leftAs(node, maintenance));
  return (['CordonedBefore', 'NeverTouched'] as const).flatMap((kind) => {
    const names = (byKind.get(kind) ?? []).map(({ node }) => node.metadata.name);
    return names.length === 0 ? [] : [`${leftWords[kind]}: ${sortedList(names)}.`];
  });
}

function sortedList(names: readonly string[]): string {
  return listed(names.toSorted(compareNames));
}
