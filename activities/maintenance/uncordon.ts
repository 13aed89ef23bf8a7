import type { Node } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { listed } from '../../domain/common/names.ts';
import { autoscalerAnnotationsToRemove } from '../../domain/common/autoscalers.ts';
import { decideUncordon, isCordoned, type UncordonDecision } from '../../domain/common/cordon.ts';
import { isFromIdle } from '../../domain/common/stage.ts';
import { isHeldBy } from '../../domain/leases/lease.ts';
import { holdsNode } from '../../domain/common/nodePermission.ts';
import {
  isRejected,
  isHeldByOthers,
  leasesRejected,
  type NodeHeldByOthers,
  type UnreturnedNode,
} from '../../domain/leases/nodeLease.ts';
import { hasCordonRecord, withUncordon } from '../../domain/maintenance/status.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import type { EventContent } from '../../kube/events.ts';
import { isRejection } from '../../kube/errors.ts';
import { currentInstant, elapsedMs } from '../../kube/monotonicTime.ts';
import type { MaintenanceRef, Pace, Waiting } from '../contract.ts';
import type { Deps } from '../deps.ts';
import {
  annotationsToRemove,
  type ClusterState,
  findHolders,
  type Holders,
  readState,
  releaseUnlessNeeded,
} from '../leases/holders.ts';
import { changeNode, type NodeChange } from '../nodeChange.ts';
import { ensureReadinessTaint } from '../readiness/readinessTaint.ts';
import { otherDelayMs, reconcile } from '../reconcile.ts';
import { RejectedWrites } from '../rejectedWrites.ts';
import { StatusWriter } from '../statusWriter.ts';
import { isCompleting, nodeStatusOf } from '../view.ts';

const concurrentNodes = 16;

/**
 * Sets "`.spec.unschedulable` back to false on all nodes ... unless there is [another] maintenance in progress"
 * (KEP-4212 > Uncordon (Complete)), removes the annotations against autoscalers, and releases their Leases. If someone else has acquired
 * the Lease of a node that was cordoned for the maintenance, waits until they release it; if the apiserver rejects that a node is uncordoned, until it
 * does not; if another maintenance is to keep the node, until that has recorded it.
 */
export async function uncordonNodes(
  deps: Deps,
  ref: MaintenanceRef,
  pace: Pace = 'Active',
): Promise<Waiting | undefined> {
  const { cluster } = deps;
  const memory = { events: new UncordonEvents(deps), rejected: new RejectedWrites(deps.resyncMs) };
  const startedAt = currentInstant();
  let result: UncordonResult | undefined;
  let writer: StatusWriter | undefined;
  const uncordon = async (): Promise<'Done' | undefined> => {
    const isKnown = cluster.maintenances.get(ref.name)?.metadata.uid === ref.uid;
    if (isKnown && result?.kind === 'Uncordoned' && !isDue(deps, result, memory)) return undefined;
    result = await uncordonOnce(deps, ref, memory);
    if (result.kind === 'Gone') return 'Done';
    if (result.kind === 'Outdated') return undefined;
    const { maintenance, waiting } = result;
    writer ??= new StatusWriter(cluster.kube, maintenance, deps.lastStatusWrites);
    writer.update(maintenance);
    const now = cluster.kube.now().toISOString();
    writer.publish((status) => withUncordon(status, waiting, now));
    if (waiting.length > 0) return undefined;
    await writer.flush();
    return 'Done';
  };
  const isStalled = () => pace === 'Active' && elapsedMs(startedAt) > deps.stalledAfterMs;
  const pass = async () => (await uncordon()) ?? (isStalled() ? 'Waiting' : undefined);
  try {
    const end = await reconcile(deps, { maintenance: ref.name, otherMs: () => otherDelayMs(pace) }, pass);
    return end === 'Waiting' ? { kind: end } : undefined;
  } finally {
    await writer?.stop();
  }
}

/** Returns true if the informers show a node that the maintenance has to uncordon. */
export async function hasNodesToUncordon(deps: Deps, maintenance: NodeMaintenance): Promise<boolean> {
  const { nodes, maintenances } = deps.cluster;
  const holders = await findHolders(deps, maintenance, nodes.list(), maintenances.list());
  return holders.nodes.some((node) => needsChange(holders, node));
}

/** The state that an activity keeps between its passes. */
interface Memory {
  events: UncordonEvents;
  /** The keys are names of nodes. */
  rejected: RejectedWrites;
}

/**
 * Returns true if a Lease that the result waits for may be available, a rejected node is due, a node can be left to another maintenance or cannot any
 * more, or a node needs nothing any more.
 */
