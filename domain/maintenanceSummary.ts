import type { Pod } from '../api/core.ts';
import type { Evacuation } from '../api/evacuation.ts';
import type {
  NodeMaintenance,
  NodeMaintenanceNodeStatus,
  NodeMaintenanceStage,
} from '../api/nodeMaintenance.ts';
import { type Blocker, blockerOf, needsAPerson } from './blocker.ts';
import { isTrue } from './conditions.ts';
import { isCordoned } from './cordon.ts';
import { completeDrainPlan, entryText } from './drainPlan.ts';
import { compareNames } from './names.ts';
import {
  type GatesSummary,
  gatesSummary,
  leftAs,
  type NodeSight,
  obstaclesToService,
  recordOf,
  type Surroundings,
  takesPods,
} from './nodeService.ts';
import { podName, podTypeOf } from './pod.ts';
import { stageOf } from './stage.ts';

/** What a maintenance is summed up from: everything that was seen, at one moment. */
export interface MaintenanceSight extends Surroundings {
  maintenance: NodeMaintenance;
  /** Those of the maintenance that exist. */
  nodes: readonly NodeSight[];
  /** Names of those that it is known to have had, and that do not exist. */
  missing?: readonly string[] | undefined;
  /** By the UID of their pods. */
  evacuations: ReadonlyMap<string, Evacuation>;
  now: Date;
  /** What whoever looks has seen leave of late. */
  pace?: Pace | undefined;
}

/** So many pods have left within so long. Milliseconds. */
export interface Pace {
  pods: number;
  ms: number;
}

/** One maintenance, for people and scripts. Times are RFC 3339; what is not known, or does not apply, is left out. */
export interface MaintenanceSummary {
  readonly name: string;
  readonly stage: NodeMaintenanceStage;
  /** Missing until a worker has taken the stage up. */
  readonly stageSince?: string;
  readonly reason?: string;
  readonly paused: boolean;
  readonly drained: boolean;
  /** Whether Complete has done its work. */
  readonly givenBack: boolean;
  /** The entry of the drain plan that is reached in Drain, counted from 1. */
  readonly tier?: { readonly entry: number; readonly of: number; readonly pods: string };
  /** Missing until Drain has begun: nobody has counted them. */
  readonly podsLeft?: number;
  readonly podsEvacuated: number;
  readonly podsBlocked: number;
  readonly nodes: readonly NodeSummary[];
  /** Nodes that it has had, as far as whoever looks has seen, and that do not exist. */
  readonly missingNodes?: readonly string[];
  readonly estimate?: Estimate;
}

export interface NodeSummary {
  readonly node: string;
  readonly cordoned: boolean;
  /** What is targeted there: the last of its drain targets. */
  readonly tier?: string;
  readonly podsLeft?: number;
  readonly podsEvacuated: number;
  readonly message: string;
  /** Pods with an Evacuation. */
  readonly leaving: readonly LeavingPod[];
  /** Pods that only the kubelet can end. */
  readonly staticPods: readonly string[];
  readonly gates?: GatesSummary;
  /** After Complete: what keeps it from taking pods. */
  readonly obstacles?: readonly string[];
  /** After Complete. */
  readonly takesPods?: boolean;
  /** After Complete: why it is not touched any more, or never was. */
  readonly left?: 'CordonedBefore' | 'NeverTouched';
}

export interface LeavingPod {
  readonly pod: string;
  /** Whose turn it is; missing for the eviction API. */
  readonly evacuator?: string;
  readonly message?: string;
  readonly expectedFinishTime?: string;
  readonly blocker?: Blocker;
}

/** When all pods will have left, and what that rests on; without seconds where nothing can be said, and why. */
export type Estimate =
  | { readonly seconds: number; readonly basis: 'PaceSoFar' | 'RecentPace'; readonly pace: Pace }
  | { readonly seconds: number; readonly basis: 'Evacuator'; readonly evacuator: string }
  | { readonly basis: 'Paused' | 'Blocked' | 'NoPodHasLeft' | 'NoPodLeftOfLate' };

/** As api/names.ts has it, which domain does not import. */
const completionFinalizer = 'nodemaintenance.k8s.io/maintenance-completion';

