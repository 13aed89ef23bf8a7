import type { Node, Pod } from '../../api/core.ts';
import type {
  NodeReadinessGate,
  NodeReadinessGateStatus,
  NodeReadinessStatus,
} from '../../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../../api/nodeReadinessPolicy.ts';
import { type ConditionFacts, withCondition } from '../common/conditions.ts';
import { selectorKey, selectorText, selectsLabels } from '../common/labelSelector.ts';
import { compareNames, listed } from '../common/names.ts';
import { selectsNode } from '../common/nodeSelector.ts';
import { isFinished, podName } from '../common/pod.ts';
import { hashed } from '../common/text.ts';
import {
  containersOfBoot,
  containersOfPreviousNode,
  hasRebooted,
  isInterrupted,
  knownBootId,
  type NodeReports,
  reportsCompleteAt,
  staleContainers,
} from './reboots.ts';

export interface ReadinessTiming {
  /** Grace period before a gate that became not ready taints the node again, for gates without one of their own. */
  graceMs: number;
  /** Time for which the taint stays after the second loss although the node is ready; each further loss doubles it. */
  dampingMs: number;
}

/** Flapping is damped even with a grace of 0. */
const minDampingMs = 30_000;
const maxDampingMs = 600_000;
/** After this time without a loss, the count of losses is reset. */
const lossResetMs = 600_000;
/** The third loss, and each one after it, gets no grace. */
const lossesWithoutGrace = 3;
/**
 * A younger node without the taint was admitted before the admission policy knew of its gates. It runs no pods yet that a grace
 * would protect.
 */
const newNodeMs = 10_000;

export function readinessTiming(graceMs: number): ReadinessTiming {
  return { graceMs, dampingMs: Math.max(graceMs, minDampingMs) };
}

/** The facts about a node from which its readiness is decided. Times are milliseconds since the epoch. */
export interface ReadinessInput extends NodeReports {
  gates: readonly NodeReadinessGate[];
  /** Pods on the node. */
  pods: readonly Pod[];
  isTainted: boolean;
  /** The node is cordoned, or a NodeMaintenance in stage Cordon or Drain selects it: its drain removes the pods of gates, and no pods are scheduled there. */
  isUnderMaintenance: boolean;
  createdAtMs: number;
  generation: number;
  now: number;
}

export interface ReadinessDecision {
  wantsTaint: boolean;
  status: NodeReadinessStatus;
  /** The time at which the decision changes even if nothing happens. Milliseconds since the epoch. */
  changesAtMs?: number;
}

/** Reports whether the policy was evaluated: its status reflects its current spec. */
export function isEvaluated({ metadata, status }: NodeReadinessPolicy): boolean {
  return status !== undefined && status.observedGeneration === metadata.generation;
}

/** Reports whether two versions of a policy require the same of nodes. Its counters change while its gates are being applied. */
export function hasSameRequirements(before: NodeReadinessPolicy, after: NodeReadinessPolicy): boolean {
  return requirementsOf(before) === requirementsOf(after);
}

function requirementsOf({ metadata, status }: NodeReadinessPolicy): string {
  const { generation, deletionTimestamp } = metadata;
  return JSON.stringify([generation, deletionTimestamp, status?.observedGeneration, status?.suppressedGates]);
}

/** Returns the gates of a policy that are not suppressed. */
export function gatesInEffect(policy: NodeReadinessPolicy): NodeReadinessGate[] {
  const suppressed = suppressedGatesOf(policy);
  return policy.spec.readinessGates.filter(({ name }) => !suppressed.includes(name));
}

/** Returns the names of the suppressed gates; none for a policy whose current spec was not evaluated yet. */
export function suppressedGatesOf(policy: NodeReadinessPolicy): string[] {
  return isEvaluated(policy) ? (policy.status?.suppressedGates ?? []) : [];
}

/**
 * Returns the gates of a node: those in its NodeReadiness, and those that a policy has not written yet. A new node therefore keeps
 * its taint until its gates are written. If both have a gate of the same name, the written one counts.
 */
export function gatesOf(
  node: Pick<Node, 'metadata'>,
  written: readonly NodeReadinessGate[],
  policies: readonly NodeReadinessPolicy[],
): NodeReadinessGate[] {
  const gates = new Map(written.map((gate) => [gate.name, gate]));
  for (const gate of policiesOf(node, policies).flatMap(gatesInEffect))
    if (!gates.has(gate.name)) gates.set(gate.name, gate);
  return [...gates.values()].toSorted((a, b) => compareNames(a.name, b.name));
}

