import type { Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import type { LifecycleEviction, ResponderStatus } from '../../api/lifecycle.ts';
import {
  EVICTION_ANNOTATION,
  FIELD_MANAGER,
  IMPERATIVE_RESPONDER,
  RESPONDER_HEARTBEAT_DEADLINE_SECONDS,
} from '../../api/names.ts';
import { assertNever } from '../../domain/common/assertNever.ts';
import { isOfPod, replacementName } from '../../domain/evacuation/evacuation.ts';
import { evacuationOf } from '../../domain/evacuation/evacuatorSelection.ts';
import { hasFailed } from '../../domain/evictionRequests/conditions.ts';
import {
  type ImperativeStep,
  imperativeStep,
  isAboutToBeCancelled,
} from '../../domain/evictionRequests/imperative.ts';
import { activeRequesters } from '../../domain/evictionRequests/participants.ts';
import { assignmentOf, withCompletion } from '../../domain/evictionRequests/report.ts';
import { backOffMs } from '../../kube/backOff.ts';
import type { EvictionOutcome } from '../../kube/client.ts';
import { byPodUid, type FencedCluster } from '../../kube/cluster.ts';
import { isKubeError, isRejection } from '../../kube/errors.ts';
import { aboutPod, type EventRecorder } from '../../kube/events.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { keyOf } from '../../kube/store.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';
import { isOtherDrain } from '../drainChange.ts';
import type { EvictionQueue, EvictionSlots } from '../evacuation/evictionQueue.ts';
import { Evictor } from '../evacuation/evictor.ts';
import { RecentEvictions, recreatedRetryMs } from '../evacuation/recentEvictions.ts';
import { byTarget, type EvictionView, podKey, targetKey } from './evictionView.ts';
import type { OtherControllers } from './otherControllers.ts';
import { heartbeat, writeResponder } from './responderStatus.ts';

interface Deps {
  readonly cluster: Pick<
    FencedCluster,
    'kube' | 'nodes' | 'pods' | 'maintenances' | 'evacuations' | 'queues' | 'isFollowing'
  >;
  readonly view: EvictionView;
  readonly others: OtherControllers;
  /** The queue of the controller of Evacuations. */
  readonly queue: EvictionQueue;
  readonly events: EventRecorder;
  readonly log: Log;
}

/** The Eviction and what the responder has reported in it. */
interface Assignment {
  readonly key: string;
  readonly eviction: LifecycleEviction;
  readonly status: ResponderStatus;
  readonly pod: Pod | undefined;
}

const workers = 24;
/** "with exponential backoff to about 15 min" (KEP-4563): for evictions that are rejected for another reason than a budget. */
const rejectedBackOff = { firstMs: 30_000, capMs: 900_000 };
/** A pod that is evicted is usually gone before a heartbeat says that it terminates. */
const terminationReportMs = 20_000;
/** Longest time between two checks of an Eviction. */
const maxIntervalMs = 60_000;
/** Delay before the next check of an object that exists, and that the informer does not show yet. */
const retryMs = 1_000;
/** No name of a namespace contains a colon. */
const prefix = 'eviction:';

/**
 * The responder imperative-eviction.k8s.io/evictor: evicts the pods of Evictions through the eviction API, by UID, as the queues of their
 * PodDisruptionBudgets admit them. It never overrides a budget. It leaves pods of DaemonSets and static pods where they are.
 */
export class ImperativeResponder {
  readonly #deps: Deps;
  readonly #queue = new WorkQueue('imperative-responder');
  readonly #slots: EvictionSlots;
  /** Keys of Evictions whose maintenances were cancelled: they continue only if another maintenance drains the node. */
  readonly #cancelled = new Set<string>();
  /** UIDs of pods whose eviction the apiserver has accepted. */
  readonly #evicted = new Set<string>();
  readonly #evictor: Evictor;
  readonly #recent = new RecentEvictions();
  /** Targets of Evictions that the informer has shown, and that are deleted. */
  readonly #deleted = new Set<string>();
  /** Key of an Eviction -> the Evacuation that was created for it, and for which Eviction of that name. */
  readonly #evacuations = new Map<string, { key: string; evictionUid: string }>();
  /** UID of a pod -> rejections in a row, and when to try again. */
  readonly #rejected = new Map<string, { count: number; retryAtMs: number; message: string }>();

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#evictor = new Evictor(deps.cluster.kube);
    this.#slots = deps.queue.scoped(prefix, (key) => this.#queue.add(key));
  }

  async run(signal: AbortSignal): Promise<void> {
    const { cluster, view, log } = this.#deps;
    const unsubscribe = [
      view.evictions.subscribe(({ type, key, object }) => {
        if (type === 'Deleted') this.#forget(key, object);
        this.#queue.add(key);
      }),
      cluster.pods.subscribe(({ type, object }) => this.#podChanged(type, object)),
      cluster.maintenances.subscribe((change) => {
        for (const key of this.#cancelled) this.#queue.add(key);
        // One that was cancelled a moment ago is not known yet.
        if (isOtherDrain(change)) for (const key of this.#evacuations.keys()) this.#queue.add(key);
      }),
      cluster.evacuations.subscribe(({ type, key, object }) => {
        this.#evacuationChanged(type, key, object);
        const pod = cluster.pods.get(`${object.metadata.namespace}/${object.spec.podRef.name}`);
        if (pod !== undefined) this.#enqueueEvictionsOf(pod);
      }),
    ];
    try {
      await this.#queue.run({
        workers,
        reconcile: (key) => this.#reconcile(key),
        signal,
        log,
        observer: cluster.queues,
      });
    } finally {
      for (const stop of unsubscribe) stop();
    }
  }

  #evacuationChanged(type: string, key: string, { metadata }: Evacuation): void {
    const [name, uid] = metadata.annotations?.[EVICTION_ANNOTATION]?.split('/') ?? [];
    if (name === undefined || uid === undefined) return;
    const eviction = `${metadata.namespace}/${name}`;
    const isLeft = type !== 'Deleted' && metadata.deletionTimestamp === undefined;
    if (isLeft) this.#evacuations.set(eviction, { key, evictionUid: uid });
    // It may have been replaced while finalizers of others keep it.
    else if (this.#evacuations.get(eviction)?.key === key) this.#evacuations.delete(eviction);
    this.#queue.add(eviction);
  }

  #podChanged(type: string, pod: Pod): void {
    if (type === 'Deleted' && this.#evictionsOf(pod).length > 0) this.#deleted.add(podKey(pod));
    this.#enqueueEvictionsOf(pod);
  }

  #enqueueEvictionsOf(pod: Pod): void {
    for (const eviction of this.#evictionsOf(pod)) this.#queue.add(keyOf(eviction));
  }

  #evictionsOf(pod: Pod): readonly LifecycleEviction[] {
    return this.#deps.view.evictions.byIndex(byTarget, podKey(pod));
  }

  #forget(key: string, eviction: LifecycleEviction): void {
    const { uid } = eviction.spec.target.pod;
    this.#slots.done(key);
    this.#cancelled.delete(key);
    this.#evicted.delete(uid);
    this.#evictor.forget(uid);
    this.#rejected.delete(uid);
    this.#deleted.delete(targetKey(eviction));
  }

  async #reconcile(key: string): Promise<Requeue | 'BackOff' | undefined> {
    try {
      return await this.#respond(key);
    } catch (error) {
      this.#slots.done(key);
      if (isKubeError(error, 'Conflict', 'NotFound')) return 'BackOff';
      throw error;
    }
  }

  async #respond(key: string): Promise<Requeue | undefined> {
    const assignment = this.#assignmentOf(key);
    if (assignment === undefined) {
      this.#slots.done(key);
      await this.#withdraw(key);
      return undefined;
    }
    // The informer of pods may be behind that of Evictions.
    if (assignment.pod === undefined && (await this.#podExists(assignment)))
      return { requeueAfterMs: retryMs };
    const isCancelled = this.#isCancelled(assignment);
    if (isCancelled) await this.#cancelEvacuation(key);
    const step = this.#stepOf(assignment, isCancelled);
    const removesPod = step.kind === 'Evict' || step.kind === 'Evacuate';
    // Nobody can withdraw an Eviction, or report on it, while the apiserver does not serve the kind.
    const isOutdated = removesPod && !this.#deps.view.evictions.isFollowing;
    if (step.kind !== 'Evict' || isOutdated) this.#slots.done(key);
    if (isOutdated) return { requeueAfterMs: retryMs };
    switch (step.kind) {
      case 'Complete':
        await this.#complete(assignment, step.message);
        return undefined;
      case 'Report':
        return this.#report(assignment, step.message, step.againInMs);
      case 'Evacuate':
        return this.#evacuate(assignment, step);
      case 'Evict':
        return this.#evict(assignment, step.pod);
      default:
        return assertNever(step);
    }
  }

  #assignmentOf(key: string): Assignment | undefined {
    const { view, cluster, others } = this.#deps;
    const eviction = view.evictions.get(key);
    if (eviction === undefined || others.hasImperativeResponder) return undefined;
    const status = assignmentOf(eviction, IMPERATIVE_RESPONDER);
    if (status === undefined) return undefined;
    const { name, uid } = eviction.spec.target.pod;
    const pod = cluster.pods.get(`${eviction.metadata.namespace}/${name}`);
    return { key, eviction, status, pod: pod?.metadata.uid === uid ? pod : undefined };
  }

  /** Asks the apiserver, unless the informer has shown the deletion. */
  async #podExists({ eviction }: Assignment): Promise<boolean> {
    if (this.#deleted.has(targetKey(eviction))) return false;
    const { name, uid } = eviction.spec.target.pod;
    const { namespace } = eviction.metadata;
    const pod = await this.#deps.cluster.kube.get(resources.pods, { namespace, name });
    return pod?.metadata.uid === uid;
  }

  #isCancelled({ key, eviction, pod }: Assignment): boolean {
    const { nodes, maintenances } = this.#deps.cluster;
    const node = nodes.get(pod?.spec.nodeName ?? '');
    const isCancelled =
      node !== undefined &&
      isAboutToBeCancelled(eviction, node, maintenances.list(), this.#cancelled.has(key));
    if (isCancelled) this.#cancelled.add(key);
    else this.#cancelled.delete(key);
    return isCancelled;
  }

  #stepOf({ eviction, pod }: Assignment, isCancelled: boolean): ImperativeStep {
    const { evacuations, kube } = this.#deps.cluster;
    const { uid } = eviction.spec.target.pod;
    const ofPod = evacuations.byIndex(byPodUid, uid).filter((one) => pod !== undefined && isOfPod(one, pod));
    return imperativeStep({
      pod,
      wasEvicted: this.#evicted.has(uid),
      isCancelled,
      evacuations: ofPod,
      now: kube.now(),
    });
  }

  async #complete({ eviction, status }: Assignment, message: string): Promise<void> {
    const { kube } = this.#deps.cluster;
    await writeResponder(kube, eviction, withCompletion(status, { message, now: kube.now() }));
  }

  /** Reports what the eviction waits for. Returns when to check again. */
  async #report(
    { eviction, status }: Assignment,
    message: string,
    againInMs = maxIntervalMs,
  ): Promise<Requeue> {
    const { kube } = this.#deps.cluster;
    const report = { message, now: kube.now() };
    const delayMs = await heartbeat(kube, { eviction, status, report });
    return { requeueAfterMs: Math.min(delayMs ?? maxIntervalMs, againInMs) };
  }

  async #evacuate(assignment: Assignment, { pod, name }: { pod: Pod; name: string }): Promise<Requeue> {
    const { metadata: eviction } = assignment.eviction;
    const { metadata, spec } = evacuationOf(pod, RESPONDER_HEARTBEAT_DEADLINE_SECONDS);
    const annotations = { [EVICTION_ANNOTATION]: `${eviction.name}/${eviction.uid}` };
    const { kube, evacuations } = this.#deps.cluster;
    // Users who may create Evacuations may have given the name to that of another pod.
    const taken = evacuations.get(`${metadata.namespace}/${name}`);
    const freeName = taken === undefined ? name : replacementName(pod.metadata, taken.metadata);
    const evacuation = { metadata: { ...metadata, name: freeName, annotations }, spec };
    try {
      await kube.create(resources.evacuations, evacuation, { fieldManager: FIELD_MANAGER });
    } catch (error) {
      // The informer shows it in a moment.
      if (isKubeError(error, 'AlreadyExists')) return { requeueAfterMs: retryMs };
      if (!isRejection(error)) throw error;
      return this.#report(assignment, `The apiserver rejected its Evacuation: ${error.apiMessage}`);
    }
    return this.#report(assignment, 'The evacuators of the pod were asked to move it.');
  }

  /** Cancels the Evacuation that was created for an Eviction which is not ours any more. */
  async #withdraw(key: string): Promise<void> {
    const eviction = this.#deps.view.evictions.get(key);
    const created = this.#evacuations.get(key);
    // The pod is gone or about to be: the Evacuation is removed with it.
    if (eviction !== undefined && eviction.metadata.uid === created?.evictionUid && !hasFailed(eviction))
      return;
    await this.#cancelEvacuation(key);
  }

  /** Cancels the Evacuation that was created for an Eviction, unless others request it, too, or it may not be cancelled. */
  async #cancelEvacuation(key: string): Promise<void> {
    const { cluster } = this.#deps;
    const created = this.#evacuations.get(key);
    const evacuation = created && cluster.evacuations.get(created.key);
    if (evacuation === undefined) return;
    const {
      namespace,
      name,
      uid = '',
      resourceVersion,
      finalizers = [],
      deletionTimestamp,
    } = evacuation.metadata;
    if (finalizers.length > 0 || deletionTimestamp !== undefined || isForbidden(evacuation)) return;
    await cluster.kube.delete(resources.evacuations, { namespace, name }, { uid, resourceVersion });
  }

  async #evict(assignment: Assignment, pod: Pod): Promise<Requeue | undefined> {
    const { key } = assignment;
    const rejected = this.#rejected.get(pod.metadata.uid ?? '');
    const waitMs = (rejected?.retryAtMs ?? 0) - performance.now();
    if (rejected !== undefined && waitMs > 0) {
      const { requeueAfterMs } = await this.#report(assignment, rejected.message);
      return { requeueAfterMs: Math.min(requeueAfterMs, waitMs) };
    }
    const recreated = rejected === undefined ? this.#recent.blockerOf(pod) : undefined;
    if (recreated !== undefined) return this.#postpone(assignment, pod, recreated.message);
    const admission = this.#slots.admit(key, pod);
    if (admission.kind === 'Waiting') return this.#report(assignment, admission.message);
    const requestedAt = this.#deps.cluster.kube.now();
    const outcome = await this.#request(assignment, pod);
    if (outcome.kind === 'Evicted') this.#recent.record(pod, requestedAt);
    return this.#apply(assignment, pod, outcome);
  }

  /** Evicts the pod once more later: what puts it back may have been changed by then. */
  async #postpone(assignment: Assignment, pod: Pod, message: string): Promise<Requeue> {
    this.#slots.done(assignment.key);
    const retryAtMs = performance.now() + recreatedRetryMs;
    this.#rejected.set(pod.metadata.uid ?? '', { count: 0, retryAtMs, message });
    const { requeueAfterMs } = await this.#report(assignment, message);
    return { requeueAfterMs: Math.min(requeueAfterMs, recreatedRetryMs) };
  }

  /** A change of the budget wakes the responder, unless no budget is known. */
  #reportRejected(assignment: Assignment, pod: Pod, message: string): Promise<Requeue> {
    if (!this.#slots.rejected(assignment.key, pod)) this.#backOff(pod.metadata.uid ?? '', message);
    return this.#report(assignment, message);
  }

  #backOff(uid: string, message: string): void {
    const count = this.#rejected.get(uid)?.count ?? 0;
    const retryAtMs = performance.now() + backOffMs(count, rejectedBackOff);
    this.#rejected.set(uid, { count: count + 1, retryAtMs, message });
  }

  async #apply(assignment: Assignment, pod: Pod, outcome: EvictionOutcome): Promise<Requeue | undefined> {
    const { key, eviction } = assignment;
    const uid = pod.metadata.uid ?? '';
    switch (outcome.kind) {
      case 'Evicted':
        this.#slots.accepted(key);
        this.#evicted.add(uid);
        this.#rejected.delete(uid);
        this.#recordEvicted(eviction, pod);
        return { requeueAfterMs: terminationReportMs };
      case 'Gone':
        this.#slots.done(key);
        await this.#complete(assignment, 'The pod is gone.');
        return undefined;
      case 'Rejected':
        return this.#reportRejected(
          assignment,
          pod,
          `The apiserver rejected the eviction: ${outcome.message}`,
        );
      case 'Misconfigured':
        this.#slots.done(key);
        this.#backOff(uid, outcome.message);
        return this.#report(assignment, outcome.message);
      default:
        return assertNever(outcome);
    }
  }

  async #request({ eviction }: Assignment, { metadata }: Pod): Promise<EvictionOutcome> {
    const { namespace = '', name, uid = '' } = metadata;
    const isCurrent = this.#deps.cluster.isFollowing();
    const facts = { requestedAt: eviction.metadata.creationTimestamp, isCurrent };
    try {
      return await this.#evictor.evict({ namespace, name, uid }, facts);
    } catch (error) {
      if (!isRejection(error)) throw error;
      return { kind: 'Misconfigured', message: `The apiserver rejected the eviction: ${error.apiMessage}` };
    }
  }

  #recordEvicted(eviction: LifecycleEviction, pod: Pod): void {
    const names = activeRequesters(eviction).join(', ');
    const { nodeName: node } = pod.spec;
    this.#deps.events.record(aboutPod(pod), {
      type: 'Normal',
      reason: 'Evicted',
      message: `Evicted from node ${node} for ${names} (Eviction ${eviction.metadata.name}).`,
      node,
    });
  }
}

function isForbidden({ status }: Evacuation): boolean {
  return status?.evacuationCancellationPolicy === 'Forbid';
}