/** Whether a stage was begun. */
export function hasBegun({ status }: NodeMaintenance, stage: NodeMaintenanceStage): boolean {
  return status?.stageStatuses.some(({ name }) => name === stage) ?? false;
}

/** "The finalizer is not removed until the Complete stage has been completed" (KEP-4212 > Finalizers and Deletion). */
export function isGivenBack(maintenance: NodeMaintenance): boolean {
  const { finalizers = [] } = maintenance.metadata;
  return hasBegun(maintenance, 'Complete') && !finalizers.includes(completionFinalizer);
}

export function isDrained({ status }: NodeMaintenance): boolean {
  return isTrue(status?.conditions, 'Drained');
}

export function isPaused({ status }: NodeMaintenance): boolean {
  return isTrue(status?.conditions, 'Paused');
}

/** Total for every NodeMaintenance that an apiserver stores. */
export function summaryOf(sight: MaintenanceSight): MaintenanceSummary {
  const { maintenance, missing = [] } = sight;
  const { name } = maintenance.metadata;
  const stage = stageOf(maintenance);
  const stageSince = maintenance.status?.stageStatuses.find((one) => one.name === stage)?.startTimestamp;
  const nodes = sight.nodes
    .map((one) => nodeSummary(one, sight))
    .toSorted((a, b) => compareNames(a.node, b.node));
  const tier = tierOf(maintenance);
  const podsLeft = sum(nodes.map((node) => node.podsLeft ?? 0));
  const counted = {
    podsEvacuated: sum(nodes.map(({ podsEvacuated }) => podsEvacuated)),
    podsBlocked: blockersOf(nodes).length,
  };
  const estimate =
    stage === 'Drain' ? estimateOf({ sight, nodes, podsLeft, ...counted, stageSince }) : undefined;
  return {
    name,
    stage,
    ...(stageSince !== undefined && { stageSince }),
    ...(maintenance.spec.reason && { reason: maintenance.spec.reason }),
    paused: stage !== 'Complete' && isPaused(maintenance),
    drained: stage === 'Drain' && isDrained(maintenance),
    givenBack: isGivenBack(maintenance),
    ...(tier !== undefined && { tier }),
    ...(hasBegun(maintenance, 'Drain') && { podsLeft }),
    ...counted,
    nodes,
    ...(missing.length > 0 && { missingNodes: missing }),
    ...(estimate !== undefined && { estimate }),
  };
}

/** The entry of the drain plan that is reached, counted from 1; undefined outside of Drain. */
export function tierOf(maintenance: NodeMaintenance): MaintenanceSummary['tier'] {
  if (stageOf(maintenance) !== 'Drain' || !hasBegun(maintenance, 'Drain')) return undefined;
  const plan = completeDrainPlan(maintenance.spec.drainPlan);
  const index = Math.min(maintenance.status?.drainPosition ?? 0, plan.length - 1);
  const entry = plan[index];
  return entry && { entry: index + 1, of: plan.length, pods: entryText(entry) };
}

function nodeSummary(seen: NodeSight, sight: MaintenanceSight): NodeSummary {
  const { maintenance, policies, evacuations, now } = sight;
  const { name } = seen.node.metadata;
  const record = recordOf(maintenance, name);
  const target = record?.drainTargets.at(-1);
  const gates = gatesSummary(seen, policies);
  const pods = seen.pods.toSorted((a, b) => compareNames(podName(a), podName(b)));
  const leaving = pods.flatMap((pod) => leavingPod(pod, evacuations.get(pod.metadata.uid ?? ''), now) ?? []);
  const isOver = stageOf(maintenance) === 'Complete';
  const left = isOver ? leftAs(seen.node, maintenance) : undefined;
  const { podsLeft, podsEvacuated } = countsOf(record, leaving.length);
  return {
    node: name,
    cordoned: isCordoned(seen.node),
    ...(target !== undefined && !isOver && { tier: entryText(target) }),
    ...(hasBegun(maintenance, 'Drain') && { podsLeft }),
    podsEvacuated,
    message: isOver && isGivenBack(maintenance) ? '' : (record?.drainMessage ?? ''),
    leaving,
    staticPods: pods.filter((pod) => podTypeOf(pod) === 'Static').map(podName),
    ...(gates !== undefined && { gates }),
    ...(isOver && {
      obstacles: obstaclesToService(seen, maintenance, sight),
      takesPods: takesPods(seen, policies),
    }),
    ...(left !== undefined && { left }),
  };
}

