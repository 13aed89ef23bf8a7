import { setImmediate } from 'node:timers/promises';
import { log } from '@temporalio/activity';
import type { Job, Pod } from '../../api/core.ts';
import { WindowAnnotation } from '../../api/names.ts';
import type { DrainTier, NodeMaintenance, NodeMaintenanceStatus } from '../../api/nodeMaintenance.ts';
import { assertNever } from '../../domain/common/assertNever.ts';
import { isTrue } from '../../domain/common/conditions.ts';
import { podTypeOf } from '../../domain/common/pod.ts';
import { type DrainDecision, type DrainSnapshot, decideDrain } from '../../domain/drain/decide.ts';
import {
  deadlineInMs,
  deletesOnDeadline,
  drainDeadlineOf,
  isPastDeadline,
} from '../../domain/drain/escalation.ts';
import { mayHaveRequests, type ServingState, servingCondition } from '../../domain/evacuation/serving.ts';
import { awaitsCordons } from '../../domain/drain/awaitedCordons.ts';
import { allowedPosition, entryText, positionOf } from '../../domain/drain/plan.ts';
import { lastDrainedTier } from '../../domain/drain/tiers.ts';
import { detailsSnapshotAt } from '../../domain/maintenance/detailsSnapshot.ts';
import { pendingVerification } from '../../domain/drain/verification.ts';
import {
  type DrainStatusInput,
  emptyStatus,
  isDrainedAt,
  isEmptied,
  withCapacity,
  withDrain,
  withServing,
} from '../../domain/maintenance/status.ts';
import type { ReachedTier } from '../../domain/maintenance/summary.ts';
import { drained as drainedNotification } from '../../domain/notifications/events.ts';
import { resources } from '../../kube/resources.ts';
import type { DrainStep, ObservedStage, MaintenanceRef, Pace, PauseChanged } from '../contract.ts';
import type { Deps } from '../deps.ts';
import type { AgentNode } from '../leases/nodeAgents.ts';
import { acquireNodeLeases } from '../leases/nodeLeases.ts';
import { returnUncordonedNodes } from '../leases/returnedNodes.ts';
import { BlockedNotifications, notifiedMaintenanceOf } from '../notifications/notifications.ts';
import { debounceMs, type ReconcileOptions, reconcile, type Watched, within } from '../reconcile.ts';
import { StatusWriter } from '../statusWriter.ts';
import { type HeldView, isView, namesOf, readView, type View } from '../view.ts';
import { DrainChangeFilter } from './changeFilter.ts';
import type { DrainCapacity } from './capacity.ts';
import { Deletions } from './deletions.ts';
import { DrainedCheck, type Verified } from './drainedCheck.ts';
import { DrainEvents } from './drainEvents.ts';
import { PodPeaks } from './podPeaks.ts';
import { PodRequests } from './podRequests.ts';
import { Progress } from './progress.ts';
import {
  agentNodesOf,
  apiserverState,
  type HeldClusterState,
  informerState,
  takeSnapshot,
  withAgents,
  withPermissions,
} from './snapshot.ts';

/**
 * Evacuates the pods that the drain plan targets at `position`, on all selected nodes together. If the status has not reached `position` yet, the
 * drain works through the positions in between first. Pods of earlier positions are evacuated whenever they appear. Resolves with the next
 * position that has pods, with Drained, with Waiting (only with pace Active, when no pod has left for a while), or when the object is paused.
 */
export async function drain(
  deps: Deps,
  ref: MaintenanceRef,
  position: number,
  pace: Pace = 'Active',
): Promise<DrainStep> {
  const progress = new Progress();
  return new DrainRun<DrainStep>(
    deps,
    ref,
    { kind: 'Advance', position, pace },
    (view, decision, reached) => {
      const nodes = view.nodes.map((node) => node.metadata.name);
      const isEnd = decision.position >= view.plan.length;
      if (nodes.length === 0 || decision.position === reached.from || (isEnd && !reached.isDrained))
        return pace === 'Active' && progress.stalledForMs(decision) >= deps.stalledAfterMs
          ? { kind: 'Waiting', nodes }
          : undefined;
      return isEnd ? { kind: 'Drained', nodes } : { kind: 'TierDrained', position: decision.position, nodes };
    },
  ).run();
}

/** Evacuates every pod that appears on a drained node. The Drained condition is False until such a pod has left. */
export async function keepDrained(deps: Deps, ref: MaintenanceRef): Promise<ObservedStage | PauseChanged> {
  return new DrainRun<never>(deps, ref, { kind: 'KeepDrained' }, () => undefined).run();
}

