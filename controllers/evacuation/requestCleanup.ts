import type { Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import type { EvictionRequest, LifecycleEviction } from '../../api/lifecycle.ts';
import { IMPERATIVE_RESPONDER } from '../../api/names.ts';
import { maintenancesTargeting } from '../../domain/drain/drainingMaintenances.ts';
import { isInstigated } from '../../domain/evacuation/evacuation.ts';
import { isFinal, isOurs, requestStateOf } from '../../domain/evacuation/evictionRequest.ts';
import { EvacuationOutcome } from '../../domain/evacuation/outcome.ts';
import {
  type CleanupFacts,
  type CleanupPhase,
  cleanupPhase,
  cleanupStep,
} from '../../domain/evacuation/requestCleanup.ts';
import { byPodUid, type FencedCluster } from '../../kube/cluster.ts';
import { identityKey, type PodIdentity, targetOf } from '../../kube/evictionInformers.ts';
import { deleteRequest, withdrawRequest } from '../../kube/evictionRequests.ts';
import type { Change } from '../../kube/informer.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { keyOf } from '../../kube/store.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';
import { isOtherDrain } from '../drainChange.ts';

interface Deps {
  cluster: FencedCluster;
  log: Log;
  /** Called for each EvictionRequest that was deleted. */
  onEnd?: ((outcome: EvacuationOutcome) => void) | undefined;
}

const workers = 16;

/**
 * Ends the EvictionRequests of node maintenance: deletes those whose pods are gone or that were withdrawn, and withdraws those that no drain needs
 * any more, for example because its maintenance was deleted by force. What it remembers are times, which begin again in another process.
 */
export class EvictionRequestCleanup {
  readonly #cluster: FencedCluster;
  readonly #log: Log;
  readonly #onEnd: Deps['onEnd'];
  readonly #queue = new WorkQueue('eviction-request-cleanup');
  /** Key of a request -> what it waits for, and since when. */
  readonly #phases = new Map<string, { phase: CleanupPhase; sinceMs: number }>();
  /** Keys of pods with requests that the informer has shown, and that are deleted. */
  readonly #deletedPods = new Set<string>();
  /** UID of a request that is to be deleted -> its outcome, until the informer shows that it is gone: a deletion may conflict, and is decided again. */
  readonly #outcomes = new Map<string, EvacuationOutcome>();

  constructor({ cluster, log, onEnd }: Deps) {
    this.#cluster = cluster;
    this.#log = log;
    this.#onEnd = onEnd;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { lifecycle, pods, maintenances, evacuations } = this.#cluster;
    const unsubscribe = [
      lifecycle.requests.subscribe(({ type, key, object }) => {
        if (type === 'Deleted') this.#forget(key, object);
        else if (isOurs(object)) this.#queue.add(key);
      }),
      lifecycle.evictions.subscribe(({ object }) => this.#addOf(targetOf(object))),
      pods.subscribe(({ type, object }) => this.#podChanged(type, object)),
      evacuations.subscribe(({ object: { metadata, spec } }) =>
        this.#addOf({ namespace: metadata.namespace, uid: spec.podRef.uid }),
      ),
      maintenances.subscribe((change) => {
        if (isOtherDrain(change)) for (const one of lifecycle.requests.list()) this.#addOf(targetOf(one));
      }),
    ];
    const reconcile = (key: string) => this.#reconcile(key);
    const observer = this.#cluster.queues;
    try {
      await this.#queue.run({ workers, reconcile, signal, log: this.#log, observer });
    } finally {
      for (const stop of unsubscribe) stop();
    }
  }

  #podChanged(type: Change<Pod>['type'], { metadata }: Pod): void {
    if (type === 'Updated') return;
    const hasRequest = this.#cluster.lifecycle.requestsOf(metadata).length > 0;
    if (type === 'Deleted' && hasRequest) this.#deletedPods.add(identityKey(metadata));
    if (hasRequest) this.#addOf(metadata);
  }

  #addOf(pod: PodIdentity): void {
    for (const request of this.#cluster.lifecycle.requestsOf(pod))
      if (isOurs(request)) this.#queue.add(keyOf(request));
  }

  async #reconcile(key: string): Promise<Requeue | undefined> {
    const request = this.#cluster.lifecycle.requests.get(key);
    if (request === undefined || request.metadata.deletionTimestamp !== undefined) return undefined;
    const pod = podOf(this.#cluster, request);
    const isDeleted = this.#deletedPods.has(identityKey(targetOf(request)));
    // The informer of pods may be behind that of requests.
    if (pod === undefined && !isDeleted && (await this.#podExists(request))) return { requeueAfterMs: 1_000 };
    const facts = this.#factsOf(request, pod);
    const step = cleanupStep(facts, this.#inPhaseForMs(key, cleanupPhase(facts)));
    if (step.kind === 'Keep') return { requeueAfterMs: step.againInMs };
    const { kube } = this.#cluster;
    if (step.kind === 'Withdraw') await withdrawRequest(kube, request);
    else {
      this.#outcomes.set(request.metadata.uid ?? '', outcomeOf(pod, this.#evictionOf(request)));
      await deleteRequest(kube, request);
    }
    // If it had changed since it was read, it is decided again.
    return { requeueAfterMs: 1_000 };
  }

  #factsOf(request: EvictionRequest, pod: Pod | undefined): CleanupFacts {
    const { uid } = request.spec.target.pod;
    const eviction = this.#evictionOf(request);
    const isRequested = ({ metadata }: Evacuation) =>
      metadata.namespace === request.metadata.namespace &&
      isInstigated({ metadata }) &&
      metadata.deletionTimestamp === undefined;
    return {
      state: requestStateOf({ request, eviction }),
      hasPod: pod !== undefined,
      isUnreported: eviction !== undefined && !(isFinal(eviction) && isFinal(request)),
      isNeeded: pod !== undefined && this.#isNeeded(pod),
      hasEvacuation: this.#cluster.evacuations.byIndex(byPodUid, uid).some(isRequested),
    };
  }

  #isNeeded(pod: Pod): boolean {
    const node = this.#cluster.nodes.get(pod.spec.nodeName ?? '');
    if (node === undefined) return false;
    return maintenancesTargeting(pod, node, this.#cluster.maintenances.list()).length > 0;
  }

  #evictionOf(request: EvictionRequest): LifecycleEviction | undefined {
    const evictions = this.#cluster.lifecycle.evictionsOf(targetOf(request));
    return evictions.find((one) => !isFinal(one)) ?? evictions[0];
  }

  #inPhaseForMs(key: string, phase: CleanupPhase): number {
    const known = this.#phases.get(key);
    if (known?.phase === phase) return performance.now() - known.sinceMs;
    this.#phases.set(key, { phase, sinceMs: performance.now() });
    return 0;
  }

  async #podExists({ metadata, spec }: EvictionRequest): Promise<boolean> {
    const { name, uid } = spec.target.pod;
    const pod = await this.#cluster.kube.get(resources.pods, { namespace: metadata.namespace, name });
    return pod?.metadata.uid === uid;
  }

  #forget(key: string, request: EvictionRequest): void {
    const { uid = '' } = request.metadata;
    const outcome = this.#outcomes.get(uid);
    this.#outcomes.delete(uid);
    if (outcome !== undefined) this.#onEnd?.(outcome);
    this.#phases.delete(key);
    this.#deletedPods.delete(identityKey(targetOf(request)));
  }
}

function podOf({ pods }: Pick<FencedCluster, 'pods'>, { metadata, spec }: EvictionRequest): Pod | undefined {
  const { name, uid } = spec.target.pod;
  const pod = pods.get(`${metadata.namespace}/${name}`);
  return pod?.metadata.uid === uid ? pod : undefined;
}

function outcomeOf(pod: Pod | undefined, eviction: LifecycleEviction | undefined): EvacuationOutcome {
  if (pod !== undefined) return EvacuationOutcome.Withdrawn;
  const responders = eviction?.status?.targetResponders ?? [];
  const last = responders.findLast(({ state }) => state === 'Active' || state === 'Completed');
  if (last === undefined) return EvacuationOutcome.Gone;
  return last.name === IMPERATIVE_RESPONDER ? EvacuationOutcome.Evicted : EvacuationOutcome.Evacuator;
}
