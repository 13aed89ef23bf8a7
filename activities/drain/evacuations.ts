import { Context } from '@temporalio/activity';
import type { Node, Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import { DEFAULT_PROGRESS_DEADLINE_SECONDS, FIELD_MANAGER, INSTIGATOR_FINALIZER } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { NodeDecision } from '../../domain/common/requester.ts';
import {
  currentEvacuation,
  evacuationName,
  finalizersOfOthers,
  isEvacuationName,
  isInstigated,
  isKeptByOthers,
  replacementName,
} from '../../domain/evacuation/evacuation.ts';
import { mayHaveRequests } from '../../domain/evacuation/serving.ts';
import { evacuationOf } from '../../domain/evacuation/evacuatorSelection.ts';
import { type Blocker, BlockerReason, blockerOf } from '../../domain/evacuation/blocker.ts';
import type { PodSnapshot } from '../../domain/drain/podSnapshot.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { byNode, byPodUid, type Cluster } from '../../kube/cluster.ts';
import { isRejection, KubeError } from '../../kube/errors.ts';
import { setFinalizers } from '../../kube/evacuationFinalizers.ts';
import { resources } from '../../kube/resources.ts';
import type { MaintenanceRef, Unfinished } from '../contract.ts';
import type { Deps } from '../deps.ts';
import { RejectedWrites } from '../rejectedWrites.ts';
import { notWithdrawn } from '../failures.ts';
import { cachedPod, latestPod } from './latestPod.ts';
import { type OtherDrains, othersThatNeed } from './otherDrains.ts';
import { withdrawRequests } from './requestRemoval.ts';
import { Withdrawals } from './withdrawals.ts';
import { isCompleting, isDraining, namesOf, nodesOf } from '../view.ts';

const concurrentWrites = 24;
/** The first Evacuations of a drain are created few at a time, so that the first eviction need not wait for 24 of them. */
const firstWrites = 2;
/** Time for which one pass creates Evacuations, so that progress is published in between. */
const maxPassMs = 500;
/** Delay before a rejected Evacuation is tried again. */
const rejectionRetryMs = 30_000;
/** An Evacuation that was created, and that the informer does not show, counts for this long. */
const informerLagMs = 10_000;

/**
 * The Evacuations of one drain. "The only job of the node maintenance controller is to make sure that the Evacuation
 * object exist and has the ... finalizer" (KEP-4212 > Drain).
 */
export class Evacuations {
  readonly #cluster: Cluster;
  /** Pod UID -> when its Evacuation was created, or need not be, until the informer shows it. */
  readonly #created = new Map<string, number>();
  #hasStarted = false;
  /** The keys are UIDs of pods. */
  readonly #rejected = new RejectedWrites(rejectionRetryMs);

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  /** Returns true if node maintenance requests this Evacuation of the pod, or has just created it. */
  #isRequested(pod: Pod, evacuation: Evacuation | undefined): boolean {
    const uid = pod.metadata.uid ?? '';
    if (evacuation !== undefined) {
      this.#created.delete(uid);
      return isInstigated(evacuation) && evacuation.metadata.deletionTimestamp === undefined;
    }
    const createdAt = this.#created.get(uid);
    return createdAt !== undefined && performance.now() - createdAt < informerLagMs;
  }

  /** Returns a function that takes the snapshot of a pod. */
  snapshotOf(now: Date): (pod: Pod) => PodSnapshot {
    return (pod) => {
      const evacuation = this.#find(pod);
      // We remove our finalizer from an Evacuation that is being deleted: only the finalizers of others block the pod.
      const isDeleted = evacuation?.metadata.deletionTimestamp !== undefined;
      const effective = isDeleted
        ? {
            ...evacuation,
            metadata: { ...evacuation.metadata, finalizers: finalizersOfOthers(evacuation.metadata) },
          }
        : evacuation;
      const blocker = blockerOf(pod, effective, now) ?? this.rejectionOf(pod);
      const evacuating = this.#isRequested(pod, evacuation);
      const forbidsCancellation = evacuation !== undefined && !isCancellable(evacuation);
      return { pod, evacuating, blocker, ...(forbidsCancellation && { forbidsCancellation }) };
    };
  }

  /** Withdraws the Evacuations on nodes that the maintenance no longer selects. */
  async withdrawFrom(
    nodes: readonly string[],
    maintenance: NodeMaintenance,
    withdrawals: Withdrawals,
  ): Promise<void> {
    const pods = nodes.flatMap((node) => this.#cluster.pods.byIndex(byNode, node));
    const requested = pods.flatMap((pod) => {
      const evacuation = this.#find(pod);
      return evacuation === undefined ? [] : [{ evacuation, pod }];
    });
    const all = this.#cluster.maintenances
      .list()
      .filter(({ metadata }) => metadata.uid !== maintenance.metadata.uid);
    const others = () => all;
    const unneeded = requested.filter(({ evacuation, pod }) =>
      isUnneeded(evacuation, pod, { cluster: this.#cluster, others }),
    );
    await forEachBounded(concurrentWrites, unneeded, ({ evacuation }) =>
      withdrawals.perform(evacuation, (one) => withdraw(this.#cluster, one)),
    );
  }

  /**
   * Ensures that the pods have Evacuations, except pods of a namespace that is being deleted, which terminate by themselves. Skips the pods of
   * a node whose Lease has been lost (`isHeld`). The next call continues if there are too many for one.
   */
  async start(pods: readonly Pod[], isHeld: (node: string) => boolean): Promise<void> {
    const due = pods.filter(({ metadata: { uid = '' } }) => this.#rejected.isDue(uid));
    const ensure = async (pod: Pod) => {
      if (!isHeld(pod.spec.nodeName ?? '')) return;
      const uid = pod.metadata.uid ?? '';
      const rejection = await this.#ensure(pod);
      if (rejection === undefined) this.#rejected.accept(uid);
      else this.#rejected.reject(uid, rejection);
    };
    if (due.length === 0) return;
    const startWith = this.#hasStarted ? concurrentWrites : firstWrites;
    this.#hasStarted = true;
    await forEachBounded(concurrentWrites, due, ensure, { endsAt: performance.now() + maxPassMs, startWith });
  }

  rejectionOf({ metadata }: Pod): Blocker | undefined {
    const message = this.#rejected.reasonOf(metadata.uid ?? '');
    return message === undefined ? undefined : { reason: BlockerReason.EvacuationRejected, message };
  }

  /** Resolves with the message if the Evacuation is rejected. A rejection blocks only this pod. */
  async #ensure(pod: Pod): Promise<string | undefined> {
    const existing = this.#find(pod);
    try {
      if (existing === undefined) await this.#create(pod, this.#freeName(pod.metadata));
      else if (existing.metadata.deletionTimestamp === undefined)
        await joinEvacuation(this.#cluster, existing);
      // A user deleted the Evacuation. The next one can be created when its name is free.
      else if (isInstigated(existing))
        await setFinalizers(this.#cluster.kube, existing, finalizersOfOthers(existing.metadata));
      else if (isKeptByOthers(existing, this.#cluster.kube.now()))
        await this.#create(pod, replacementName(pod.metadata, existing.metadata));
      return undefined;
    } catch (error) {
      if (isResolvedLater(error)) {
        this.#created.set(pod.metadata.uid ?? '', performance.now());
        return undefined;
      }
      if (!isRejection(error)) throw error;
      return `The apiserver rejected its Evacuation: ${error.apiMessage}`;
    }
  }

  /** Returns the name of the Evacuation, or another one if an Evacuation of another pod has that name. */
  #freeName(pod: Pod['metadata']): string {
    const name = evacuationName(pod);
    const taken = this.#cluster.evacuations.get(`${pod.namespace}/${name}`);
    return taken === undefined ? name : replacementName(pod, taken.metadata);
  }

  async #create(pod: Pod, name: string): Promise<void> {
    const { metadata, spec } = evacuationOf(pod, DEFAULT_PROGRESS_DEADLINE_SECONDS);
    const evacuation = { metadata: { ...metadata, name, finalizers: [INSTIGATOR_FINALIZER] }, spec };
    await this.#cluster.kube.create(resources.evacuations, evacuation, { fieldManager: FIELD_MANAGER });
    this.#created.set(pod.metadata.uid ?? '', performance.now());
  }

  /** Returns the Evacuation of the pod. Others of the same pod, created under another name while no webhook answered, do not count. */
  #find({ metadata }: Pod): Evacuation | undefined {
    const own = this.#cluster.evacuations
      .byIndex(byPodUid, metadata.uid ?? '')
      .filter((one) => one.metadata.namespace === metadata.namespace)
      .filter((one) => isEvacuationName(one.metadata.name, metadata));
    return currentEvacuation(own);
  }
}

/** After as many attempts, some ten seconds, the nodes are uncordoned although a withdrawal is rejected: the evacuation controller tries it again. */
const maxRejectedAttempts = 7;
/** A slow apiserver does not keep a call of `removeEvacuations` from removing some. */
const minRemovalMs = 5_000;

/** Adds our finalizer to an Evacuation that another instigator created. */
async function joinEvacuation({ kube }: Cluster, evacuation: Evacuation): Promise<void> {
  const { finalizers = [] } = evacuation.metadata;
  await setFinalizers(kube, evacuation, [...finalizers, INSTIGATOR_FINALIZER]);
}

/** Returns true for errors that need no reaction: the next pass finds the Evacuation in the informer, or the namespace deletes the pod. */
function isResolvedLater(error: unknown): boolean {
  const resolved: readonly string[] = ['AlreadyExists', 'Conflict', 'NotFound', 'NamespaceTerminating'];
  return error instanceof KubeError && resolved.includes(error.kind);
}

/**
 * "The controller will attempt to remove all Evacuations that match the node maintenance, unless there is [another]
 * maintenance in progress" (KEP-4212 > Uncordon (Complete)). Lists them from the apiserver, because the last one may have been created a moment ago.
 */
export async function removeEvacuations(
  { cluster, authority, events, removalMs }: Deps,
  ref: MaintenanceRef,
): Promise<Unfinished | undefined> {
  const startedAt = performance.now();
  const { kube, nodes } = cluster;
  // If two maintenances are cancelled together, the later one must see that the other needs nothing any more.
  const { items: all } = await kube.list(resources.nodeMaintenances);
  const maintenance = all.find(({ metadata }) => metadata.uid === ref.uid);
  if (maintenance === undefined || !isCompleting(maintenance)) return undefined;
  const existing = nodesOf(maintenance, nodes.list());
  const names = namesOf(existing);
  const draining = all.filter((one) => one !== maintenance && isDraining(one));
  const decisionOf = await authority.decideAll(draining, existing);
  const others = (node: Node) =>
    draining.filter((other) => decisionOf(other, node.metadata.name) !== NodeDecision.Skip);
  const { items } = await kube.list(resources.evacuations, {});
  // Each once: the next attempt of the activity is the next one.
  const withdrawals = new Withdrawals(Infinity);
  const endsAt = Math.max(startedAt + removalMs, performance.now() + Math.min(removalMs, minRemovalMs));
  const left = await forEachBounded(
    concurrentWrites,
    items.filter(isInstigated),
    async (evacuation) => {
      const pod = await podOf(cluster, evacuation);
      // The evacuation controller deletes an Evacuation whose pod is gone.
      if (pod === undefined || !names.has(pod.spec.nodeName ?? '')) return;
      if (isUnneeded(evacuation, pod, { cluster, others }))
        await withdrawals.perform(evacuation, (one) => withdraw(cluster, one));
    },
    { endsAt },
  );
  const requestsLeft = mayHaveRequests(maintenance)
    ? await withdrawRequests(cluster, { maintenance, nodes: names, others, withdrawals }, endsAt)
    : 0;
  const [rejection] = withdrawals.rejections;
  // A webhook may answer again in a moment; a policy must not keep the nodes out of service.
  if (rejection !== undefined && Context.current().info.attempt < maxRejectedAttempts)
    throw notWithdrawn(rejection);
  withdrawals.record(maintenance, events);
  return left + requestsLeft > 0 ? { kind: 'Unfinished' } : undefined;
}

/** Returns true if the Evacuation is ours, may be cancelled, and no other maintenance targets its pod. */
function isUnneeded(
  evacuation: Evacuation,
  pod: Pod,
  { cluster, others }: { cluster: Cluster; others: OtherDrains },
): boolean {
  return (
    isInstigated(evacuation) && isCancellable(evacuation) && othersThatNeed(cluster, others, pod).length === 0
  );
}

/** "If the evacuator ... has set .status.evacuationCancellationPolicy to Forbid, deletion ... will not be attempted." */
function isCancellable({ status }: Evacuation): boolean {
  return status?.evacuationCancellationPolicy !== 'Forbid';
}

/** Returns the pod of an Evacuation; undefined if it is gone. The evacuation controller completes the deletion of an Evacuation whose pod is gone. */
async function podOf(cluster: Cluster, { metadata, spec: { podRef } }: Evacuation): Promise<Pod | undefined> {
  const requested = { namespace: metadata.namespace ?? '', ...podRef };
  return metadata.deletionTimestamp === undefined
    ? latestPod(cluster, requested)
    : cachedPod(cluster, requested);
}

/**
 * "If there are foreign finalizers on the Evacuation, it should only remove its own instigator finalizer." Otherwise
 * the Evacuation is deleted before the finalizer is removed: one that has no finalizer and is not deleted would still request the evacuation.
 */
async function withdraw(cluster: Cluster, { metadata }: Evacuation): Promise<void> {
  const { kube } = cluster;
  const { name, namespace = '', uid = '' } = metadata;
  const isShared = finalizersOfOthers(metadata).length > 0;
  if (!isShared) await kube.delete(resources.evacuations, { namespace, name }, { uid });
  const current = await kube.get(resources.evacuations, { namespace, name });
  if (current === undefined || current.metadata.uid !== uid) return;
  const { metadata: latest } = await setFinalizers(kube, current, finalizersOfOthers(current.metadata));
  // If the other instigators removed their finalizers at the same time, each of them has left the deletion to the last.
  const hasNoInstigator = latest.deletionTimestamp === undefined && !latest.finalizers?.length;
  if (hasNoInstigator) await kube.delete(resources.evacuations, { namespace, name }, { uid });
}
