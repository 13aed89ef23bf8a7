import type { Pod } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { listed } from '../../domain/common/names.ts';
import { podName } from '../../domain/common/pod.ts';
import { numbered } from '../../domain/common/text.ts';
import type { PodDeletion } from '../../domain/drain/deadline.ts';
import type { PodSnapshot } from '../../domain/drain/podSnapshot.ts';
import { type Blocker, BlockerReason } from '../../domain/evacuation/blocker.ts';
import {
  type DeletedPod,
  isRecreated,
  placeOf,
  recreatedBlocker,
} from '../../domain/evacuation/recreation.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { isRejection } from '../../kube/errors.ts';
import { aboutPod } from '../../kube/events.ts';
import { resources } from '../../kube/resources.ts';
import type { InjectedDeps } from '../injectedDeps.ts';
import { RejectedWrites } from '../rejectedWrites.ts';

const concurrentDeletions = 24;
/** Time for which one pass deletes pods, so that progress is published in between. */
const maxPassMs = 500;
/** Delay before a rejected deletion is tried again, and before a pod is deleted that its controller recreated at once. */
const blockedRetryMs = 30_000;
/** A pod that was deleted, and that the informer does not show as terminating, is not deleted again for this long. */
const informerLagMs = 10_000;

/** Deletes the pods that the deadline of one drain decides on, each with its UID and a grace period. */
export class Deletions {
  readonly #deps: Pick<InjectedDeps, 'cluster' | 'events' | 'nodeEvents'>;
  /** Pod UID -> when its deletion was requested. */
  readonly #requested = new Map<string, number>();
  /** The keys are UIDs of pods. */
  readonly #blocked = new RejectedWrites<Blocker>(blockedRetryMs);
  /** Controller and node -> the last pod that was deleted there. */
  readonly #deleted = new Map<string, DeletedPod>();

  constructor(deps: Pick<InjectedDeps, 'cluster' | 'events' | 'nodeEvents'>) {
    this.#deps = deps;
  }

  /** Adds to the snapshot of a pod why it was not deleted. */
  amend(snapshotOf: (pod: Pod) => PodSnapshot): (pod: Pod) => PodSnapshot {
    return (pod) => {
      const blocker = this.#blocked.reasonOf(pod.metadata.uid ?? '');
      return blocker === undefined ? snapshotOf(pod) : { ...snapshotOf(pod), blocker };
    };
  }

  /** Deletes the pods tier by tier, except on a node whose Lease has been lost. The next call continues if there are too many for one. */
  async perform(
    maintenance: NodeMaintenance,
    deletions: readonly PodDeletion[],
    isHeld: (node: string) => boolean,
  ): Promise<void> {
    const due = deletions.filter(({ pod }) => isHeld(pod.spec.nodeName ?? '') && this.#isDue(pod));
    if (due.length === 0) return;
    const deleted: PodDeletion[] = [];
    const endsAt = performance.now() + maxPassMs;
    for (const [, tier] of Map.groupBy(due, (one) => one.tier)) {
      const left = await forEachBounded(
        concurrentDeletions,
        tier,
        async (one) => {
          if (await this.#delete(one)) deleted.push(one);
        },
        { endsAt },
      );
      if (left > 0) break;
    }
    this.#record(maintenance, deleted);
  }

  #isDue(pod: Pod): boolean {
    const { uid = '' } = pod.metadata;
    if (!this.#blocked.isDue(uid)) return false;
    const deleted = this.#deleted.get(placeOf(pod) ?? '');
    const isFirstTime = this.#blocked.reasonOf(uid) === undefined;
    if (isFirstTime && deleted !== undefined && isRecreated(pod, deleted)) {
      this.#blocked.reject(uid, recreatedBlocker(pod));
      return false;
    }
    return performance.now() - (this.#requested.get(uid) ?? -Infinity) >= informerLagMs;
  }

  /** Resolves with true if the apiserver has accepted the deletion. A rejection concerns only this pod. */
  async #delete({ pod, gracePeriodSeconds }: PodDeletion): Promise<boolean> {
    const { namespace = '', name, uid = '' } = pod.metadata;
    const place = placeOf(pod);
    try {
      const deletedAt = this.#deps.cluster.kube.now();
      const outcome = await this.#deps.cluster.kube.delete(
        resources.pods,
        { namespace, name },
        { uid, gracePeriodSeconds },
      );
      this.#blocked.accept(uid);
      this.#requested.set(uid, performance.now());
      if (place !== undefined) this.#deleted.set(place, { uid, deletedAt, gracePeriodSeconds });
      return outcome === 'Deleted';
    } catch (error) {
      if (!isRejection(error)) throw error;
      const message = `The apiserver rejected the deletion of the pod at the deadline: ${error.apiMessage}`;
      this.#blocked.reject(uid, { reason: BlockerReason.DeletionRejected, message });
      return false;
    }
  }

  #record(maintenance: NodeMaintenance, deleted: readonly PodDeletion[]): void {
    if (deleted.length === 0) return;
    const { events, nodeEvents } = this.#deps;
    const { time = '' } = maintenance.status?.drainDeadline ?? {};
    const event = { type: 'Warning', reason: 'DeletedAtDeadline' } as const;
    const pods = listed(deleted.map(({ pod }) => podName(pod)));
    const message = `${numbered(deleted.length, 'pod')} deleted for the drain deadline ${time}: ${pods}.`;
    events.record(maintenance, { ...event, message });
    for (const { pod, gracePeriodSeconds } of deleted)
      nodeEvents.record(aboutPod(pod), {
        ...event,
        message: `Deleted with a grace period of ${numbered(gracePeriodSeconds, 'second')}: the drain deadline of NodeMaintenance ${maintenance.metadata.name} for node ${pod.spec.nodeName} is ${time}.`,
      });
  }
}
