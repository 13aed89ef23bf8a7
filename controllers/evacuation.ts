import type { Pod } from '../api/core.ts';
import type { Evacuation, EvacuationStatus } from '../api/evacuation.ts';
import { FIELD_MANAGER, INSTIGATOR_FINALIZER } from '../api/names.ts';
import {
  type Blocker,
  BlockerReason,
  blockedConditions,
  lateness,
  needsAPerson,
  reportedBlocker,
  stuckTerminating,
} from '../domain/blocker.ts';
import { isFor, isWithdrawn } from '../domain/evacuation.ts';
import { compareNames } from '../domain/names.ts';
import { rest } from '../kube/abort.ts';
import { backOffMs } from '../kube/backOff.ts';
import { byPodUid, type FencedCluster } from '../kube/cluster.ts';
import type { EvictionOutcome } from '../kube/client.ts';
import { ignoreIfOutdated, isRefusal } from '../kube/errors.ts';
import { aboutPod, type EventRecorder } from '../kube/events.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { WorkQueue } from '../kube/workQueue.ts';
import { DisruptionGate } from './disruptionGate.ts';
import { EvacuatorTurns } from './evacuatorTurns.ts';

interface Deps {
  cluster: FencedCluster;
  /** Its Events are many and matter less than others: they need a recorder of their own. */
  events: EventRecorder;
  log: Log;
}

/** Evictions under way at the same time: enough to hide the apiserver's latency, few enough to leave it room for others. */
const evictionsAtOnce = 48;
/** Evacuations that are removed at the same time. */
const removalsAtOnce = 16;
/** Removals give way to evictions and to pods that were just evicted, but not for longer than this. Milliseconds. */
const removalPatience = 120_000;
const removalRetry = 200;
/** The work that an eviction makes for the control plane is taken to be done after this long. Milliseconds. */
const evictionSettles = 5_000;
/** The message of a waiting Evacuation is refreshed at most this often. Milliseconds. */
const messageEvery = 30_000;
/**
 * Pods that wait for a budget that will allow it are told so one after the other, at this distance, and at a greater one
 * when many wait: most of them leave before it is their turn to be told. Milliseconds, and milliseconds for each that waits.
 */
const explanationEvery = 200;
const explanationPerWaiting = 1;
/** A pod that is still there this long after its eviction is reported as terminating: most are gone by then. Milliseconds. */
const terminatingNotice = 30_000;
/** What is refused for another reason than a budget may be refused to many: the more often, the later it is tried again. */
const refusalRetry = { firstMs: 30_000, capMs: 300_000 };

type Outcome = { requeueAfterMs: number } | undefined;

/**
 * Ends every Evacuation: lets the evacuators of its pod have their turns, then evicts it, by UID, as its budget allows, and
 * removes the Evacuation when the pod is gone. Keeps nothing that the objects do not say, but for what only spares requests: kill it anywhere and it goes on.
 */
export class EvacuationController {
  readonly #cluster: FencedCluster;
  readonly #log: Log;
  readonly #events: EventRecorder;
  readonly #turns: EvacuatorTurns;
  readonly #evictions = new WorkQueue();
  /** Those that wait for a budget and are to say so. */
  readonly #explanations = new WorkQueue();
  readonly #removals = new WorkQueue();
  readonly #gate: DisruptionGate;
  /** UIDs of pods whose eviction the apiserver accepted, until they are gone. */
  readonly #evicted = new Set<string>();
  /** Of these, the ones that are not seen to be gone, and when the last eviction was accepted. */
  readonly #leaving = new Set<string>();
  #lastEviction = 0;
  /** UIDs of pods that were seen to go, while they still have an Evacuation -> when. */
  readonly #gone = new Map<string, number>();
  /** UIDs of Evacuations that we removed, until the informer shows it. */
  readonly #removed = new Set<string>();
  /** Evacuation key -> when its message was last written, and on which resourceVersion that was decided. */
  readonly #described = new Map<string, { at: number; on: string | undefined }>();

  constructor({ cluster, events, log }: Deps) {
    this.#cluster = cluster;
    this.#log = log;
    this.#events = events;
    this.#turns = new EvacuatorTurns({ cluster, events });
    this.#gate = new DisruptionGate(cluster.budgets, (key) => this.#evictions.add(key));
  }

