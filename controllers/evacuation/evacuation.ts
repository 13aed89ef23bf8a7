import type { Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { compareNames } from '../../domain/common/names.ts';
import { podName } from '../../domain/common/pod.ts';
import {
  describeInstigators,
  isAboutToBeWithdrawn,
  isDrainCancelled,
  isOfPod,
  isWithdrawn,
} from '../../domain/evacuation/evacuation.ts';
import { type EvacuationOutcome, outcomeOf } from '../../domain/evacuation/outcome.ts';
import { byPodUid, type FencedCluster } from '../../kube/cluster.ts';
import { aboutPod, type EventRecorder } from '../../kube/events.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { keyOf } from '../../kube/store.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';
import { AutomaticRegistration } from './automaticRegistration.ts';
import { type CleanupTiming, defaultCleanupTiming, EvacuationCleanup } from './cleanup.ts';
import { EvacuatorHandover } from './evacuatorHandover.ts';
import { PodEviction } from './eviction.ts';
import { EvictionQueue } from './evictionQueue.ts';
import { defaultEvacuatorSettings, type EvacuatorSettings, KnownEvacuators } from './knownEvacuators.ts';
import { podOf } from './podOf.ts';
import { StatusMessages } from './statusMessages.ts';
import { defaultTerminationTiming, reportTermination, type TerminationTiming } from './termination.ts';
import { UnneededEvacuations, withdrawEvacuation } from './unneeded.ts';

interface Deps {
  cluster: FencedCluster;
  /** A dedicated recorder: Events of evacuations are numerous, and must not delay more important ones. */
  events: EventRecorder;
  log: Log;
  evacuators?: EvacuatorSettings;
  termination?: TerminationTiming;
  cleanup?: CleanupTiming;
  /** An Evacuation that no drain needs is withdrawn after this time. */
  unneededAfterMs?: number | undefined;
  /** Called for each Evacuation that was deleted. */
  onEnd?: ((outcome: EvacuationOutcome) => void) | undefined;
}

/** Number of Evacuations that are reconciled in parallel: hides the latency of the apiserver without overloading it. */
const workers = 48;

/**
 * Reconciles Evacuations: runs the evacuators of the pod one after the other, evicts the pod by UID as its
 * PodDisruptionBudget allows, and deletes the Evacuation when the pod is gone. All state that matters is in the objects;
 * the fields of this class only save requests, so the controller can be killed at any time.
 */
export class EvacuationController {
  readonly #cluster: FencedCluster;
  readonly #log: Log;
  readonly #queue = new WorkQueue('evacuation');
  readonly #known: KnownEvacuators;
  readonly #handover: EvacuatorHandover;
  readonly #evictionQueue: EvictionQueue;
  readonly #messages: StatusMessages;
  readonly #eviction: PodEviction;
  readonly #cleanup: EvacuationCleanup;
  readonly #termination: TerminationTiming;
  readonly #unneeded: UnneededEvacuations;
  readonly #onEnd: Deps['onEnd'];
  /** Keys of Evacuations whose maintenances were cancelled: they continue only if another maintenance drains the node. */
  readonly #cancelled = new Set<string>();

  constructor({
    cluster,
    events,
    log,
    evacuators = defaultEvacuatorSettings,
    termination = defaultTerminationTiming,
    cleanup = defaultCleanupTiming,
    unneededAfterMs,
    onEnd,
  }: Deps) {
    this.#onEnd = onEnd;
    this.#cluster = cluster;
    this.#log = log;
    this.#termination = termination;
    this.#unneeded = new UnneededEvacuations(cluster, unneededAfterMs);
    this.#known = new KnownEvacuators(evacuators);
    const { deploymentRegistration, deployments } = evacuators;
    const isAutomatic = deployments && deploymentRegistration === 'automatic';
    const registration = isAutomatic ? new AutomaticRegistration(cluster) : undefined;
    this.#handover = new EvacuatorHandover({ cluster, events, known: this.#known, registration });
    this.#evictionQueue = new EvictionQueue(cluster.budgets, (key) => this.#queue.add(key));
    const waitingReason = (key: string) => this.#evictionQueue.reasonOf(key);
    this.#messages = new StatusMessages({ cluster, log, waitingReason });
    this.#eviction = new PodEviction({
      cluster,
      queue: this.#evictionQueue,
      messages: this.#messages,
      maintenancesOf: (pod) => this.#handover.maintenancesOf(pod),
      onEvicted: (evacuation, pod, maintenances) => {
        // No Event for a pod without evacuators: its condition DisruptionTarget says that it was evicted.
        if (evacuation.spec.evacuators !== undefined) {
          const message = `Evicted from node ${pod.spec.nodeName} for ${describeInstigators(evacuation, maintenances)}.`;
          const { nodeName: node } = pod.spec;
          events.record(aboutPod(pod), {
            type: 'Normal',
            reason: 'Evicted',
            message,
            related: evacuation,
            node,
          });
        }
        for (const { metadata } of maintenances)
          log.debug('Pod evicted', {
            maintenance: metadata.name,
            pod: podName(pod),
            podUid: pod.metadata.uid,
            node: pod.spec.nodeName,
          });
      },
    });
    const isEvicting = () => this.#eviction.isSettling() || this.#queue.isBusy;
    this.#cleanup = new EvacuationCleanup({ cluster, log, isEvicting, timing: cleanup });
  }

  /** The queue of evictions, for others that evict pods: their budgets are the same. It works while the controller runs. */
  get evictionQueue(): EvictionQueue {
    return this.#evictionQueue;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { evacuations, pods, budgets, maintenances } = this.#cluster;
    // Oldest first, also in the queues of the budgets.
    for (const evacuation of evacuations.list().toSorted(byAge)) {
      this.#known.observe(evacuation);
      this.#queue.add(keyOf(evacuation));
    }
    const unsubscribe = [
      evacuations.subscribe(({ type, key, object }) => {
        this.#known.observe(object);
        if (type === 'Deleted') this.#forget(key, object);
        else this.#queue.add(key);
      }),
      pods.subscribe(({ type, object }) => this.#podChanged(type, object)),
      maintenances.subscribe(({ type }) => {
        const keys = type === 'Deleted' ? evacuations.list().map(keyOf) : this.#cancelled;
        for (const key of keys) this.#queue.add(key);
      }),
      budgets.subscribe((change) =>
        this.#evictionQueue.budgetChanged(
          change.object,
          change.type === 'Updated' ? change.previous : undefined,
        ),
      ),
    ];
    const reconcile = (key: string) => this.#reconcile(key).catch((error) => this.#failed(key, error));
    try {
      await Promise.all([
        this.#queue.run({
          workers,
          reconcile,
          fieldsOf: (key) => this.#fieldsOf(key),
          signal,
          log: this.#log,
          observer: this.#cluster.queues,
        }),
        this.#messages.run(signal),
        this.#cleanup.run(signal),
      ]);
    } finally {
      for (const stop of unsubscribe) stop();
    }
  }

  /** Names the first maintenance that drains the node. The eviction is logged and traced as a part of it. */
  #fieldsOf(key: string): Record<string, string> {
    const evacuation = this.#cluster.evacuations.get(key);
    const pod = evacuation && podOf(this.#cluster, evacuation);
    const [maintenance] = pod === undefined ? [] : this.#handover.maintenancesOf(pod);
    return maintenance === undefined ? {} : { maintenance: maintenance.metadata.name };
  }

  #podChanged(type: 'Added' | 'Updated' | 'Deleted', pod: Pod): void {
    const uid = pod.metadata.uid ?? '';
    if (type === 'Deleted') this.#eviction.podDeleted(uid);
    for (const evacuation of this.#cluster.evacuations.byIndex(byPodUid, uid)) {
      if (!isOfPod(evacuation, pod)) continue;
      const key = keyOf(evacuation);
      if (type === 'Deleted') this.#cleanup.podDeleted(uid);
      if (type === 'Deleted' || pod.metadata.deletionTimestamp !== undefined) this.#evictionQueue.done(key);
      this.#queue.add(key);
    }
  }

  async #reconcile(key: string): Promise<Requeue | undefined> {
    const evacuation = this.#cluster.evacuations.get(key);
    const pod = evacuation && podOf(this.#cluster, evacuation);
    if (evacuation === undefined || pod === undefined) {
      // The answer to its eviction may have arrived after either was deleted, and put it back into the queue.
      this.#evictionQueue.done(key);
      if (evacuation !== undefined) this.#cleanup.enqueue(key);
      return undefined;
    }
    if (isWithdrawn(evacuation) || this.#isCancelled(key, evacuation, pod)) {
      this.#evictionQueue.done(key);
      await this.#withdrawOrphan(key, evacuation, pod);
      return isWithdrawn(evacuation) ? this.#unneeded.reconcile(key, evacuation, pod) : undefined;
    }
    if (pod.metadata.deletionTimestamp !== undefined) {
      this.#evictionQueue.done(key);
      const reporting = {
        messages: this.#messages,
        timing: this.#termination,
        now: this.#cluster.kube.now(),
      };
      return reportTermination(reporting, evacuation, pod);
    }
    if (this.#eviction.wasEvicted(pod.metadata.uid ?? '')) return undefined;
    const unneeded = await this.#unneeded.reconcile(key, evacuation, pod);
    if (unneeded?.isDue !== true) return sooner(unneeded, await this.#evacuate(key, evacuation, pod));
    this.#evictionQueue.done(key);
    return unneeded;
  }

  /** "The same as advancing to Complete" stops what has not started at once, also while Temporal is unavailable. */
  #isCancelled(key: string, evacuation: Evacuation, pod: Pod): boolean {
    const { nodes, maintenances } = this.#cluster;
    const node = nodes.get(pod.spec.nodeName ?? '');
    const isCancelled =
      pod.metadata.deletionTimestamp === undefined &&
      node !== undefined &&
      isAboutToBeWithdrawn(evacuation, node, maintenances.list(), this.#cancelled.has(key));
    if (isCancelled) this.#cancelled.add(key);
    else this.#cancelled.delete(key);
    return isCancelled;
  }

  /** Withdraws a cancelled Evacuation whose maintenance was removed before it was completed: nothing else does. */
  async #withdrawOrphan(key: string, evacuation: Evacuation, pod: Pod): Promise<void> {
    const { kube, nodes, maintenances } = this.#cluster;
    const node = nodes.get(pod.spec.nodeName ?? '');
    if (node === undefined || !this.#cancelled.has(key)) return;
    const isOrphan = (all: readonly NodeMaintenance[]) =>
      isDrainCancelled(node, all, true) && !isDrainCancelled(node, all);
    if (!isOrphan(maintenances.list())) return;
    // The informers may not show yet that another maintenance drains the node.
    if (!isOrphan((await kube.list(resources.nodeMaintenances)).items)) return;
    await withdrawEvacuation(kube, evacuation);
  }

  async #evacuate(key: string, evacuation: Evacuation, pod: Pod): Promise<Requeue | undefined> {
    const result = await this.#handover.reconcile(evacuation, pod);
    if (result.kind === 'Wait') {
      this.#evictionQueue.done(key);
      return result.requeueAfterMs === undefined ? undefined : { requeueAfterMs: result.requeueAfterMs };
    }
    const evicted = await this.#eviction.evict(evacuation, pod);
    if (evicted !== 'Gone') return evicted;
    this.#cleanup.enqueue(key);
    return undefined;
  }

  /** Takes the failed Evacuation out of the queue of evictions, so that the next ones need not wait for its retry. */
  #failed(key: string, error: unknown): never {
    this.#evictionQueue.done(key);
    throw error;
  }

  #forget(key: string, evacuation: Evacuation): void {
    const { podRef } = evacuation.spec;
    const pod = podOf(this.#cluster, evacuation);
    const stays = pod !== undefined && pod.metadata.deletionTimestamp === undefined;
    this.#onEnd?.(outcomeOf(evacuation, { stays, wasEvicted: this.#eviction.wasEvicted(podRef.uid) }));
    this.#cancelled.delete(key);
    this.#unneeded.forget(key);
    this.#messages.forget(key);
    this.#handover.forget(evacuation);
    this.#evictionQueue.done(key);
    this.#eviction.forget(podRef.uid);
    this.#cleanup.forget(evacuation);
  }
}

function sooner(a: Requeue | undefined, b: Requeue | undefined): Requeue | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return a.requeueAfterMs < b.requeueAfterMs ? a : b;
}

function byAge({ metadata: a }: Evacuation, { metadata: b }: Evacuation): number {
  return compareNames(a.creationTimestamp ?? '', b.creationTimestamp ?? '');
}
