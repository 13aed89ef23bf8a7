import type { Node, Pod } from '../api/core.ts';
import type {
  NodeReadinessGate,
  NodeReadinessGateStatus,
  NodeReadinessStatus,
} from '../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../api/nodeReadinessPolicy.ts';
import { type ConditionFacts, withCondition } from './conditions.ts';
import { selectorKey, selectorText, selectsLabels } from './labelSelector.ts';
import { compareNames, listed } from './names.ts';
import { selectsNode } from './nodeSelector.ts';
import { isFinished, podName } from './pod.ts';

/** How long what may be lost, and how often. Milliseconds. */
export interface ReadinessPatience {
  /** For so long a gate that was ready may be lost before the taint is put back. */
  graceMs: number;
  /** For so long the second loss keeps the taint on after the node is ready; each further one twice as long. */
  dampingMs: number;
}

/** Whoever wants no grace has flapping damped all the same. Milliseconds. */
const shortestDamping = 30_000;
const longestDamping = 600_000;
/** A node that has stayed ready for so long has not flapped. Milliseconds. */
const calmAfter = 600_000;
/** From this loss on there is no grace. */
const lossesWithoutGrace = 3;
/**
 * A younger node without the taint has slipped past the policy that taints at birth, which learns of a new gate a moment late: it
 * takes no pods yet that a grace would serve. Milliseconds.
 */
const newbornFor = 10_000;

export function readinessPatience(graceMs: number): ReadinessPatience {
  return { graceMs, dampingMs: Math.max(graceMs, shortestDamping) };
}

/** What is known of a node when its readiness is decided. Times are milliseconds since the epoch. */
export interface ReadinessFacts {
  gates: readonly NodeReadinessGate[];
  /** Pods on the node. */
  pods: readonly Pod[];
  isTainted: boolean;
  /** By a NodeMaintenance, whose drain takes the pods of gates away, or by whoever cordoned it: there are no pods to come. */
  isHeld: boolean;
  /** When the node was made. */
  bornAt: number;
  generation: number;
  now: number;
}

export interface ReadinessDecision {
  wantsTaint: boolean;
  status: NodeReadinessStatus;
  /** When the decision changes although nothing happens. */
  changesAt?: number;
}

/** Whether what is wrong with the policy, as it is now, has been published. */
export function isChecked({ metadata, status }: NodeReadinessPolicy): boolean {
  return status !== undefined && status.observedGeneration === metadata.generation;
}

/** Whether two versions of a policy ask the same of nodes: its status counts them while they are written. */
export function asksTheSame(before: NodeReadinessPolicy, after: NodeReadinessPolicy): boolean {
  return askOf(before) === askOf(after);
}

function askOf({ metadata, status }: NodeReadinessPolicy): string {
  const { generation, deletionTimestamp } = metadata;
  return JSON.stringify([generation, deletionTimestamp, status?.observedGeneration, status?.withheldGates]);
}

/** The gates of a policy that count: all but those that it withholds. */
export function gatesInEffect(policy: NodeReadinessPolicy): NodeReadinessGate[] {
  const withheld = gatesWithheld(policy);
  return policy.spec.readinessGates.filter(({ name }) => !withheld.includes(name));
}

/** By name. Of a policy that was not checked yet, none. */
export function gatesWithheld(policy: NodeReadinessPolicy): string[] {
  return isChecked(policy) ? (policy.status?.withheldGates ?? []) : [];
}

/**
 * The gates that count for a node: those in its NodeReadiness, and those that a policy is still to write. So a new node does
 * not lose its taint in the moment in which it has no gates yet. On a name that both have, what is written counts.
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

/** The policies that select a node, the oldest first: of two that say another thing about one gate, it counts. */
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

/** Whether a pod has what a gate asks for, wherever it runs and however it is. */
export function selectsPod({ namespace, selector }: NodeReadinessGate, { metadata }: Pod): boolean {
  return metadata.namespace === namespace && selectsLabels(selector, metadata.labels ?? {});
}

/** Whether a pod is one of a gate's. What ends is about to be missing, and what has ended will not come back: neither serves. */
export function isPodOf(gate: NodeReadinessGate, pod: Pod): boolean {
  return selectsPod(gate, pod) && pod.metadata.deletionTimestamp === undefined && !isFinished(pod);
}

interface GateFacts {
  name: string;
  definition: string;
  blocks: boolean;
  ready: boolean;
  pods: number;
  reason?: string;
  message?: string;
}