  async run(signal: AbortSignal): Promise<void> {
    const { evacuations, pods, budgets } = this.#cluster;
    // The oldest come first, at the gate too.
    for (const { metadata } of evacuations.list().toSorted(byAge))
      this.#evictions.add(`${metadata.namespace}/${metadata.name}`);
    const unsubscribe = [
      evacuations.subscribe(({ type, key, object }) => {
        if (type === 'Deleted') this.#forget(key, object);
        else this.#evictions.add(key);
      }),
      pods.subscribe(({ type, object }) => this.#podChanged(type, object)),
      budgets.subscribe((change) =>
        this.#gate.changed(change.object, change.type === 'Updated' ? change.previous : undefined),
      ),
    ];
    try {
      await Promise.all([
        this.#evictions.run({
          workers: evictionsAtOnce,
          reconcile: (key) => this.#advance(key).catch((error) => this.#giveWay(key, error)),
          signal,
          log: this.#log,
        }),
        this.#explanations.run({
          workers: 1,
          reconcile: (key) => this.#explain(key, signal),
          signal,
          log: this.#log,
        }),
        this.#removals.run({
          workers: removalsAtOnce,
          reconcile: (key) => this.#remove(key),
          signal,
          log: this.#log,
        }),
      ]);
    } finally {
      for (const stop of unsubscribe) stop();
    }
  }

  #podChanged(type: 'Added' | 'Updated' | 'Deleted', pod: Pod): void {
    const uid = pod.metadata.uid ?? '';
    if (type === 'Deleted') this.#leaving.delete(uid);
    for (const { metadata } of this.#cluster.evacuations.byIndex(byPodUid, uid)) {
      const key = `${metadata.namespace}/${metadata.name}`;
      if (type === 'Deleted') this.#gone.set(uid, Date.now());
      if (type === 'Deleted' || pod.metadata.deletionTimestamp !== undefined) this.#gate.settled(key);
      this.#evictions.add(key);
    }
  }

  /** Takes an Evacuation one step further. */
  async #advance(key: string): Promise<Outcome> {
    const evacuation = this.#cluster.evacuations.get(key);
    if (evacuation === undefined) return undefined;
    const pod = this.#podOf(evacuation);
    if (pod === undefined) {
      this.#removals.add(key);
      return undefined;
    }
    if (isWithdrawn(evacuation)) {
      this.#gate.settled(key);
      return undefined;
    }
    if (pod.metadata.deletionTimestamp !== undefined) return this.#awaitTermination(key, evacuation, pod);
    if (this.#evicted.has(pod.metadata.uid ?? '')) return undefined;
    const step = await this.#turns.advance(evacuation, pod);
    if (step.kind === 'Evict') return this.#evict(key, evacuation, pod);
    this.#gate.settled(key);
    return step.forMs === undefined ? undefined : { requeueAfterMs: step.forMs };
  }

  async #evict(key: string, evacuation: Evacuation, pod: Pod): Promise<Outcome> {
    const answer = this.#gate.ask(key, pod);
    if (answer.kind === 'Wait') {
      if (!needsAPerson(answer.blocker)) {
        this.#explanations.add(key);
        return undefined;
      }
      await this.#describe(key, evacuation, { message: answer.message }, answer.blocker);
      return { requeueAfterMs: messageEvery };
    }
    const outcome = await this.#ask(key, pod);
    switch (outcome.kind) {
      case 'Evicted':
        this.#gate.accepted(key);
        this.#evicted.add(pod.metadata.uid ?? '');
        this.#leaving.add(pod.metadata.uid ?? '');
        this.#lastEviction = Date.now();
        this.#announceEviction(evacuation, pod);
        return undefined;
      case 'Gone':
        this.#gate.settled(key);
        this.#removals.add(key);
        return undefined;
      case 'Refused':
        this.#gate.refused(key, pod);
        await this.#countRefusal(key, evacuation, outcome.message);
        return undefined;
      case 'Misconfigured':
        this.#gate.settled(key);
        await this.#describeRefusal(key, evacuation, outcome.message);
        return { requeueAfterMs: backOffMs(evacuation.status?.failedEvictionCounter ?? 0, refusalRetry) };
      default:
        return assertNever(outcome);
    }
  }

  /** Whoever waits behind it at the gate need not wait for its next try. */
  #giveWay(key: string, error: unknown): never {
    this.#gate.settled(key);
    throw error;
  }

  /** Says what a pod waits for. It may soon be over, or not for 1,000 pods, so it is said at a leisurely pace. */
  async #explain(key: string, signal: AbortSignal): Promise<Outcome> {
    const evacuation = this.#cluster.evacuations.get(key);
    const waiting = this.#gate.reasonOf(key);
    if (evacuation === undefined || waiting === undefined) return undefined;
    const isSaid = await this.#describe(key, evacuation, { message: waiting.message }, waiting.blocker);
    const distance = Math.max(explanationEvery, this.#explanations.length * explanationPerWaiting);
    if (isSaid) await rest(distance, signal);
    return { requeueAfterMs: messageEvery };
  }

  #announceEviction(evacuation: Evacuation, pod: Pod): void {
    const message = `Evicted from node ${pod.spec.nodeName} for ${this.#turns.accountOf(evacuation, pod)}.`;
    this.#events.record(aboutPod(pod), { type: 'Normal', reason: 'Evicted', message, related: evacuation });
  }

  async #ask(key: string, pod: Pod): Promise<EvictionOutcome> {
    const { name, namespace = '', uid = '' } = pod.metadata;
    try {
      return await this.#cluster.kube.evict({ namespace, name, uid });
    } catch (error) {
      this.#gate.settled(key);
      if (!isRefusal(error)) throw error;
      return { kind: 'Misconfigured', message: `The eviction is refused: ${error.apiMessage}` };
    }
  }

  async #describeRefusal(key: string, evacuation: Evacuation, message: string): Promise<void> {
    const failedEvictionCounter = (evacuation.status?.failedEvictionCounter ?? 0) + 1;
    this.#described.delete(key);
    const blocker = { reason: BlockerReason.EvictionRefused, message };
    await this.#describe(key, evacuation, { message, failedEvictionCounter }, blocker);
  }

  async #countRefusal(key: string, evacuation: Evacuation, message: string): Promise<void> {
    const failedEvictionCounter = (evacuation.status?.failedEvictionCounter ?? 0) + 1;
    this.#described.delete(key);
    const blocker = {
      reason: BlockerReason.DisruptionBudget,
      message: `The eviction is refused: ${message}`,
    };
    await this.#describe(key, evacuation, { message, failedEvictionCounter }, blocker);
  }

  /** A pod with a long grace period says so, once, and so does any that stays beyond its own. */
  async #awaitTermination(key: string, evacuation: Evacuation, pod: Pod): Promise<Outcome> {
    this.#gate.settled(key);
    const now = this.#cluster.kube.now();
    const leavesAt = Date.parse(pod.metadata.deletionTimestamp ?? '');
    const grace = (pod.metadata.deletionGracePeriodSeconds ?? 0) * 1_000;
    const notice = grace > terminatingNotice ? leavesAt - grace + terminatingNotice : leavesAt + lateness + 1;
    // Whatever held the pod up until now is out of date.
    const isOutdated = reportedBlocker(evacuation.status) !== undefined;
    if (now.getTime() < notice && !isOutdated) return { requeueAfterMs: notice - now.getTime() };
    this.#described.delete(key);
    const stuck = stuckTerminating(pod, now);
    // An evacuator that ended the pod has said so in its own words.
    const message =
      evacuation.status?.activeEvacuatorClass === undefined
        ? `The pod is terminating, until ${pod.metadata.deletionTimestamp} at the latest by its grace period.`
        : evacuation.status.message;
    await this.#describe(key, evacuation, { message: stuck?.message ?? message }, stuck);
    return stuck === undefined ? { requeueAfterMs: leavesAt + lateness - now.getTime() + 1 } : undefined;
  }

  /** Writes the message, and the condition that tells machines whether anything blocks; false when that is not due. */
  async #describe(
    key: string,
    { metadata, status }: Evacuation,
    next: Partial<EvacuationStatus>,
    blocker?: Blocker,
  ): Promise<boolean> {
    const isSameReason = reportedBlocker(status)?.reason === blocker?.reason;
    const isSame = isSameReason && status?.message === next.message;
    if (isSame && next.failedEvictionCounter === undefined) return false;
    const { name, namespace = '', uid, resourceVersion } = metadata;
    const described = this.#described.get(key);
    const isRecent = described !== undefined && Date.now() - described.at < messageEvery;
    // The informer does not show yet what was written: when it does, the Evacuation is looked at again.
    const isUnseen = described?.on === resourceVersion;
    if (isRecent && (isSameReason || isUnseen)) return false;
    this.#described.set(key, { at: Date.now(), on: resourceVersion });
    const conditions = blockedConditions(status?.conditions ?? [], blocker, this.#cluster.kube.now());
    const patch = { metadata: { uid }, status: { ...next, conditions } };
    await this.#cluster.kube
      .mergePatch(resources.evacuations, { namespace, name }, patch, {
        subresource: 'status',
        fieldManager: FIELD_MANAGER,
      })
      .catch((error: unknown) => {
        this.#described.delete(key);
        ignoreIfOutdated(error);
      });
    return true;
  }

  /** Removes an Evacuation whose pod is gone: first our instigator finalizer, then the object; others finish in their time. */
  async #remove(key: string): Promise<Outcome> {
    const evacuation = this.#cluster.evacuations.get(key);
    if (evacuation === undefined || this.#podOf(evacuation) !== undefined) return undefined;
    if (this.#removed.has(evacuation.metadata.uid ?? '')) return undefined;
    const { uid: podUid } = evacuation.spec.podRef;
    const goneSince = this.#gone.get(podUid);
    if (this.#isEvicting() && Date.now() - (goneSince ?? 0) < removalPatience)
      return { requeueAfterMs: removalRetry };
    // What our informer never saw go may just not have been seen yet.
    if (goneSince === undefined && (await this.#exists(evacuation))) return { requeueAfterMs: removalRetry };
    await this.#release(evacuation);
    return undefined;
  }

  #isEvicting(): boolean {
    const isSettling = this.#leaving.size > 0 && Date.now() - this.#lastEviction < evictionSettles;
    return isSettling || this.#evictions.length > 0;
  }

  async #release(evacuation: Evacuation): Promise<void> {
    const { kube } = this.#cluster;
    const { name, namespace = '', uid = '', resourceVersion } = evacuation.metadata;
    const { finalizers = [], deletionTimestamp } = evacuation.metadata;
    const foreign = finalizers.filter((finalizer) => finalizer !== INSTIGATOR_FINALIZER);
    try {
      // Nothing is left to cancel. As long as it is forbidden, a policy in the apiserver refuses the deletion.
      if (evacuation.status?.evacuationCancellationPolicy === 'Forbid')
        return await this.#allowCancellation(evacuation);
      if (foreign.length < finalizers.length) {
        const patch = { metadata: { uid, resourceVersion, finalizers: foreign } };
        await kube.mergePatch(resources.evacuations, { namespace, name }, patch, {
          fieldManager: FIELD_MANAGER,
        });
      }
      if (deletionTimestamp === undefined)
        await kube.delete(resources.evacuations, { namespace, name }, { uid });
      this.#removed.add(uid);
    } catch (error) {
      ignoreIfOutdated(error);
    }
  }

  async #allowCancellation({ metadata: { name, namespace = '', uid } }: Evacuation): Promise<void> {
    const patch = { metadata: { uid }, status: { evacuationCancellationPolicy: 'Allow' } };
    await this.#cluster.kube.mergePatch(resources.evacuations, { namespace, name }, patch, {
      subresource: 'status',
      fieldManager: FIELD_MANAGER,
    });
  }

  async #exists({ metadata, spec }: Evacuation): Promise<boolean> {
    const namespace = metadata.namespace ?? '';
    const pod = await this.#cluster.kube.get(resources.pods, { namespace, name: spec.podRef.name });
    return pod?.metadata.uid === spec.podRef.uid;
  }

  #podOf({ metadata, spec }: Evacuation): Pod | undefined {
    const pod = this.#cluster.pods.get(`${metadata.namespace}/${spec.podRef.name}`);
    return pod !== undefined && isFor(spec.podRef, pod) ? pod : undefined;
  }

  #forget(key: string, { metadata, spec }: Evacuation): void {
    this.#described.delete(key);
    this.#turns.forget({ metadata, spec });
    this.#gate.settled(key);
    this.#evicted.delete(spec.podRef.uid);
    // Seen to go before the eviction was answered.
    this.#leaving.delete(spec.podRef.uid);
    this.#gone.delete(spec.podRef.uid);
    this.#removed.delete(metadata.uid ?? '');
  }
}

function byAge({ metadata: a }: Evacuation, { metadata: b }: Evacuation): number {
  return compareNames(a.creationTimestamp ?? '', b.creationTimestamp ?? '');
}

function assertNever(value: never): never {
  throw new Error(`unexpected ${JSON.stringify(value)}`);
}