/** Keeps a paused maintenance up to date: starts no Evacuation and no tier. The nodes stay cordoned. */
export async function keepPaused(deps: Deps, ref: MaintenanceRef): Promise<ObservedStage | PauseChanged> {
  return new DrainRun<never>(deps, ref, { kind: 'Paused' }, () => undefined).run();
}

type DrainMode =
  | { kind: 'Advance'; position: number; pace: Pace }
  | { kind: 'KeepDrained' }
  | { kind: 'Paused' };

function hasPauseCondition({ status }: NodeMaintenance): boolean {
  return isTrue(status?.conditions, 'Paused');
}

/** Returns the position in the drain plan that the pods are evacuated for: never beyond the one that the maintenance has reached. */
function positionIn(mode: DrainMode, maintenance: NodeMaintenance, planLength: number): number {
  switch (mode.kind) {
    case 'Advance':
      return allowedPosition(mode.position, maintenance);
    case 'KeepDrained':
      return allowedPosition(planLength - 1, maintenance);
    case 'Paused':
      return positionOf(maintenance);
    default:
      return assertNever(mode);
  }
}

/** Interval in which a drain checks whether its informers follow the apiserver again. */
const followingCheckMs = 100;

/** State after a decision: `from` is the position that it was made for; `isDrained` is whether the apiserver has Drained=True. */
interface Reached {
  from: number;
  isDrained: boolean;
}

/** Returns the result of a drain; undefined if it continues. */
type ResultOf<T> = (view: View, decision: DrainDecision, reached: Reached) => T | undefined;

/** Returns the position that the workflow asks for; undefined if it asks for none. It arrives through Temporal, and may be anything. */
function requestedPosition(mode: DrainMode, planLength: number): number | undefined {
  if (mode.kind === 'Paused') return undefined;
  return mode.kind === 'KeepDrained' ? planLength - 1 : mode.position;
}

/** One run of a drain activity. */
class DrainRun<T extends { kind: string }> {
  readonly #deps: Deps;
  readonly #ref: MaintenanceRef;
  readonly #mode: DrainMode;
  readonly #changeFilter: DrainChangeFilter;
  readonly #resultOf: ResultOf<T>;
  readonly #requests: PodRequests;
  readonly #events: DrainEvents;
  readonly #blocked: BlockedNotifications;
  readonly #deletions: Deletions;
  readonly #peaks = new PodPeaks();
  readonly #drainedCheck: DrainedCheck;
  #writer: StatusWriter | undefined;
  #hasDecided = false;
  /** Pods of the first decision, until it is known which of them fit on no other node. */
  #unreported: readonly Pod[] = [];
  /** Duration of the latest decision in milliseconds. */
  #decisionMs = 0;
  /** The nodes of the latest decision, whose agents are observed. */
  #agentNodes: readonly AgentNode[] = [];
  /** Names of nodes that were released before the maintenance is complete. */
  #returned: ReadonlySet<string> = new Set();
  /** When the deadline deletes the next pod, in milliseconds since the epoch. */
  #nextDeletionAtMs: number | undefined;
  /** Time after which the pods that wait for capacity are compared with the nodes again. */
  #capacityDueInMs = Infinity;

  constructor(deps: Deps, ref: MaintenanceRef, mode: DrainMode, resultOf: ResultOf<T>) {
    this.#deps = deps;
    this.#ref = ref;
    this.#mode = mode;
    this.#changeFilter = new DrainChangeFilter(deps.cluster, mode.kind === 'Advance' ? mode.pace : 'Waiting');
    this.#resultOf = resultOf;
    this.#requests = new PodRequests(deps);
    this.#deletions = new Deletions(deps);
    this.#events = new DrainEvents(deps);
    this.#blocked = new BlockedNotifications(deps.notifications);
    this.#drainedCheck = new DrainedCheck(deps);
  }