/**
 * "If all pods represented by every NodeReadinessGate is ready (based on container state and readiness probes) then the node is
 * also considered ready. If no pods are found with the label selector then the node is consider to be 'Not Ready'" (Node
 * Readiness Gates > Determining Readiness via Pod Selectors).
 */
export function gateFacts(gate: NodeReadinessGate, pods: readonly Pod[]): GateFacts {
  const own = pods.filter((pod) => isPodOf(gate, pod));
  const missing = own.filter(({ status }) => !status.ready);
  const { name, blocksReadiness: blocks } = gate;
  const facts = { name, definition: definitionOf(gate), blocks, pods: own.length };
  if (own.length === 0) {
    const message = `no pod on the node in namespace ${gate.namespace} has ${selectorText(gate.selector)}`;
    return { ...facts, ready: false, reason: 'NoPods', message: cut(message) };
  }
  if (missing.length === 0) return { ...facts, ready: true };
  const names = missing.map((pod) => `${podName(pod)} (${pod.status.phase ?? 'Pending'})`);
  const verb = names.length === 1 ? 'pod is' : 'pods are';
  const message = `${verb} not ready: ${listed(names.toSorted(compareNames))}`;
  return { ...facts, ready: false, reason: 'PodsNotReady', message: cut(message) };
}

/** Tells a gate from another one of its name, in eight digits: FNV-1a of what it asks for. */
function definitionOf({ namespace, selector, blocksReadiness }: NodeReadinessGate): string {
  const text = JSON.stringify([namespace, selectorKey(selector), blocksReadiness]);
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, '0');
}

/** As the schema has it. */
const longestMessage = 1024;

function cut(message: string): string {
  return message.length <= longestMessage ? message : `${message.slice(0, longestMessage - 3)}...`;
}

/**
 * Whether a node is ready, and whether it is to have the taint. The taint goes at once when all gates that block are ready. It
 * comes when one is lost for longer than the grace, or is new for as long on a node that takes pods; at once when the gate was
 * never ready, or a maintenance holds the node, or the node flaps. `previous` is all that is remembered.
 */
export function decideReadiness(
  facts: ReadinessFacts,
  previous: NodeReadinessStatus | undefined,
  patience: ReadinessPatience,
): ReadinessDecision {
  const { now, isTainted, generation: observedGeneration } = facts;
  const gates = facts.gates.map((gate) => gateFacts(gate, facts.pods));
  const readiness = gates.map((gate) => gateStatus(gate, previous, facts));
  const blocking = readiness.filter((_, i) => gates[i]?.blocks);
  const closed = blocking.filter(({ ready }) => !ready);
  const since = closed.length === 0 ? lastChangeOf(blocking) : undefined;
  const losses = lossesOf(facts, previous, { closed, since });
  const dampedUntil = isTainted && since !== undefined ? since + dampingOf(losses.losses, patience) : 0;
  const isDamped = now < dampedUntil;
  const dueAt = taintDueAt(facts, closed, losses.losses, patience);
  const wantsTaint = isTainted ? closed.length > 0 || isDamped : dueAt <= now;
  const status: NodeReadinessStatus = {
    observedGeneration,
    readiness,
    gates: `${blocking.length - closed.length}/${blocking.length}`,
    blockedBy: listed(closed.map(({ name }) => name)).slice(0, longestBlockedBy),
    ...losses,
    ...(isDamped && { taintUntil: timeOf(dampedUntil) }),
    conditions: [],
  };
  const comesAt = wantsTaint ? Infinity : dueAt;
  const ready = { ...readyFacts(status, closed, comesAt), observedGeneration };
  status.conditions = withCondition(previous?.conditions ?? [], ready, timeOf(now));
  const calmAt = since !== undefined && losses.losses > 0 ? since + calmAfter : Infinity;
  const changesAt = Math.min(isDamped ? dampedUntil : Infinity, comesAt, calmAt);
  return { wantsTaint, status, ...(changesAt === Infinity ? {} : { changesAt }) };
}

/**
 * "Mirrored" for autoscalers, which read Nodes: True when the node takes pods as far as its gates are concerned. Undefined for a
 * node without gates.
 */
export function readinessCondition(
  { readiness, conditions }: NodeReadinessStatus,
  type: string,
): ConditionFacts | undefined {
  const ready = conditions.find((condition) => condition.type === 'Ready');
  if (readiness.length === 0 || ready === undefined) return undefined;
  const { status, reason, message } = ready;
  return { type, status, reason, message };
}

