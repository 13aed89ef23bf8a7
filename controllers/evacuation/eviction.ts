import type { Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { assertNever } from '../../domain/common/assertNever.ts';
import { type Blocker, BlockerReason, requiresIntervention } from '../../domain/evacuation/blocker.ts';
import { backOffMs } from '../../kube/backOff.ts';
import type { EvictionOutcome } from '../../kube/client.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import { isRejection } from '../../kube/errors.ts';
import { keyOf } from '../../kube/store.ts';
import type { Requeue } from '../../kube/workQueue.ts';
import { inSpanOf } from '../traces.ts';
import type { EvictionQueue, Waiting } from './evictionQueue.ts';
import { Evictor } from './evictor.ts';
import { podOf } from './podOf.ts';
import { RecentEvictions, recreatedRetryMs } from './recentEvictions.ts';
import { messageIntervalMs, type StatusMessages } from './statusMessages.ts';

interface Deps {
  cluster: FencedCluster;
  queue: EvictionQueue;
  messages: StatusMessages;
  /** Returns the maintenances that drain the node of the pod. */
  maintenancesOf: (pod: Pod) => readonly NodeMaintenance[];
  /** Called when the apiserver has accepted an eviction. */
  onEvicted: (evacuation: Evacuation, pod: Pod, maintenances: readonly NodeMaintenance[]) => void;
}

/** The control plane is assumed to need this long after an eviction to terminate and replace the pod. */
const settleMs = 5_000;
/**
 * Back-off for evictions rejected for any reason other than a PodDisruptionBudget that the queue knows: a webhook that restarts is back within seconds.
 */
const rejectedBackOff = { firstMs: 2_000, capMs: 60_000 };

/** Evicts pods through the eviction API, by UID, as the EvictionQueue admits them. */
export class PodEviction {
  readonly #deps: Deps;
  readonly #evictor: Evictor;
  /** UIDs of pods whose eviction the apiserver accepted, until their Evacuations are gone. */
  readonly #evicted = new Set<string>();
  /** The evicted pods that still exist. */
  readonly #terminating = new Set<string>();
  /** UIDs of pods whose eviction was rejected, but not by a known budget: each report of it starts another reconcile. */
  readonly #rejected = new Map<string, { count: number; retryAtMs: number }>();
  readonly #recent = new RecentEvictions();
  #lastEvictionAtMs = 0;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#evictor = new Evictor(deps.cluster.kube);
  }

  /** Evicts the pod if the queue admits it. Returns 'Gone' when the pod no longer exists. */
  async evict(evacuation: Evacuation, pod: Pod): Promise<Requeue | 'Gone' | undefined> {
    const { queue } = this.#deps;
    const key = keyOf(evacuation);
    const retryInMs = this.#retryInMs(pod);
    if (retryInMs > 0) return { requeueAfterMs: retryInMs };
    const recreated = this.#rejected.has(pod.metadata.uid ?? '') ? undefined : this.#recent.blockerOf(pod);
    if (recreated !== undefined) return this.#postpone(evacuation, pod, recreated);
    const admission = queue.admit(key, pod);
    if (admission.kind === 'Waiting') return this.#reportWaiting(evacuation, admission);
    const maintenances = this.#deps.maintenancesOf(pod);
    const requestedAt = this.#deps.cluster.kube.now();
    const outcome = await this.#request(evacuation, pod, maintenances);
    switch (outcome.kind) {
      case 'Evicted':
        queue.accepted(key);
        this.#recent.record(pod, requestedAt);
        this.#recordEvicted(evacuation, pod, maintenances);
        return undefined;
      case 'Gone':
        queue.done(key);
        return 'Gone';
      case 'Rejected': {
        const isWoken = queue.rejected(key, pod);
        if (!isWoken) this.#backOff(pod);
        const message = `The apiserver rejected the eviction: ${outcome.message}`;
        await this.#reportRejected(evacuation, { reason: BlockerReason.DisruptionBudget, message });
        return isWoken ? undefined : { requeueAfterMs: this.#retryInMs(pod) };
      }
      case 'Misconfigured':
        queue.done(key);
        this.#backOff(pod);
        await this.#reportRejected(evacuation, {
          reason: BlockerReason.EvictionRejected,
          message: outcome.message,
        });
        return { requeueAfterMs: this.#retryInMs(pod) };
      default:
        return assertNever(outcome);
    }
  }

  /** Reports whether the apiserver has accepted an eviction of the pod, since this process leads. */
  wasEvicted(podUid: string): boolean {
    return this.#evicted.has(podUid);
  }

  /** Reports whether the control plane is still busy with evicted pods. */
  isSettling(): boolean {
    return this.#terminating.size > 0 && Date.now() - this.#lastEvictionAtMs < settleMs;
  }

  podDeleted(podUid: string): void {
    this.#terminating.delete(podUid);
  }

  forget(podUid: string): void {
    this.#evicted.delete(podUid);
    this.#terminating.delete(podUid);
    this.#rejected.delete(podUid);
    this.#evictor.forget(podUid);
  }

  /** Evicts the pod once more later: what puts it back may have been changed by then. */
  async #postpone(evacuation: Evacuation, pod: Pod, blocker: Blocker): Promise<Requeue> {
    this.#deps.queue.done(keyOf(evacuation));
    const retryAtMs = performance.now() + recreatedRetryMs;
    this.#rejected.set(pod.metadata.uid ?? '', { count: 0, retryAtMs });
    await this.#deps.messages.write(evacuation, { message: blocker.message }, blocker);
    return { requeueAfterMs: recreatedRetryMs };
  }

  #backOff({ metadata: { uid = '' } }: Pod): void {
    const { count } = this.#rejected.get(uid) ?? { count: 0 };
    const retryAtMs = performance.now() + backOffMs(count, rejectedBackOff);
    this.#rejected.set(uid, { count: count + 1, retryAtMs });
  }

  /** Returns the time until the eviction may be tried again; at most 0 if it may be now. */
  #retryInMs({ metadata: { uid = '' } }: Pod): number {
    return (this.#rejected.get(uid)?.retryAtMs ?? 0) - performance.now();
  }

  async #request(
    evacuation: Evacuation,
    pod: Pod,
    maintenances: readonly NodeMaintenance[],
  ): Promise<EvictionOutcome> {
    const { queue, cluster } = this.#deps;
    const facts = {
      requestedAt: evacuation.metadata.creationTimestamp,
      isCurrent: cluster.isFollowing(),
    };
    const { name, namespace = '', uid = '' } = pod.metadata;
    const attributes = {
      'k8s.namespace.name': namespace,
      'k8s.pod.name': name,
      'k8s.pod.uid': uid,
      'k8s.node.name': pod.spec.nodeName ?? '',
    };
    try {
      return await inSpanOf(maintenances, { name: 'Evict pod', attributes }, () =>
        this.#evictor.evict({ namespace, name, uid }, facts),
      );
    } catch (error) {
      queue.done(keyOf(evacuation));
      if (!isRejection(error)) throw error;
      return { kind: 'Misconfigured', message: `The apiserver rejected the eviction: ${error.apiMessage}` };
    }
  }

  #recordEvicted(evacuation: Evacuation, pod: Pod, maintenances: readonly NodeMaintenance[]): void {
    const { uid = '' } = pod.metadata;
    this.#evicted.add(uid);
    // The informer may have shown that the pod is gone before the response to the eviction arrived.
    if (podOf(this.#deps.cluster, evacuation) !== undefined) this.#terminating.add(uid);
    this.#lastEvictionAtMs = Date.now();
    this.#deps.onEvicted(evacuation, pod, maintenances);
  }

  /** Reports what the eviction waits for: at once if an operator must act, otherwise at a limited rate. */
  async #reportWaiting(evacuation: Evacuation, { message, blocker }: Waiting): Promise<Requeue | undefined> {
    const { messages } = this.#deps;
    if (!requiresIntervention(blocker)) {
      messages.enqueueWaiting(keyOf(evacuation));
      return undefined;
    }
    await messages.writeIfDue(evacuation, { message }, blocker);
    return { requeueAfterMs: messageIntervalMs };
  }

  async #reportRejected(evacuation: Evacuation, blocker: Blocker): Promise<void> {
    const failedEvictionCounter = (evacuation.status?.failedEvictionCounter ?? 0) + 1;
    const status = { message: blocker.message, failedEvictionCounter };
    await this.#deps.messages.write(evacuation, status, blocker);
  }
}
