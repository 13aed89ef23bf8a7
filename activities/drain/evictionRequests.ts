import type { Pod } from '../../api/core.ts';
import { FIELD_MANAGER, NODE_MAINTENANCE } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { type Blocker, BlockerReason } from '../../domain/evacuation/blocker.ts';
import {
  evictionRequestName,
  evictionRequestOf,
  type RequestedEviction,
  requestedEviction,
} from '../../domain/evacuation/evictionRequest.ts';
import { byNamespace, type Cluster } from '../../kube/cluster.ts';
import { isKubeError, isRejection, KubeError } from '../../kube/errors.ts';
import { resources } from '../../kube/resources.ts';
import { RejectedWrites } from '../rejectedWrites.ts';

/** Delay before a rejected EvictionRequest is tried again. */
const rejectionRetryMs = 30_000;
/** An EvictionRequest that was created, and that the informer does not show, counts for this long. */
const informerLagMs = 10_000;

/** The EvictionRequests of one drain. */
export class EvictionRequests {
  readonly #cluster: Cluster;
  /** Pod UID -> when its request was created, or found to exist, until the informer shows it. */
  readonly #created = new Map<string, number>();
  /** The keys are UIDs of pods. */
  readonly #rejected = new RejectedWrites(rejectionRetryMs);

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  of({ metadata }: Pod): RequestedEviction {
    const { lifecycle } = this.#cluster;
    return requestedEviction(lifecycle.requestsOf(metadata), lifecycle.evictionsOf(metadata));
  }

  budgetsOf({ metadata: { namespace = '' } }: Pod) {
    return this.#cluster.budgets.byIndex(byNamespace, namespace);
  }

  /** Returns true if the request was created a moment ago. */
  isCreated({ metadata: { uid = '' } }: Pod): boolean {
    return performance.now() - (this.#created.get(uid) ?? -Infinity) < informerLagMs;
  }

  /** Returns true unless the request was rejected a moment ago. */
  isDue({ metadata: { uid = '' } }: Pod): boolean {
    return this.#rejected.isDue(uid);
  }

  rejectionOf({ metadata: { uid = '' } }: Pod): Blocker | undefined {
    const message = this.#rejected.reasonOf(uid);
    return message === undefined ? undefined : { reason: BlockerReason.EvictionRequestRejected, message };
  }

  /** Creates the request of a pod. A rejection blocks only this pod. */
  async create(pod: Pod, maintenance: NodeMaintenance): Promise<void> {
    const { uid = '' } = pod.metadata;
    const { apiVersion, kind } = NODE_MAINTENANCE;
    const request = evictionRequestOf(pod, this.#freeName(pod), {
      ...maintenance.metadata,
      apiVersion,
      kind,
    });
    try {
      await this.#cluster.kube.create(resources.evictionRequests, request, { fieldManager: FIELD_MANAGER });
    } catch (error) {
      if (!isResolvedLater(error)) {
        if (!isRejection(error) && !isKubeError(error, 'NotFound')) throw error;
        const message = `The apiserver rejected its EvictionRequest: ${error.apiMessage}`;
        this.#rejected.reject(uid, message);
        return;
      }
    }
    this.#rejected.accept(uid);
    this.#created.set(uid, performance.now());
  }

  /** Returns the name of the request, or another one if an object that is not the request of the pod has it. */
  #freeName(pod: Pod): string {
    const { metadata } = pod;
    const name = evictionRequestName(metadata);
    const taken = this.#cluster.lifecycle.requests.get(`${metadata.namespace}/${name}`);
    if (taken === undefined) return name;
    // Each replacement may be kept by finalizers, too.
    const { request = taken } = this.of(pod);
    return evictionRequestName(metadata, request.metadata);
  }
}

/**
 * Returns true for errors that need no reaction: the next pass finds the request in the informer, or the namespace deletes the pod. NotFound is none
 * of them: the apiserver may not serve the API any more.
 */
function isResolvedLater(error: unknown): boolean {
  const resolved: readonly string[] = ['AlreadyExists', 'Conflict', 'NamespaceTerminating'];
  return error instanceof KubeError && resolved.includes(error.kind);
}