const longestBlockedBy = 512;

function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}

function gateStatus(
  { blocks: _, ...gate }: GateFacts,
  previous: NodeReadinessStatus | undefined,
  facts: ReadinessFacts,
): NodeReadinessGateStatus {
  const now = timeOf(facts.now);
  const before = previousOf(gate, previous);
  const lastTransitionTime = before?.ready === gate.ready ? before.lastTransitionTime : now;
  // What is new on a node that takes pods is lost now: they were scheduled without it.
  const isLost = before === undefined ? takesPods(facts) : before.ready;
  const lostTime = gate.ready ? undefined : isLost ? now : before?.lostTime;
  return { ...gate, ...(lostTime !== undefined && { lostTime }), lastTransitionTime };
}

/** What was known of this very gate: another one of its name, with another selector, is a new one. */
function previousOf(
  { name, definition }: Pick<NodeReadinessGateStatus, 'name' | 'definition'>,
  previous: NodeReadinessStatus | undefined,
): NodeReadinessGateStatus | undefined {
  return previous?.readiness.find((one) => one.name === name && one.definition === definition);
}

function takesPods({ isTainted, bornAt, now }: ReadinessFacts): boolean {
  return !isTainted && now - bornAt >= newbornFor;
}

/** When the last of these gates became what it is. */
function lastChangeOf(gates: readonly NodeReadinessGateStatus[]): number {
  return Math.max(...gates.map(({ lastTransitionTime }) => Date.parse(lastTransitionTime)));
}

/**
 * A loss is one of the node: from ready to not, by a gate that was ready. Maintenance and new gates are no losses, nor is what
 * happens behind a taint that is not one of flapping: Complete puts it on when the leader has died over a drain.
 */
function lossesOf(
  { isHeld, isTainted, now }: ReadinessFacts,
  previous: NodeReadinessStatus | undefined,
  { closed, since }: { closed: readonly NodeReadinessGateStatus[]; since: number | undefined },
): Pick<NodeReadinessStatus, 'losses' | 'lastLossTime'> {
  const { losses = 0, lastLossTime } = previous ?? {};
  const tookPods = previous?.blockedBy === '' && (!isTainted || previous.taintUntil !== undefined);
  if (tookPods && !isHeld && closed.some((gate) => previousOf(gate, previous)?.ready === true))
    return { losses: losses + 1, lastLossTime: timeOf(now) };
  const isCalm = since !== undefined && now - since >= calmAfter;
  if (isCalm || lastLossTime === undefined) return { losses: 0 };
  return { losses, lastLossTime };
}

function dampingOf(losses: number, { dampingMs }: ReadinessPatience): number {
  return losses < 2 ? 0 : Math.min(dampingMs * 2 ** Math.min(losses - 2, 30), longestDamping);
}

/** When a node without the taint is to have it, as far as is known. */
function taintDueAt(
  { isHeld, now }: ReadinessFacts,
  closed: readonly NodeReadinessGateStatus[],
  losses: number,
  { graceMs }: ReadinessPatience,
): number {
  if (closed.length === 0) return Infinity;
  if (isHeld || losses >= lossesWithoutGrace) return now;
  const dues = closed.map(({ lostTime }) => (lostTime === undefined ? now : Date.parse(lostTime) + graceMs));
  return Math.min(...dues);
}

function readyFacts(
  { taintUntil, losses }: NodeReadinessStatus,
  closed: readonly NodeReadinessGateStatus[],
  taintComesAt: number,
): ConditionFacts {
  const facts = { type: 'Ready', status: 'False' } as const;
  if (taintUntil !== undefined) {
    const message = `all gates are ready, but were lost ${losses} times: no new pods until ${taintUntil}`;
    return { ...facts, reason: 'Flapping', message };
  }
  if (closed.length === 0)
    return { ...facts, status: 'True', reason: 'GatesReady', message: 'all gates that block are ready' };
  const causes = cut(closed.map(({ name, message }) => `gate ${name}: ${message}`).join('; '));
  if (taintComesAt === Infinity) return { ...facts, reason: 'GatesNotReady', message: causes };
  const message = `${causes}; no new pods from ${timeOf(taintComesAt)} on`;
  return { ...facts, reason: 'GatesLost', message };
}