function isDue(
  { cluster, nodeLeases, resyncMs }: Deps,
  { maintenance, waiting, leasesForbidden, at }: Uncordoned,
  { rejected }: Memory,
): boolean {
  if (leasesForbidden && performance.now() - at < resyncMs) return false;
  return waiting.some((unreturned) => {
    const { name } = unreturned;
    if (isHeldByOthers(unreturned))
      return performance.now() - at >= resyncMs || isDecided(cluster, unreturned);
    if (isRejected(unreturned)) return rejected.isDue(name);
    const node = cluster.nodes.get(name);
    if (node === undefined || nodeLeases.shouldRetry(name)) return true;
    const annotations = autoscalerAnnotationsToRemove(node, nodeStatusOf(maintenance, node));
    return !isCordoned(node) && annotations.length === 0;
  });
}

/** Reports whether one of the other maintenances has recorded the node, or none of them is to keep it any more. */
function isDecided({ nodes, maintenances }: Deps['cluster'], { name, holders }: NodeHeldByOthers): boolean {
  const node = nodes.get(name);
  if (node === undefined) return true;
  const keeping = holders
    .flatMap((holder) => maintenances.get(holder) ?? [])
    .filter((holder) => holdsNode(holder, node));
  return keeping.length === 0 || keeping.some((holder) => hasCordonRecord(nodeStatusOf(holder, node)));
}

interface Uncordoned {
  kind: 'Uncordoned';
  maintenance: NodeMaintenance;
  /** Nodes that are still to be uncordoned. */
  waiting: readonly UnreturnedNode[];
  leasesForbidden: boolean;
  /** Time of the attempt, as performance.now() returned it. */
  at: number;
}

type UncordonResult =
  | Uncordoned
  /** The maintenance does not exist any more, or was completed before: its nodes belong to others. */
  | { kind: 'Gone' }
  /** The maintenance, or a node that was to be written, has changed since it was read. */
  | { kind: 'Outdated' };

/** Uncordons the nodes that can be uncordoned now. */
async function uncordonOnce(deps: Deps, ref: MaintenanceRef, memory: Memory): Promise<UncordonResult> {
  const before = await readState(deps, ref);
  if (before === undefined || !isCompleting(before.maintenance)) return { kind: 'Gone' };
  const changed = before.nodes.filter((node) => needsChange(before, node));
  const acquisition = await deps.nodeLeases.of(ref.uid).acquire(before.maintenance, changed);
  if (acquisition.kind === 'Outdated') return acquisition;
  const state = acquisition.isNew ? await readState(deps, ref) : before;
  if (state === undefined) return { kind: 'Gone' };
  const notHeld = new Set(acquisition.waiting.map(({ name }) => name));
  const waiting: UnreturnedNode[] = [...acquisition.waiting];
  let hasChanged = false;
  await forEachBounded(concurrentNodes, state.nodes, async (node) => {
    const { name } = node.metadata;
    if (notHeld.has(name)) return;
    const result = await uncordonUnlessRejected(deps, state, node, memory);
    if (result.kind === 'Changed') hasChanged = true;
    if (result.kind === 'WithoutLease') waiting.push({ name, because: result.because });
    if (result.kind === 'Rejected') waiting.push({ name, rejection: result.message });
    if (result.kind === 'HeldByOthers') waiting.push({ name, holders: result.holders });
  });
  if (hasChanged) return { kind: 'Outdated' };
  const leasesForbidden = state.leases === undefined;
  return {
    kind: 'Uncordoned',
    maintenance: state.maintenance,
    waiting,
    leasesForbidden,
    at: performance.now(),
  };
}

function decide({ maintenance, holdersOf }: Holders, node: Node): UncordonDecision {
  return decideUncordon(node, {
    own: nodeStatusOf(maintenance, node),
    heldBy: holdersOf(node),
    isFromIdle: isFromIdle(maintenance),
  });
}

function needsChange(holders: Holders, node: Node): boolean {
  return decide(holders, node).kind === 'Uncordon' || annotationsToRemove(holders, node).length > 0;
}

type NodeResult =
  | { kind: 'Done' }
  /** The node has changed since it was read. */
  | { kind: 'Changed' }
  /** The Lease has changed since it was read, or cannot be read. */
  | { kind: 'WithoutLease'; because: string }
  /** The node stays cordoned for other maintenances, of which none has recorded it. */
  | { kind: 'HeldByOthers'; holders: readonly string[] }
  /** The apiserver rejects the write of the node or of its Lease. */
  | { kind: 'Rejected'; message: string };

const done: NodeResult = { kind: 'Done' };

function withoutLease(because: string): NodeResult {
  return { kind: 'WithoutLease', because };
}