/** Returns the policies that select a node, oldest first: if two define the same gate differently, the older one wins. */
export function policiesOf(
  node: Pick<Node, 'metadata'>,
  policies: readonly NodeReadinessPolicy[],
): NodeReadinessPolicy[] {
  return policies
    .filter(
      ({ metadata, spec }) =>
        metadata.deletionTimestamp === undefined && selectsNode(spec.nodeSelector, node),
    )
    .toSorted(
      ({ metadata: a }, { metadata: b }) =>
        compareNames(a.creationTimestamp ?? '', b.creationTimestamp ?? '') || compareNames(a.name, b.name),
    );
}

/** Reports whether a gate selects a pod, regardless of where the pod runs and of its phase. */
export function selectsPod({ namespace, selector }: NodeReadinessGate, { metadata }: Pod): boolean {
  return metadata.namespace === namespace && selectsLabels(selector, metadata.labels ?? {});
}

/** Reports whether a gate selects a pod that is neither terminating nor finished. */
export function isActivePodOf(gate: NodeReadinessGate, pod: Pod): boolean {
  return selectsPod(gate, pod) && pod.metadata.deletionTimestamp === undefined && !isFinished(pod);
}

interface GateState {
  name: string;
  definition: string;
  blocks: boolean;
  graceSeconds: number | undefined;
  ready: boolean;
  pods: number;
  reason?: string;
  message?: string;
}

/**
 * "If all pods represented by every NodeReadinessGate is ready (based on container state and readiness probes) then the node is
 * also considered ready. If no pods are found with the label selector then the node is consider to be 'Not Ready'" (Node
 * Readiness Gates > Determining Readiness via Pod Selectors). Pods with `stale` containers are Ready only as of before a reboot.
 */
export function evaluateGate(
  gate: NodeReadinessGate,
  pods: readonly Pod[],
  stale: readonly string[],
): GateState {
  const own = pods.filter((pod) => isActivePodOf(gate, pod));
  const isStale = ({ status }: Pod) => status.containers !== undefined && stale.includes(status.containers);
  const notReady = own.filter((pod) => !pod.status.ready || isStale(pod));
  const { name, blocksReadiness: blocks, graceSeconds } = gate;
  const state = { name, definition: definitionOf(gate), blocks, graceSeconds, pods: own.length };
  if (own.length === 0) {
    const message = `no pod on the node in namespace ${gate.namespace} has ${selectorText(gate.selector)}`;
    return { ...state, ready: false, reason: 'NoPods', message: truncate(message) };
  }
  if (notReady.length === 0) return { ...state, ready: true };
  const names = notReady.map(
    (pod) =>
      `${podName(pod)} (${isStale(pod) ? 'not reported since the reboot' : (pod.status.phase ?? 'Pending')})`,
  );
  const verb = names.length === 1 ? 'pod is' : 'pods are';
  const message = `${verb} not ready: ${listed(names.toSorted(compareNames))}`;
  return { ...state, ready: false, reason: 'PodsNotReady', message: truncate(message) };
}

/** Hashes the namespace, the selector and blocksReadiness: a gate that was redefined under its old name gets another hash. */
function definitionOf({ namespace, selector, blocksReadiness }: NodeReadinessGate): string {
  return hashed(JSON.stringify([namespace, selectorKey(selector), blocksReadiness]));
}

/** The limit of the schema. */
const maxMessageLength = 1024;

function truncate(message: string): string {
  return message.length <= maxMessageLength ? message : `${message.slice(0, maxMessageLength - 3)}...`;
}

/**
 * Decides whether a node is ready, and whether it has the taint. The taint is removed as soon as all blocking gates are ready. It is
 * added at once when a gate was never ready, the node is under maintenance, has rebooted or is not Ready, or the node flaps. It is added
 * after the grace of the gate when a ready gate is lost, or a gate is added to a node that accepts pods. `previous` is the only state kept
 * between decisions.
 */
