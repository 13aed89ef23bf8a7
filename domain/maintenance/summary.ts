import type { Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import type {
  DrainTier,
  NodeMaintenance,
  NodeMaintenanceNodeStatus,
  NodeMaintenanceStage,
} from '../../api/nodeMaintenance.ts';
import { type Blocker, requiresIntervention } from '../evacuation/blocker.ts';
import { isLive, type RequestedEviction } from '../evacuation/evictionRequest.ts';
import { EVICTION_REQUESTS_SERVED } from '../evacuation/serving.ts';
import { evacuationProgress, type EvictionProgress, evictionProgress } from '../evacuation/progress.ts';
import { defaultEvictionApi } from '../common/evictionApi.ts';
import { CAPACITY_AVAILABLE } from '../capacity/condition.ts';
import { isFalse, isTrue } from '../common/conditions.ts';
import { terminationText } from '../evacuation/termination.ts';
import { isCordoned, type NotUncordoned } from '../common/cordon.ts';
import { entryText, planOf, positionOf } from '../drain/plan.ts';
import { stalledMessage } from '../common/stalledRun.ts';
import { compareNames } from '../common/names.ts';
import {
  type GatesSummary,
  gatesSummary,
  notUncordonedReason,
  type NodeServiceInput,
  outOfServiceReasons,
  recordOf,
  type ServiceContext,
  isInService,
} from './backInService.ts';
import { isLeftRunning, podName, podTypeOf } from '../common/pod.ts';
import { type RemainingPod, remainingCause, remainingText } from '../drain/remaining.ts';
import { capabilitiesIn, type NodeAgent, noAgent } from '../leases/nodeAgent.ts';
import { NODE_LEASES_HELD } from '../leases/nodeLease.ts';
import { progressProblemOf } from './progressing.ts';
import { hasStarted, isCompleted, isDrained, stageOf } from '../common/stage.ts';

/** The input of a summary, observed at one moment. */
export interface MaintenanceSummaryInput extends ServiceContext {
  maintenance: NodeMaintenance;
  /** The existing nodes of the maintenance. */
  nodes: readonly NodeServiceInput[];
  /** Names of nodes that the maintenance has had, and that no longer exist. */
  missing?: readonly string[] | undefined;
  /** Pod UID -> Evacuation. */
  evacuations: ReadonlyMap<string, Evacuation>;
  /** Pod UID -> EvictionRequest of node maintenance, and the Eviction that serves it. */
  requests?: ReadonlyMap<string, RequestedEviction>;
  now: Date;
  /** Since when no worker runs the controllers. */
  leaderlessSince?: Date | undefined;
  /** The rate that the observer has measured most recently. */
  drainRate?: DrainRate | undefined;
}

/** The number of pods that have left within a time. */
export interface DrainRate {
  pods: number;
  ms: number;
}

/** A maintenance, for users and scripts. Times are RFC 3339. A field that is unknown or does not apply is missing. */
export interface MaintenanceSummary {
  readonly name: string;
  readonly stage: NodeMaintenanceStage;
  /** Missing until a worker has started the stage. */
  readonly stageSince?: string;
  readonly reason?: string;
  readonly paused: boolean;
  /** Why the workflow cannot start or advance. Missing if it can. */
  readonly notProgressing?: NotProgressing;
  readonly drained: boolean;
  /** Complete has finished. */
  readonly completed: boolean;
  /** The tier that Drain has reached, counting only tiers that contain pods. */
  readonly tier?: ReachedTier;
  /** Missing until Drain has started: the pods have not been counted. */
  readonly podsToEvacuate?: number;
  readonly podsEvacuated: number;
  readonly podsBlocked: number;
  /** The deadline of the drain. Missing without one, and outside of Drain. */
  readonly drainDeadline?: DeadlineSummary;
  readonly nodes: readonly NodeSummary[];
  /** Nodes that the observer has seen in the maintenance, and that no longer exist. */
  readonly missingNodes?: readonly string[];
  readonly estimate?: Estimate;
  /** The static pods that keep running, and why. Missing if there are none, and until the drain has looked for the agents of the nodes. */
  readonly staticPodsRemain?: string;
  /** Why its workflow makes no progress, and what to do. */
  readonly stalled?: string;
  /** The pods that fit on no other node, and why. Missing if all fit, as far as a worker has observed. */
  readonly capacity?: string;
  /** Nobody serves EvictionRequests, and what follows from it. */
  readonly unserved?: string;
}

export interface DeadlineSummary {
  readonly time: string;
  readonly onDeadline: 'Report' | 'Delete';
  /** When the next notification before the deadline is due. */
  readonly nextStep?: string;
  /** When the nodes were drained for the first time: the deadline has no effect any more. */
  readonly drainedAt?: string;
}

/** Why the workflow of a maintenance cannot start or advance: its condition Progressing, or that no worker runs. */
export interface NotProgressing {
  readonly reason: string;
  readonly message: string;
  readonly since: string;
}

/** `pods` describes the pods that the tier evacuates. */
export interface ReachedTier extends DrainTier {
  readonly pods: string;
}

export interface NodeSummary {
  readonly node: string;
  readonly cordoned: boolean;
  /** The last of the node's drain targets. */
  readonly tier?: string;
  readonly podsToEvacuate?: number;
  readonly podsEvacuated: number;
  readonly message: string;
  /** Pods that are asked to leave, and pods that terminate without that. */
  readonly leaving: readonly LeavingPod[];
  /** Static pods that keep running. */
  readonly staticPods: readonly string[];
  /** Version of the node agent. Missing if none reports from the node. */
  readonly agentVersion?: string;
  readonly gates?: GatesSummary;
  /** Reasons for which the node is out of service after Complete. */
  readonly outOfServiceReasons?: readonly string[];
  /** Whether the node is in service after Complete. */
  readonly inService?: boolean;
  /** Reason for which the maintenance does not uncordon the node in Complete. */
  readonly notUncordoned?: NotUncordoned;
}

export interface LeavingPod {
  readonly pod: string;
  /** The active evacuator or responder. Missing for the eviction API. */
  readonly evacuator?: string;
  readonly message?: string;
  /** Reason for which a terminating pod still exists. */
  readonly terminating?: string;
  readonly expectedFinishTime?: string;
  readonly blocker?: Blocker;
}

/** The time until all pods have left, and its basis; without seconds if there is no estimate, and why. */
export type Estimate =
  | { readonly seconds: number; readonly basis: 'AverageRate' | 'RecentRate'; readonly rate: DrainRate }
  | { readonly seconds: number; readonly basis: 'Evacuator'; readonly evacuator: string }
  | { readonly basis: 'Paused' | 'Blocked' | 'WaitingForNodeLease' | 'NoPodHasLeft' | 'Stalled' };

export function isPaused({ status }: NodeMaintenance): boolean {
  return isTrue(status?.conditions, 'Paused');
}

/** Summarizes any NodeMaintenance that an apiserver stores. */
export function summaryOf(input: MaintenanceSummaryInput): MaintenanceSummary {
  const { maintenance, missing = [] } = input;
  const { name } = maintenance.metadata;
  const stage = stageOf(maintenance);
  const stageSince = maintenance.status?.stageStatuses.find((one) => one.name === stage)?.startTimestamp;
  const nodes = input.nodes
    .map((one) => nodeSummary(one, input))
    .toSorted((a, b) => compareNames(a.node, b.node));
  const tier = tierOf(maintenance);
  const podsToEvacuate = sum(nodes.map((node) => node.podsToEvacuate ?? 0));
  const counted = {
    podsEvacuated: sum(nodes.map(({ podsEvacuated }) => podsEvacuated)),
    podsBlocked: blockersOf(nodes).length,
  };
  const estimate =
    stage === 'Drain' ? estimateOf({ input, nodes, podsToEvacuate, ...counted, stageSince }) : undefined;
  const stalled = stalledMessage(maintenance.status?.conditions);
  return {
    name,
    stage,
    ...(stageSince !== undefined && { stageSince }),
    ...(maintenance.spec.reason && { reason: maintenance.spec.reason }),
    paused: stage !== 'Complete' && isPaused(maintenance),
    ...notProgressingField(input),
    drained: stage === 'Drain' && isDrained(maintenance),
    completed: isCompleted(maintenance),
    ...(tier !== undefined && { tier }),
    ...(hasStarted(maintenance, 'Drain') && { podsToEvacuate }),
    ...counted,
    ...deadlineSummary(maintenance),
    nodes,
    ...(missing.length > 0 && { missingNodes: missing }),
    ...(estimate !== undefined && { estimate }),
    ...staticPodsRemain(input),
    ...(stalled !== undefined && { stalled }),
    ...capacityOf(maintenance),
    ...unservedOf(maintenance),
  };
}

function deadlineSummary(maintenance: NodeMaintenance): Pick<MaintenanceSummary, 'drainDeadline'> {
  const { spec, status } = maintenance;
  const deadline = status?.drainDeadline;
  if (deadline === undefined || stageOf(maintenance) !== 'Drain') return {};
  const { time, steps, drainedAt } = deadline;
  const next = steps.find(({ action, doneAt }) => action === 'Notify' && doneAt === undefined);
  const isOpen = drainedAt === undefined && next !== undefined;
  return {
    drainDeadline: {
      time,
      onDeadline: spec.drainDeadline?.onDeadline ?? 'Report',
      ...(isOpen && { nextStep: next.time }),
      ...(drainedAt !== undefined && { drainedAt }),
    },
  };
}

function capacityOf(maintenance: NodeMaintenance): Pick<MaintenanceSummary, 'capacity'> {
  if (stageOf(maintenance) !== 'Drain') return {};
  const condition = maintenance.status?.conditions.find(({ type }) => type === CAPACITY_AVAILABLE);
  return condition?.status === 'False' ? { capacity: condition.message } : {};
}

function unservedOf(maintenance: NodeMaintenance): Pick<MaintenanceSummary, 'unserved'> {
  if (stageOf(maintenance) !== 'Drain' || isDrained(maintenance)) return {};
  const condition = maintenance.status?.conditions.find(({ type }) => type === EVICTION_REQUESTS_SERVED);
  return condition?.status === 'False' ? { unserved: condition.message } : {};
}

function notProgressingField(input: MaintenanceSummaryInput): Pick<MaintenanceSummary, 'notProgressing'> {
  const notProgressing = isCompleted(input.maintenance) ? undefined : notProgressingOf(input);
  return notProgressing === undefined ? {} : { notProgressing };
}

/** Returns why the maintenance does not progress. A missing worker comes first: without one the object says what was. */
export function notProgressingOf({
  maintenance,
  leaderlessSince,
}: Pick<MaintenanceSummaryInput, 'maintenance' | 'leaderlessSince'>): NotProgressing | undefined {
  if (leaderlessSince !== undefined)
    return { reason: 'NoWorker', message: noWorker, since: leaderlessSince.toISOString() };
  const problem = progressProblemOf(maintenance);
  if (problem === undefined) return undefined;
  const { reason, message, lastTransitionTime } = problem;
  return { reason, message, since: lastTransitionTime };
}

const noWorker =
  'no worker runs the controllers, and what is shown may be old: start one, or see in its log what it waits for (kubectl maintenance workers lists them)';

/** Returns the tier that is reached; undefined outside of Drain, and until a tier that contains pods is reached. */
export function tierOf(maintenance: NodeMaintenance): ReachedTier | undefined {
  if (stageOf(maintenance) !== 'Drain' || !hasStarted(maintenance, 'Drain')) return undefined;
  const { drainTier } = maintenance.status ?? {};
  const entry = planOf(maintenance)[positionOf(maintenance)];
  return drainTier && entry && { ...drainTier, pods: entryText(entry) };
}

function nodeSummary(own: NodeServiceInput, input: MaintenanceSummaryInput): NodeSummary {
  const { maintenance, policies } = input;
  const { name } = own.node.metadata;
  const record = recordOf(maintenance, name);
  const target = record?.drainTargets.at(-1);
  const gates = gatesSummary(own, policies);
  const pods = own.pods.toSorted((a, b) => compareNames(podName(a), podName(b)));
  const leaving = pods.flatMap((pod) => leavingPod(pod, input) ?? []);
  const isComplete = stageOf(maintenance) === 'Complete';
  const notUncordoned = isComplete ? notUncordonedReason(own.node, maintenance) : undefined;
  const { podsToEvacuate, podsEvacuated } = countsOf(record, leaving.length);
  return {
    node: name,
    cordoned: isCordoned(own.node),
    ...(target !== undefined && !isComplete && { tier: entryText(target) }),
    ...(hasStarted(maintenance, 'Drain') && { podsToEvacuate }),
    podsEvacuated,
    message: isComplete && isCompleted(maintenance) ? '' : (record?.drainMessage ?? ''),
    leaving,
    staticPods: remainingOf(pods, record).map(({ pod }) => podName(pod)),
    ...(isComplete ? {} : agentVersionOf(record)),
    ...(gates !== undefined && { gates }),
    ...(isComplete && {
      outOfServiceReasons: outOfServiceReasons(own, maintenance, input),
      inService: isInService(own, policies),
    }),
    ...(notUncordoned !== undefined && { notUncordoned }),
  };
}

function agentVersionOf(record: NodeMaintenanceNodeStatus | undefined): Pick<NodeSummary, 'agentVersion'> {
  const { agentVersion } = record ?? {};
  return agentVersion === undefined ? {} : { agentVersion };
}

/** Returns the static pods that a drain leaves running. The status does not say whether an agent that does not report has ever done so. */
function remainingOf(pods: readonly Pod[], record: NodeMaintenanceNodeStatus | undefined): RemainingPod[] {
  const { agentVersion: version, agentCapabilities = [] } = record ?? {};
  const capabilities = capabilitiesIn(agentCapabilities);
  const agent: NodeAgent = version === undefined ? noAgent : { kind: 'Live', version, capabilities };
  return pods.flatMap((pod) => {
    const cause = isLeftRunning(pod, SYSTEM_NAMESPACE) ? undefined : remainingCause(pod, agent);
    return cause === undefined ? [] : [{ pod, cause }];
  });
}

function staticPodsRemain({
  maintenance,
  nodes,
}: MaintenanceSummaryInput): Pick<MaintenanceSummary, 'staticPodsRemain'> {
  if (stageOf(maintenance) !== 'Drain') return {};
  const remaining = nodes.flatMap(({ node, pods }) => {
    const record = recordOf(maintenance, node.metadata.name);
    const isDecided = record !== undefined && record.drainTargets.length > 0;
    return isDecided ? remainingOf(pods, record) : [];
  });
  return remaining.length === 0 ? {} : { staticPodsRemain: remainingText(remaining) };
}

/** Counts at least the pods that have an Evacuation, because the published status is up to one second old. */
function countsOf(
  record: NodeMaintenanceNodeStatus | undefined,
  leaving: number,
): { podsToEvacuate: number; podsEvacuated: number } {
  const { podsPendingEvacuation = 0, podsEvacuating = 0, podsPeak = 0 } = record ?? {};
  const podsToEvacuate = Math.max(podsPendingEvacuation + podsEvacuating, leaving);
  return { podsToEvacuate, podsEvacuated: Math.max(0, podsPeak - podsToEvacuate) };
}

function leavingPod(pod: Pod, input: MaintenanceSummaryInput): LeavingPod | undefined {
  const isTerminating = pod.metadata.deletionTimestamp !== undefined;
  const requested = progressOf(pod, input);
  const isLeaving = requested !== undefined || (isTerminating && !staysRunning(pod));
  if (!isLeaving) return undefined;
  const { evacuator, message, expectedFinishTime, blocker } =
    requested ?? evacuationProgress(pod, undefined, input.now);
  return {
    pod: podName(pod),
    ...(evacuator && { evacuator }),
    ...(message && { message }),
    ...(isTerminating && blocker === undefined && { terminating: terminationText(pod) }),
    ...(expectedFinishTime !== undefined && { expectedFinishTime }),
    ...(blocker !== undefined && { blocker }),
  };
}

/** Returns the progress of a pod that is asked to leave, by an Evacuation or by an EvictionRequest. */
function progressOf(
  pod: Pod,
  { maintenance, evacuations, requests, now }: MaintenanceSummaryInput,
): EvictionProgress | undefined {
  const { uid = '', namespace, name } = pod.metadata;
  const evacuation = evacuations.get(uid);
  if (evacuation !== undefined) return evacuationProgress(pod, evacuation, now);
  const requested = requests?.get(uid);
  if (requested?.request === undefined || !isLive(requested.request)) return undefined;
  const progress = evictionProgress(pod, requested, { now, responseMs: defaultResponseMs });
  // An Eviction does not say which PodDisruptionBudget blocks it; the worker compares them.
  const reported = maintenance.status?.blockedPods?.find(
    (one) => one.namespace === namespace && one.name === name,
  );
  const isTerminating = pod.metadata.deletionTimestamp !== undefined;
  return { ...progress, blocker: progress.blocker ?? (isTerminating ? undefined : reported) };
}

const defaultResponseMs = defaultEvictionApi.responseSeconds * 1_000;

/** Without an Evacuation, nobody stops a static pod or the Job of a window. */
function staysRunning(pod: Pod): boolean {
  return isLeftRunning(pod, SYSTEM_NAMESPACE) || podTypeOf(pod) === 'Static';
}

function blockersOf(nodes: readonly NodeSummary[]): Blocker[] {
  return nodes.flatMap(({ leaving }) => leaving.flatMap(({ blocker }) => blocker ?? []));
}

interface Counted extends Pick<MaintenanceSummary, 'podsEvacuated' | 'nodes'> {
  podsToEvacuate: number;
  input: MaintenanceSummaryInput;
  stageSince: string | undefined;
}

function estimateOf(counted: Counted): Estimate | undefined {
  const { podsToEvacuate, nodes, input } = counted;
  if (podsToEvacuate === 0) return undefined;
  if (isPaused(input.maintenance)) return { basis: 'Paused' };
  if (blockersOf(nodes).some(requiresIntervention)) return { basis: 'Blocked' };
  // The pods of these nodes stay until another client releases its Leases, at whatever rate others leave.
  if (isFalse(input.maintenance.status?.conditions, NODE_LEASES_HELD))
    return { basis: 'WaitingForNodeLease' };
  const byEvacuator = estimateByEvacuator(nodes, input.now);
  if (isStalled(input.drainRate)) return byEvacuator ?? { basis: 'Stalled' };
  const byRate = estimateByRate(counted);
  if (byEvacuator !== undefined && byEvacuator.seconds > (byRate?.seconds ?? 0)) return byEvacuator;
  return byRate ?? { basis: 'NoPodHasLeft' };
}

/** After this time in which no pod has left, an average is meaningless. */
const stallMs = 60_000;

function isStalled(rate: DrainRate | undefined): boolean {
  return rate !== undefined && rate.pods === 0 && rate.ms >= stallMs;
}

type Timed = Extract<Estimate, { seconds: number }>;

/** Prefers the recent rate: the average is misleading if a budget has blocked the drain for an hour. */
function estimateByRate({ podsToEvacuate, podsEvacuated, input, stageSince }: Counted): Timed | undefined {
  const { drainRate: recent, now } = input;
  if (recent !== undefined && recent.pods > 0)
    return { seconds: secondsAt(recent, podsToEvacuate), basis: 'RecentRate', rate: recent };
  const ms = now.getTime() - Date.parse(stageSince ?? '');
  if (podsEvacuated === 0 || !(ms > 0)) return undefined;
  const rate = { pods: podsEvacuated, ms };
  return { seconds: secondsAt(rate, podsToEvacuate), basis: 'AverageRate', rate };
}

function secondsAt({ pods, ms }: DrainRate, podsToEvacuate: number): number {
  return Math.ceil((podsToEvacuate * ms) / pods / 1_000);
}

/** Returns the latest expected finish time that an evacuator has reported. */
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
