import type { Pod } from '../../api/core.ts';
import type { EvictionRequest, LifecycleEviction } from '../../api/lifecycle.ts';
import { FIELD_MANAGER } from '../../api/names.ts';
import { assertNever } from '../../domain/common/assertNever.ts';
import { isFinished } from '../../domain/common/pod.ts';
import type { EvictionEnd } from '../../domain/evictionRequests/conditions.ts';
import { isFinal } from '../../domain/evacuation/evictionRequest.ts';
import {
  type EvictionSnapshot,
  lifecycleEvictionName,
  nextStep,
  type Step,
} from '../../domain/evictionRequests/decide.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import { isKubeError } from '../../kube/errors.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { trimPod } from '../../kube/transform.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';
import { EvictionEvents } from './evictionEvents.ts';
import { byTarget, type EvictionView, podKey, targetKey } from './evictionView.ts';
import type { OtherControllers } from './otherControllers.ts';

interface Deps {
  readonly cluster: Pick<FencedCluster, 'kube' | 'pods' | 'queues'>;
  readonly view: EvictionView;
  readonly others: OtherControllers;
  readonly events: EventRecorder;
  readonly log: Log;
  /** When this process began to lead, by the clock of the apiserver. */
  readonly startedAt: Date;
  /** Called for each Eviction that becomes final. */
  readonly onEnd?: ((end: EvictionEnd) => void) | undefined;
}

/** Number of pods whose evictions are reconciled in parallel. */
const workers = 24;
/** Number of requests of one pod that are read in parallel: anyone who may create them in a namespace decides how many there are. */
const concurrentReads = 16;
/** More writes in a row than a pod has requesters mean that the apiserver stores something else than what was decided. */
const maxSteps = 500;
/** Upper limit of a wait, so that an adjustment of the clock takes effect. */
const maxWaitMs = 60_000;

/**
 * Turns EvictionRequests into Evictions, one for each pod, and leads each through its responders (KEP-4563 > EvictionRequest Controller). All state
 * is in the objects. Every write carries the resourceVersion that it was decided from, so that it never overwrites the report of a responder.
 */