/** What is published is up to a second late: pods that have an Evacuation are there all the same. */
function countsOf(
  record: NodeMaintenanceNodeStatus | undefined,
  leaving: number,
): { podsLeft: number; podsEvacuated: number } {
  const { podsPendingEvacuation = 0, podsEvacuating = 0, podsPeak = 0 } = record ?? {};
  const podsLeft = Math.max(podsPendingEvacuation + podsEvacuating, leaving);
  return { podsLeft, podsEvacuated: Math.max(0, podsPeak - podsLeft) };
}

function leavingPod(pod: Pod, evacuation: Evacuation | undefined, now: Date): LeavingPod | undefined {
  if (evacuation === undefined) return undefined;
  const { activeEvacuatorClass, message, expectedEvacuationFinishTime } = evacuation.status ?? {};
  const blocker = blockerOf(pod, evacuation, now);
  return {
    pod: podName(pod),
    ...(activeEvacuatorClass && { evacuator: activeEvacuatorClass }),
    ...(message && { message }),
    ...(expectedEvacuationFinishTime !== undefined && { expectedFinishTime: expectedEvacuationFinishTime }),
    ...(blocker !== undefined && { blocker }),
  };
}

function blockersOf(nodes: readonly NodeSummary[]): Blocker[] {
  return nodes.flatMap(({ leaving }) => leaving.flatMap(({ blocker }) => blocker ?? []));
}

interface Counted extends Pick<MaintenanceSummary, 'podsEvacuated' | 'nodes'> {
  podsLeft: number;
  sight: MaintenanceSight;
  stageSince: string | undefined;
}

function estimateOf(counted: Counted): Estimate | undefined {
  const { podsLeft, nodes, sight } = counted;
  if (podsLeft === 0) return undefined;
  if (isPaused(sight.maintenance)) return { basis: 'Paused' };
  if (blockersOf(nodes).some(needsAPerson)) return { basis: 'Blocked' };
  const byEvacuator = estimateByEvacuator(nodes, sight.now);
  if (isStalled(sight.pace)) return byEvacuator ?? { basis: 'NoPodLeftOfLate' };
  const byPace = estimateByPace(counted);
  if (byEvacuator !== undefined && byEvacuator.seconds > (byPace?.seconds ?? 0)) return byEvacuator;
  return byPace ?? { basis: 'NoPodHasLeft' };
}

/** Milliseconds without any pod that leaves, after which an average says nothing. */
const stall = 60_000;

function isStalled(pace: Pace | undefined): boolean {
  return pace !== undefined && pace.pods === 0 && pace.ms >= stall;
}

type Timed = Extract<Estimate, { seconds: number }>;

/** What was seen of late says more than the average of a drain that a budget held up for an hour. */
function estimateByPace({ podsLeft, podsEvacuated, sight, stageSince }: Counted): Timed | undefined {
  const { pace: recent, now } = sight;
  if (recent !== undefined && recent.pods > 0)
    return { seconds: secondsAt(recent, podsLeft), basis: 'RecentPace', pace: recent };
  const ms = now.getTime() - Date.parse(stageSince ?? '');
  if (podsEvacuated === 0 || !(ms > 0)) return undefined;
  const pace = { pods: podsEvacuated, ms };
  return { seconds: secondsAt(pace, podsLeft), basis: 'PaceSoFar', pace };
}

function secondsAt({ pods, ms }: Pace, left: number): number {
  return Math.ceil((left * ms) / pods / 1_000);
}

/** The latest time that an evacuator has given for a pod of its own. */
function estimateByEvacuator(nodes: readonly NodeSummary[], now: Date): Timed | undefined {
  const [last] = nodes
    .flatMap(({ leaving }) => leaving)
    .map(({ evacuator = '', expectedFinishTime = '' }) => ({ evacuator, at: Date.parse(expectedFinishTime) }))
    .filter(({ at }) => at > now.getTime())
    .toSorted((a, b) => b.at - a.at);
  if (last === undefined) return undefined;
  const seconds = Math.ceil((last.at - now.getTime()) / 1_000);
  return { seconds, basis: 'Evacuator', evacuator: last.evacuator };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