export function decideReadiness(
  input: ReadinessInput,
  previous: NodeReadinessStatus | undefined,
  timing: ReadinessTiming,
): ReadinessDecision {
  const { now, isTainted, generation: observedGeneration } = input;
  const stale = staleContainersOf(input, previous);
  const gates = input.gates.map((gate) => evaluateGate(gate, input.pods, stale));
  const readiness = gates.map((gate) => gateStatus(gate, previous, input));
  const blocking = readiness.filter((_, i) => gates[i]?.blocks);
  const notReady = blocking.filter(({ ready }) => !ready);
  const readySince = notReady.length === 0 ? lastTransitionOf(blocking) : undefined;
  const losses = countLosses(input, previous, { notReady, readySince });
  const dampedUntil =
    isTainted && readySince !== undefined ? readySince + dampingMsOf(losses.losses, timing) : 0;
  const isDamped = now < dampedUntil;
  const graces = new Map(gates.map(({ name, graceSeconds }) => [name, graceSeconds]));
  const dueAt = taintDueAt(input, notReady, losses.losses, (name) => {
    const seconds = graces.get(name);
    return seconds === undefined ? timing.graceMs : seconds * 1_000;
  });
  const wantsTaint = isTainted ? notReady.length > 0 || isDamped : dueAt <= now;
  const status: NodeReadinessStatus = {
    observedGeneration,
    readiness,
    gates: `${blocking.length - notReady.length}/${blocking.length}`,
    blockedBy: listed(notReady.map(({ name }) => name)).slice(0, maxBlockedByLength),
    ...losses,
    ...(isDamped && { taintUntil: timeOf(dampedUntil) }),
    ...bootOf(input, previous, stale),
    conditions: [],
  };
  const taintAt = wantsTaint ? Infinity : dueAt;
  const ready = { ...readyCondition(status, notReady, taintAt), observedGeneration };
  status.conditions = withCondition(previous?.conditions ?? [], ready, timeOf(now));
  const resetAt = readySince !== undefined && losses.losses > 0 ? readySince + lossResetMs : Infinity;
  const reportedAt = status.staleContainers !== undefined ? reportsCompleteAt(input, status) : Infinity;
  const changesAtMs = Math.min(isDamped ? dampedUntil : Infinity, taintAt, resetAt, reportedAt);
  return { wantsTaint, status, ...(changesAtMs === Infinity ? {} : { changesAtMs }) };
}

/** Mirrors the Ready condition on the Node, for autoscalers, which read Nodes. Returns undefined for a node without gates. */
export function readinessCondition(
  { readiness, conditions }: NodeReadinessStatus,
  type: string,
): ConditionFacts | undefined {
  const ready = conditions.find((condition) => condition.type === 'Ready');
  if (readiness.length === 0 || ready === undefined) return undefined;
  const { status, reason, message } = ready;
  return { type, status, reason, message };
}

const maxBlockedByLength = 512;

function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}

/**
 * Returns the containers from before the latest reboot, or of a previous Node object, until the kubelet has had the time to report all pods
 * again.
 */
function staleContainersOf(
  input: ReadinessInput,
  previous: NodeReadinessStatus | undefined,
): readonly string[] {
  if (previous?.bootID === undefined) {
    const isNew = input.now < reportsCompleteAt(input, { rebootTime: timeOf(input.createdAtMs) });
    return isNew ? containersOfPreviousNode(input.pods, input.createdAtMs) : [];
  }
  const isRecent = hasRebooted(previous, input.bootId) || input.now < reportsCompleteAt(input, previous);
  return isRecent ? staleContainers(previous, input.bootId) : [];
}

type BootStatus = Pick<NodeReadinessStatus, 'bootID' | 'rebootTime' | 'containers' | 'staleContainers'>;

function bootOf(
  { gates, pods, bootId, createdAtMs, now }: ReadinessInput,
  previous: NodeReadinessStatus | undefined,
  stale: readonly string[],
): BootStatus {
  // Without gates nothing is compared with the boot ID, and a gate that is added later starts with the one of that time.
  if (gates.length === 0) return {};
  const bootID = knownBootId(bootId) ?? previous?.bootID;
  const createdTime = stale.length > 0 ? timeOf(createdAtMs) : undefined;
  const rebootTime = hasRebooted(previous, bootId) ? timeOf(now) : (previous?.rebootTime ?? createdTime);
  const own = pods.filter((pod) => gates.some((gate) => isActivePodOf(gate, pod)));
  return {
    ...(bootID !== undefined && { bootID }),
    ...(rebootTime !== undefined && { rebootTime }),
    ...containersOfBoot(own, stale),
  };
}