export class EvictionRequestController {
  readonly #deps: Deps;
  readonly #queue = new WorkQueue('eviction-requests');
  readonly #events: EvictionEvents;
  /** Key of a target -> when it was first observed that the pod has left. */
  readonly #leftAt = new Map<string, Date>();
  /** Keys of targets whose pods were observed to be deleted. */
  readonly #deleted = new Set<string>();

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#events = new EvictionEvents(deps);
  }

  async run(signal: AbortSignal): Promise<void> {
    const { cluster, view, log } = this.#deps;
    const changed = ({ object }: { object: EvictionRequest | LifecycleEviction }) => {
      const key = targetKey(object);
      if (this.#isKnown(key)) this.#queue.add(key);
      else this.#forget(key);
    };
    const unsubscribe = [
      view.requests.subscribe(changed),
      view.evictions.subscribe(changed),
      cluster.pods.subscribe(({ type, object }) => this.#podChanged(type, object)),
    ];
    const reconcile = (key: string) => this.#reconcile(key);
    try {
      await this.#queue.run({ workers, reconcile, signal, log, observer: cluster.queues });
    } finally {
      for (const stop of unsubscribe) stop();
    }
  }

  #isKnown(key: string): boolean {
    const { requests, evictions } = this.#deps.view;
    return [requests, evictions].some((informer) => informer.byIndex(byTarget, key).length > 0);
  }

  #forget(key: string): void {
    this.#leftAt.delete(key);
    this.#deleted.delete(key);
  }

  #podChanged(type: 'Added' | 'Updated' | 'Deleted', pod: Pod): void {
    const key = podKey(pod);
    if (!this.#isKnown(key)) return;
    if (type === 'Deleted') this.#deleted.add(key);
    this.#queue.add(key);
  }

  async #reconcile(key: string): Promise<Requeue | 'BackOff' | undefined> {
    try {
      return await this.#advance(key);
    } catch (error) {
      // The local copy is older than the object, or another object of that name exists: the watch brings the newer state.
      if (isKubeError(error, 'Conflict', 'NotFound', 'AlreadyExists')) return 'BackOff';
      throw error;
    }
  }

  /** Takes one step after the other, each decided from the result of the one before. */
  async #advance(key: string): Promise<Requeue | undefined> {
    let snapshot = await this.#observe(key);
    let isConfirmed = false;
    for (let steps = 0; snapshot !== undefined && !this.#deps.others.hasController; steps++) {
      if (steps === maxSteps) throw new Error(`no end after ${maxSteps} writes`);
      const step = nextStep(snapshot);
      if (step.kind === 'Wait') return waitOf(step, snapshot.now);
      if (step.kind === 'CreateEviction' && snapshot.evictions.length > 0 && !isConfirmed) {
        snapshot = await this.#confirmed(snapshot);
        isConfirmed = true;
        continue;
      }
      snapshot = await this.#perform(step, snapshot);
    }
    return undefined;
  }

  /** Returns everything about the target; undefined when nothing is left of it. */
  async #observe(key: string): Promise<EvictionSnapshot | undefined> {
    const { cluster, view } = this.#deps;
    const requests = view.requests.byIndex(byTarget, key);
    const evictions = view.evictions.byIndex(byTarget, key);
    if (requests.length === 0 && evictions.length === 0) return undefined;
    const [namespace = '', name = '', uid = ''] = key.split('/');
    const isSettled = requests.every(isObserved) && [...requests, ...evictions].every(isFinal);
    const pod = await this.#podOf({ namespace, name, uid }, isSettled);
    const hasLeft = pod === undefined || isFinished(pod);
    const now = cluster.kube.now();
    if (!hasLeft) this.#leftAt.delete(key);
    else if (!this.#leftAt.has(key)) this.#leftAt.set(key, now);
    return {
      namespace,
      target: { name, uid },
      requests,
      evictions,
      pod,
      leftAt: this.#leftAt.get(key),
      startedAt: this.#deps.startedAt,
      freeName: this.#freeName(namespace, name),
      now,
    };
  }

  /** Reads a pod that the informer does not have from the apiserver: the informer may be late, and a pod that is gone ends the eviction. */
  async #podOf(
    { namespace, name, uid }: { namespace: string; name: string; uid: string },
    isSettled: boolean,
  ): Promise<Pod | undefined> {
    const { kube, pods } = this.#deps.cluster;
    const observed = pods.get(`${namespace}/${name}`);
    if (observed?.metadata.uid === uid) return observed;
    if (isSettled || this.#deleted.has(`${namespace}/${name}/${uid}`)) return undefined;
    const read = await kube.get(resources.pods, { namespace, name });
    return read?.metadata.uid === uid ? trimPod(read) : undefined;
  }

  #freeName(namespace: string, pod: string): string {
    const { evictions } = this.#deps.view;
    for (let n = 1; ; n++) {
      const name = lifecycleEvictionName(n, pod);
      if (evictions.get(`${namespace}/${name}`) === undefined) return name;
    }
  }

  /** Reads the requests again: a late informer must not show a settled request as a new one, for which a pod would be evicted again. */
  async #confirmed(snapshot: EvictionSnapshot): Promise<EvictionSnapshot> {
    const { kube } = this.#deps.cluster;
    const read: EvictionRequest[] = [];
    await forEachBounded(concurrentReads, snapshot.requests, async ({ metadata: { namespace, name } }) => {
      const request = await kube.get(resources.evictionRequests, { namespace, name });
      if (request !== undefined) read.push(request);
    });
    const uids = new Set(snapshot.requests.map(({ metadata }) => metadata.uid));
    const requests = read.filter(({ metadata }) => uids.has(metadata.uid));
    return { ...snapshot, requests };
  }

  async #perform(
    step: Exclude<Step, { kind: 'Wait' }>,
    snapshot: EvictionSnapshot,
  ): Promise<EvictionSnapshot> {
    const { kube } = this.#deps.cluster;
    const { onEnd } = this.#deps;
    switch (step.kind) {
      case 'CreateEviction': {
        const created = await kube.create(resources.evictions, step.eviction, {
          fieldManager: FIELD_MANAGER,
        });
        return { ...snapshot, evictions: [...snapshot.evictions, created] };
      }
      case 'UpdateMetadata': {
        const { labels, ownerReferences } = step;
        const { metadata } = step.eviction;
        const patch = { metadata: { ...versionOf(step.eviction), labels, ownerReferences } };
        const changed = await kube.mergePatch(resources.evictions, keyOf(metadata), patch, {
          fieldManager: FIELD_MANAGER,
        });
        return withEviction(snapshot, changed);
      }
      case 'UpdateEviction': {
        const patch = { metadata: versionOf(step.eviction), status: step.status };
        const changed = await kube.mergePatch(resources.evictions, keyOf(step.eviction.metadata), patch, {
          subresource: 'status',
          fieldManager: FIELD_MANAGER,
        });
        const end = this.#events.record(step.eviction, changed, snapshot.pod);
        if (end !== undefined) onEnd?.(end);
        return withEviction(snapshot, changed);
      }
      case 'UpdateRequest': {
        const patch = { metadata: versionOf(step.request), status: step.status };
        const changed = await kube.mergePatch(
          resources.evictionRequests,
          keyOf(step.request.metadata),
          patch,
          { subresource: 'status', fieldManager: FIELD_MANAGER },
        );
        this.#events.recordRequest(step.request, changed);
        return {
          ...snapshot,
          requests: snapshot.requests.map((one) => (isSame(one, changed) ? changed : one)),
        };
      }
      default:
        return assertNever(step);
    }
  }
}

/** Reports whether the status of a request is about its current intent. */
function isObserved({ metadata, status }: EvictionRequest): boolean {
  return status?.observedGeneration === metadata.generation;
}

function waitOf({ untilMs }: { untilMs?: number }, now: Date): Requeue | undefined {
  if (untilMs === undefined) return undefined;
  return { requeueAfterMs: Math.min(Math.max(untilMs - now.getTime(), 0) + 1, maxWaitMs) };
}

function keyOf({ namespace, name }: LifecycleEviction['metadata']) {
  return { namespace, name };
}

function versionOf({ metadata: { uid, resourceVersion } }: EvictionRequest | LifecycleEviction) {
  return { uid, resourceVersion };
}

function isSame(a: EvictionRequest | LifecycleEviction, b: EvictionRequest | LifecycleEviction): boolean {
  return a.metadata.uid === b.metadata.uid;
}

function withEviction(snapshot: EvictionSnapshot, changed: LifecycleEviction): EvictionSnapshot {
  return { ...snapshot, evictions: snapshot.evictions.map((one) => (isSame(one, changed) ? changed : one)) };
}