  async run(): Promise<T | ObservedStage | PauseChanged> {
    const changeFilter = this.#changeFilter;
    try {
      const options: ReconcileOptions = {
        maintenance: this.#ref.name,
        podDelayMs: (change) => changeFilter.podDelayMs(change),
        evacuationDelayMs: (change) => changeFilter.evacuationDelayMs(change),
        otherMs: () => changeFilter.otherMs,
        isShared: (change) => changeFilter.isShared(change),
        computedMs: () => this.#decisionMs,
        // Without informers that follow nothing is decided, however long it is due.
        dueInMs: () => (this.#deps.cluster.isFollowing() ? this.#dueInMs() : followingCheckMs),
        others: [this.#drainedCheck, this.#jobs(), ...this.#requests.changes(changeFilter)],
      };
      const pass = async () => (this.#requests.isReady ? this.#pass() : undefined);
      return await reconcile<T | ObservedStage | PauseChanged>(this.#deps, options, pass);
    } finally {
      this.#drainedCheck.stop();
      this.#deps.capacity.forget(this.#ref.name);
      await this.#writer?.stop();
    }
  }

  /** Returns the time until there is something to decide that no watch reports. */
  #dueInMs(): number {
    return Math.min(
      this.#changeFilter.dueInMs,
      this.#deps.nodeAgents.dueInMs(this.#agentNodes),
      this.#drainedCheck.dueInMs(),
      this.#nextDeletionInMs(),
      this.#deadlineInMs(),
      this.#capacityDueInMs,
      this.#requests.dueInMs(),
    );
  }

  /** Cancels what was requested for nodes that the selector no longer matches, and releases those that someone has uncordoned. */
  async #withdrawFromDeselected(view: View): Promise<void> {
    await this.#requests.withdrawFrom(deselectedNodes(view), view.maintenance);
    this.#returned = await returnUncordonedNodes(this.#deps, view);
  }

  /** Reports the Jobs of windows on the nodes. */
  #jobs(): Watched {
    const isOnNode = ({ metadata }: Readonly<Job>) =>
      this.#changeFilter.isWatched(metadata.annotations?.[WindowAnnotation.Node]);
    return within(this.#deps.cluster.jobs, ({ object }) => (isOnNode(object) ? debounceMs : undefined));
  }

  async #pass(): Promise<T | ObservedStage | PauseChanged | undefined> {
    const { cluster, cordons } = this.#deps;
    this.#changeFilter.passStarted();
    const view = await readView(cluster, this.#ref, 'Drain');
    if (!isView(view)) return view;
    this.#writer ??= new StatusWriter(cluster.kube, view.maintenance, this.#deps.lastStatusWrites);
    this.#writer.update(view.maintenance);
    const pauseChanged = await this.#pauseChanged(view.maintenance, this.#writer);
    if (pauseChanged !== undefined) return pauseChanged;
    const acquired = await acquireNodeLeases(this.#deps, view);
    const held = acquired && (await cordons.of(this.#ref.uid).reconcile(acquired, this.#writer));
    if (held === undefined) return undefined;
    // Pods of earlier tiers may exist that the informers do not show.
    if (!cluster.isFollowing()) return undefined;
    await this.#withdrawFromDeselected(view);
    const status = await this.#readStatus(view, this.#writer);
    const serving = this.#requests.observe(this.#writer.latest);
    const current = { ...held, maintenance: { ...view.maintenance, status } };
    const mode = isTrue(status.conditions, 'Paused') ? ({ kind: 'Paused' } as const) : this.#mode;
    const position = positionIn(mode, current.maintenance, view.plan.length);
    const decision = this.#peaks.addTo(await this.#decideToEnd(current, position, mode));
    const isReportedLater = this.#isReportedLater(view.maintenance, decision);
    if (isReportedLater) this.#unreported = decision.evacuate;
    this.#nextDeletionAtMs = decision.nextDeletionAtMs;
    const isPaused = mode.kind === 'Paused';
    this.#changeFilter.decided(decision, isPaused);
    const capacity =
      isPaused || isReportedLater ? undefined : await this.#capacityFor(view.maintenance, decision.evacuate);
    const isDrained = await this.#publish(view, decision, {
      writer: this.#writer,
      isPaused,
      capacity,
      serving,
    });
    if (mode.kind === 'Paused') return undefined;
    const evacuate = this.#podsThatFit(decision.evacuate, capacity);
    const isFirst = status.drainTier === undefined && decision.tiers.includes(decision.position);
    const options = { writer: this.#writer, isFirst, serving };
    await settled(
      this.#removePods(view.maintenance, { ...decision, evacuate }, options),
      isReportedLater && this.#reportCapacity(view.maintenance, this.#writer),
    );
    // A rejection blocks one pod, and not what follows.
    if (evacuate.some((pod) => !this.#requests.isRejected(pod))) return undefined;
    return this.#finish(view, decision, { reached: { from: position, isDrained }, writer: this.#writer });
  }

  /** Deletes and evacuates pods. `isFirst`: they are the first of this maintenance. */
  async #removePods(
    maintenance: NodeMaintenance,
    { deletions, evacuate }: Pick<DrainDecision, 'deletions' | 'evacuate'>,
    {
      writer,
      isFirst,
      serving,
    }: { writer: StatusWriter; isFirst: boolean; serving: ServingState | undefined },
  ): Promise<void> {
    const leases = this.#deps.nodeLeases.of(this.#ref.uid);
    const isHeld = (node: string) => leases.isHeld(node);
    // The first tier counts even if its pods leave before the next write.
    const written = isFirst || deletions.length > 0 ? writer.flush() : undefined;
    if (evacuate.length > 0 && isUnrecorded(writer, serving)) await (written ?? writer.flush());
    // The targets are written before: they keep the pods of DaemonSets from returning.
    if (deletions.length > 0 || evacuate.some(isOfDaemonSet)) await written;
    const remove = async () => {
      await this.#deletions.perform(maintenance, deletions, isHeld);
      await this.#requests.start(maintenance, evacuate, isHeld);
    };
    await settled(written, remove());
  }

  /** Reports whether this is the first decision. Places that are only reported are computed when the first Evacuations are on their way. */
  #isReportedLater({ spec }: NodeMaintenance, { evacuate }: DrainDecision): boolean {
    const isFirst = !this.#hasDecided;
    this.#hasDecided = true;
    return isFirst && spec.requireCapacity !== true && evacuate.length > 0;
  }

  async #capacityFor(
    maintenance: NodeMaintenance,
    evacuate: readonly Pod[],
  ): Promise<DrainCapacity | undefined> {
    const capacity = await this.#deps.capacity.of(maintenance, evacuate, this.#unreported);
    // A result that another drain caused a moment ago may not be about these pods: the next one is.
    if (capacity === undefined || capacity.facts.isComplete) this.#unreported = [];
    return capacity;
  }

  /** Reports which pods fit on no other node. */
  async #reportCapacity(maintenance: NodeMaintenance, writer: StatusWriter): Promise<void> {
    await setImmediate();
    const capacity = await this.#capacityFor(maintenance, []);
    if (capacity === undefined) return;
    if (this.#unreported.length > 0) this.#capacityDueInMs = capacity.dueInMs;
    this.#events.recordCapacity(maintenance, capacity.facts);
    const now = this.#deps.cluster.kube.now().toISOString();
    writer.publish((status) => withCapacity(status, capacity.facts, now), maintenance.metadata.generation);
  }

  /** Returns the pods that need not wait for capacity. */
  #podsThatFit(pods: readonly Pod[], capacity: DrainCapacity | undefined): readonly Pod[] {
    const evacuate = capacity === undefined ? pods : pods.filter(capacity.mayLeave);
    const isWaiting = evacuate.length < pods.length || this.#unreported.length > 0;
    this.#capacityDueInMs = capacity !== undefined && isWaiting ? capacity.dueInMs : Infinity;
    return evacuate;
  }

  #nextDeletionInMs(): number {
    if (this.#nextDeletionAtMs === undefined) return Infinity;
    return Math.max(0, this.#nextDeletionAtMs - this.#deps.cluster.kube.now().getTime());
  }

  /** Returns the time until the deadline, when the drain stops waiting for volumes. */
  #deadlineInMs(): number {
    const latest = this.#writer?.latest;
    const inMs = latest && deadlineInMs(latest, this.#deps.cluster.kube.now());
    return inMs !== undefined && inMs > 0 ? inMs : Infinity;
  }

  /** Reports that the object was paused or resumed since the workflow read it. The informer may be behind: the apiserver decides. */
  async #pauseChanged(maintenance: NodeMaintenance, writer: StatusWriter): Promise<PauseChanged | undefined> {
    if (hasPauseCondition(writer.latest) === (this.#mode.kind === 'Paused')) return undefined;
    await this.#readNewest(maintenance, writer);
    const paused = hasPauseCondition(writer.latest);
    return paused === (this.#mode.kind === 'Paused') ? undefined : { kind: 'PauseChanged', paused };
  }

  /** Returns the newest status. The informer and this process can both be behind the position that another process has published. */
  async #readStatus({ maintenance, plan }: View, writer: StatusWriter): Promise<NodeMaintenanceStatus> {
    const { status = emptyStatus } = writer.latest;
    const requested = requestedPosition(this.#mode, plan.length);
    if (requested === undefined || positionOf({ ...maintenance, status }) >= requested) return status;
    await this.#readNewest(maintenance, writer);
    return writer.latest.status ?? emptyStatus;
  }

  async #readNewest({ metadata: { name, uid } }: NodeMaintenance, writer: StatusWriter): Promise<void> {
    const newest = await this.#deps.cluster.kube.get(resources.nodeMaintenances, { name });
    if (newest?.metadata.uid === uid && newest !== undefined) writer.update(newest);
  }

  /** Decides at `position`. If no pod is left, the targets are those of the whole plan, so that the status has them from the beginning. */
  async #decideToEnd(view: HeldView, position: number, { kind }: DrainMode): Promise<DrainDecision> {
    const decision = await this.#decide(view, position, kind);
    const last = view.plan.length - 1;
    if (kind === 'Paused' || position >= last || !isEmptied(decision, view.plan.length)) return decision;
    return this.#decide(view, last, kind);
  }

  async #decide(view: HeldView, position: number, mode: DrainMode['kind']): Promise<DrainDecision> {
    const { cluster, nodeAgents } = this.#deps;
    const podSnapshot = this.#deletions.amend(this.#requests.snapshotOf(cluster.kube.now()));
    const deletion = mode === 'Advance' ? deletionOf(view.maintenance, cluster.kube.now()) : undefined;
    const agentOf = (node: string) => nodeAgents.of(node);
    const observed = await withPermissions(this.#deps, view, informerState(this.#deps));
    const snapshotOf = (state: HeldClusterState): DrainSnapshot => ({
      ...takeSnapshot(view, position, state, podSnapshot),
      deletion,
      awaitsCordons: awaitsCordons(view.maintenance, state.maintenances, cluster.kube.now().getTime()),
    });
    const startedAt = performance.now();
    const snapshot = snapshotOf(observed);
    const snapshotMs = performance.now() - startedAt;
    const agentNodes = agentNodesOf(snapshot);
    const names = agentNodes.map(({ name }) => name);
    this.#agentNodes = agentNodes;
    this.#changeFilter.watch([...names, ...deselectedNodes(view)]);
    // What only the status shows is read after the first pods have their Evacuations.
    await nodeAgents.refresh(agentNodes, this.#hasDecided ? 'all' : 'needed');
    const decidingAt = performance.now();
    const decision = decideDrain(withAgents(snapshot, agentOf));
    this.#decisionMs = snapshotMs + performance.now() - decidingAt;
    if (decision.overruled.length === 0) return decision;
    // Overruling another maintenance cannot be undone: decide it from the apiserver, because informers may lag.
    const state = await withPermissions(this.#deps, view, await apiserverState(this.#deps, names));
    return decideDrain(withAgents(snapshotOf(state), agentOf));
  }

  /** Publishes the decision. Resolves with true if the condition Drained is True in the apiserver, for this generation of the object. */
  async #publish(
    view: View,
    decision: DrainDecision,
    {
      writer,
      isPaused,
      capacity,
      serving,
    }: {
      writer: StatusWriter;
      isPaused: boolean;
      capacity: DrainCapacity | undefined;
      serving: ServingState | undefined;
    },
  ): Promise<boolean> {
    const now = this.#deps.cluster.kube.now();
    const { generation } = view.maintenance.metadata;
    this.#events.record(view.maintenance, decision);
    if (capacity !== undefined) this.#events.recordCapacity(view.maintenance, capacity.facts);
    const { settings } = this.#deps.serving;
    if (serving !== undefined)
      this.#events.recordServing(view.maintenance, servingCondition(serving, settings));
    this.#blocked.enqueue(view.maintenance, decision.blocked, now);
    const planLength = view.plan.length;
    const isDrained = () => isDrainedAt(writer.latest.status ?? emptyStatus, generation);
    const wasDrained = isDrained();
    const { verification, read } = await this.#verified(view, decision, { writer, wasDrained });
    const input: DrainStatusInput = {
      wasDrained,
      planLength,
      now: now.toISOString(),
      existing: namesOf(view.existing, this.#returned),
      isPaused,
      deadline: view.maintenance.spec.drainDeadline,
      generation,
      verification,
    };
    const changed = (status: NodeMaintenanceStatus, mayBecomeDrained: boolean) => {
      const drained = withDrain(status, decision, { ...input, mayBecomeDrained });
      const next =
        serving === undefined ? drained : withServing(drained, { serving, ...settings }, input.now);
      return capacity === undefined ? next : withCapacity(next, capacity.facts, input.now);
    };
    if (verification.kind !== 'Verified' || read === undefined || isDrained()) {
      writer.publish((status) => changed(status, false), generation);
      return verification.kind === 'Verified' && isDrained();
    }
    const isWritten = await writer.writeAt(read, (status) => changed(status, true));
    if (!isWritten) this.#drainedCheck.writeRejected();
    return isWritten;
  }

  /** Verifies that the nodes are drained, if the decision finds no pod on them. */
  async #verified(
    view: View,
    decision: DrainDecision,
    { writer, wasDrained }: { writer: StatusWriter; wasDrained: boolean },
  ): Promise<Verified> {
    if (!isEmptied(decision, view.plan.length)) {
      this.#drainedCheck.reset();
      return { verification: pendingVerification };
    }
    // A pending write would change the object after it is read.
    return this.#drainedCheck.verify(view, {
      beforeRead: () => writer.flush(),
      isPastDeadline: isPastDeadline(writer.latest, this.#deps.cluster.kube.now()),
      wasDrained,
    });
  }

  async #finish(
    view: View,
    decision: DrainDecision,
    { reached, writer }: { reached: Reached; writer: StatusWriter },
  ): Promise<T | undefined> {
    const result = this.#resultOf(view, decision, reached);
    if (result === undefined) return undefined;
    await writer.flush();
    const details = detailsSnapshotAt(writer.latest, this.#deps.cluster.kube.now().toISOString());
    if (result.kind === 'Waiting') return { ...result, details };
    if (decision.position === view.plan.length) {
      this.#events.recordDrained(view, decision);
      log.info('Nodes drained', { uid: this.#ref.uid, nodes: view.nodes.length });
      await notifyDrained(this.#deps, view, writer.latest);
      return { ...result, details };
    }
    const drained = drainedTier(
      view,
      reached.from,
      lastDrainedTier(writer.latest.status ?? emptyStatus, decision.tiers),
    );
    if (drained !== undefined) {
      this.#events.recordTierDrained(view, drained);
      log.info('Tier drained', { uid: this.#ref.uid, tier: drained.number, tiers: drained.total });
    }
    return { ...result, ...(drained !== undefined && { drained }), details };
  }
}

/**
 * Reports whether the status must be written before the first EvictionRequest, so that any process that continues looks for requests, whatever its
 * settings.
 */
function isUnrecorded(writer: StatusWriter, serving: ServingState | undefined): boolean {
  return serving !== undefined && !mayHaveRequests(writer.latest);
}

function isOfDaemonSet(pod: Pod): boolean {
  return podTypeOf(pod) === 'DaemonSet';
}

/** Returns the deadline at which what is left is deleted; undefined if nothing is, or once the nodes were drained. */
function deletionOf({ spec, status }: NodeMaintenance, now: Date): DrainSnapshot['deletion'] {
  const deadline = drainDeadlineOf(spec.drainDeadline, status);
  if (deadline === undefined || deadline.drainedAt !== undefined || !deletesOnDeadline({ spec }))
    return undefined;
  return { timeMs: Date.parse(deadline.time), nowMs: now.getTime() };
}

/** Returns the tier that was drained, with the entry of the plan at its position. */
function drainedTier({ plan }: View, position: number, tier: DrainTier | undefined): ReachedTier | undefined {
  const entry = plan[position];
  return tier && entry && { ...tier, pods: entryText(entry) };
}

async function notifyDrained(
  { cluster, notifications }: Deps,
  { nodes }: View,
  maintenance: NodeMaintenance,
): Promise<void> {
  const names = nodes.map(({ metadata }) => metadata.name).toSorted();
  const condition = maintenance.status?.conditions.find(({ type }) => type === 'Drained');
  const since = condition?.lastTransitionTime ?? cluster.kube.now().toISOString();
  await notifications.enqueue(drainedNotification(notifiedMaintenanceOf(maintenance), names, since));
}

/** Returns the nodes of the status that the selector no longer matches. */
function deselectedNodes({ maintenance, nodes }: View): string[] {
  const selected = namesOf(nodes);
  const recorded = maintenance.status?.nodeStatuses.map((status) => status.nodeRef.name) ?? [];
  return recorded.filter((name) => !selected.has(name));
}

/** Awaits all of them even if one fails: nothing is written after the activity has ended. */
async function settled(...all: readonly unknown[]): Promise<void> {
  for (const result of await Promise.allSettled(all)) if (result.status === 'rejected') throw result.reason;
}