function gateStatus(
  { blocks: _, graceSeconds: __, ...gate }: GateState,
  previous: NodeReadinessStatus | undefined,
  input: ReadinessInput,
): NodeReadinessGateStatus {
  const now = timeOf(input.now);
  const before = previousOf(gate, previous);
  const lastTransitionTime = before?.ready === gate.ready ? before.lastTransitionTime : now;
  // A gate that is added to a node that accepts pods counts as lost from now on: pods were scheduled there without it.
  const isLost = before === undefined ? acceptsPods(input) : before.ready;
  const hasGrace = !gate.ready && !isInterrupted(input, previous, before);
  const lostTime = hasGrace ? (isLost ? now : before?.lostTime) : undefined;
  return { ...gate, ...(lostTime !== undefined && { lostTime }), lastTransitionTime };
}

/** Returns the previous status of the same gate. A gate of the same name with another definition is a new one. */
function previousOf(
  { name, definition }: Pick<NodeReadinessGateStatus, 'name' | 'definition'>,
  previous: NodeReadinessStatus | undefined,
): NodeReadinessGateStatus | undefined {
  return previous?.readiness.find((one) => one.name === name && one.definition === definition);
}

function acceptsPods({ isTainted, createdAtMs, now }: ReadinessInput): boolean {
  return !isTainted && now - createdAtMs >= newNodeMs;
}

function lastTransitionOf(gates: readonly NodeReadinessGateStatus[]): number {
  return Math.max(...gates.map(({ lastTransitionTime }) => Date.parse(lastTransitionTime)));
}

/**
 * Counts how often the node went from ready to not ready because a ready gate was lost. Neither maintenance nor a new gate counts as
 * a loss. Nor does a loss behind a taint that flapping did not cause: Complete adds the taint if the leader died during a drain.
 */
function countLosses(
  { isUnderMaintenance, isTainted, now }: ReadinessInput,
  previous: NodeReadinessStatus | undefined,
  { notReady, readySince }: { notReady: readonly NodeReadinessGateStatus[]; readySince: number | undefined },
): Pick<NodeReadinessStatus, 'losses' | 'lastLossTime'> {
  const { losses = 0, lastLossTime } = previous ?? {};
  const wasReady = previous?.blockedBy === '' && (!isTainted || previous.taintUntil !== undefined);
  if (wasReady && !isUnderMaintenance && notReady.some((gate) => previousOf(gate, previous)?.ready === true))
    return { losses: losses + 1, lastLossTime: timeOf(now) };
  const isStable = readySince !== undefined && now - readySince >= lossResetMs;
  if (isStable || lastLossTime === undefined) return { losses: 0 };
  return { losses, lastLossTime };
}

function dampingMsOf(losses: number, { dampingMs }: ReadinessTiming): number {
  return losses < 2 ? 0 : Math.min(dampingMs * 2 ** Math.min(losses - 2, 30), maxDampingMs);
}

/** Returns the time at which a node without the taint gets it; Infinity if all gates are ready. */
function taintDueAt(
  { isUnderMaintenance, now }: ReadinessInput,
  notReady: readonly NodeReadinessGateStatus[],
  losses: number,
  graceMsOf: (gate: string) => number,
): number {
  if (notReady.length === 0) return Infinity;
  if (isUnderMaintenance || losses >= lossesWithoutGrace) return now;
  const dueTimes = notReady.map(({ name, lostTime }) =>
    lostTime === undefined ? now : Date.parse(lostTime) + graceMsOf(name),
  );
  return Math.min(...dueTimes);
}

function readyCondition(
  { taintUntil, losses }: NodeReadinessStatus,
  notReady: readonly NodeReadinessGateStatus[],
  taintAt: number,
): ConditionFacts {
  const condition = { type: 'Ready', status: 'False' } as const;
  if (taintUntil !== undefined) {
    const message = `all blocking gates are ready, but were lost ${losses} times: the node accepts no new pods until ${taintUntil}`;
    return { ...condition, reason: 'Flapping', message };
  }
  if (notReady.length === 0)
    return { ...condition, status: 'True', reason: 'GatesReady', message: 'all blocking gates are ready' };
  const causes = truncate(notReady.map(({ name, message }) => `gate ${name}: ${message}`).join('; '));
  if (taintAt === Infinity) return { ...condition, reason: 'GatesNotReady', message: causes };
  const message = `${causes}; the node accepts no new pods from ${timeOf(taintAt)} on`;
  return { ...condition, reason: 'GatesLost', message };
}