/** A rejection concerns only this node: the others return to service. */
async function uncordonUnlessRejected(
  deps: Deps,
  state: ClusterState,
  node: Node,
  { events, rejected }: Memory,
): Promise<NodeResult> {
  const { name } = node.metadata;
  const known = rejected.reasonOf(name);
  if (known !== undefined && !rejected.isDue(name)) return { kind: 'Rejected', message: known };
  try {
    const result = await uncordonNode(deps, state, node, events);
    rejected.accept(name);
    return result;
  } catch (error) {
    if (!isRejection(error)) throw error;
    const message = error.apiMessage;
    events.recordRejection(state.maintenance, name, message);
    rejected.reject(name, message);
    return { kind: 'Rejected', message };
  }
}

/** Uncordons the node and releases its Lease. */
async function uncordonNode(
  deps: Deps,
  state: ClusterState,
  node: Node,
  events: UncordonEvents,
): Promise<NodeResult> {
  const decision = decide(state, node);
  if (decision.kind === 'HeldBy' && !state.isRecorded(node))
    return { kind: 'HeldByOthers', holders: decision.maintenances };
  events.record(state.maintenance, node, decision);
  const change = changeOf(state, node, decision);
  const changed = change === undefined ? done : await changeHeldNode(deps, state, node, change);
  if (changed.kind !== 'Done') return changed;
  const released = await releaseUnlessNeeded(deps, state, node);
  return released === 'Changed' ? withoutLease('it was changed a moment ago and is not released yet') : done;
}

/** Returns what a node needs to return to service; undefined if nothing. */
function changeOf(state: ClusterState, node: Node, { kind }: UncordonDecision): NodeChange | undefined {
  const removed = annotationsToRemove(state, node);
  const annotations = Object.fromEntries(removed.map((key) => [key, null]));
  if (kind === 'Uncordon') return { unschedulable: false, annotations };
  return removed.length === 0 ? undefined : { annotations };
}

async function changeHeldNode(
  deps: Deps,
  { leases, maintenance }: ClusterState,
  node: Node,
  change: NodeChange,
): Promise<NodeResult> {
  if (leases === undefined) return withoutLease(leasesRejected);
  const { name } = node.metadata;
  const { uid = '' } = maintenance.metadata;
  const isOurs = isHeldBy(leases.get(name), deps.leases.holder, deps.cluster.kube.now().getTime());
  if (!isOurs || !deps.nodeLeases.of(uid).isHeld(name)) return withoutLease('it was lost a moment ago');
  const isUncordoned = change.unschedulable === false;
  const current = isUncordoned ? await ensureReadinessTaint(deps, node) : node;
  if (current === undefined) return done;
  return (await changeNode(deps, current, change)) === 'Changed' ? { kind: 'Changed' } : done;
}

/** Records which nodes stay cordoned, and why, each once. */
class UncordonEvents {
  readonly #events: Deps['events'];
  readonly #recorded = new Set<string>();

  constructor({ events }: Pick<Deps, 'events'>) {
    this.#events = events;
  }

  record(maintenance: NodeMaintenance, { metadata: { name } }: Node, decision: UncordonDecision): void {
    const event = eventOf(name, decision);
    if (event !== undefined) this.#recordOnce(maintenance, { type: 'Normal', ...event });
  }

  recordRejection(maintenance: NodeMaintenance, name: string, rejection: string): void {
    const message = `Node ${name} cannot be uncordoned: ${rejection}`;
    this.#recordOnce(maintenance, { type: 'Warning', reason: 'UncordonRejected', message });
  }

  #recordOnce(maintenance: NodeMaintenance, event: EventContent): void {
    if (this.#recorded.has(event.message)) return;
    this.#recorded.add(event.message);
    this.#events.record(maintenance, event);
  }
}

function eventOf(
  name: string,
  decision: UncordonDecision,
): Pick<EventContent, 'reason' | 'message'> | undefined {
  const stays = `Node ${name} stays cordoned:`;
  switch (decision.kind) {
    case 'HeldBy':
      return {
        reason: 'NodeStillHeld',
        message: `${stays} NodeMaintenance ${listed(decision.maintenances)} still holds it.`,
      };
    case 'CordonedBefore':
      return {
        reason: 'NodeKeptCordoned',
        message: `${stays} it was cordoned before this maintenance. Run kubectl uncordon ${name} to return it to service.`,
      };
    case 'CordonedByAnother':
      return {
        reason: 'NodeKeptCordoned',
        message: `${stays} another client has cordoned it. Run kubectl uncordon ${name} to return it to service.`,
      };
    case 'NeverCordoned':
      return {
        reason: 'NodeSkipped',
        message: `Node ${name} was skipped: the maintenance never cordoned it.`,
      };
    default:
      return undefined;
  }
}
