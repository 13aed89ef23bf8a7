import type { Pod } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { listed } from '../../domain/common/names.ts';
import { podName } from '../../domain/common/pod.ts';
import { numbered } from '../../domain/common/text.ts';
import type { PodDeletion } from '../../domain/drain/deadline.ts';
import type { PodSnapshot } from '../../domain/drain/podSnapshot.ts';
import { BlockerReason } from '../../domain/evacuation/blocker.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { isRejection } from '../../kube/errors.ts';
import { aboutPod } from '../../kube/events.ts';
import { resources } from '../../kube/resources.ts';
import type { InjectedDeps } from '../injectedDeps.ts';

const concurrentDeletions = 24;
/** One pass deletes pods for this long, so that progress is published in between. */
const maxPassMs = 500;
/** Delay before a rejected deletion is tried again. */
const rejectionRetryMs = 30_000;
/** A pod that was deleted, and that the informer does not show as terminating, is not deleted again for this long. */
const informerLagMs = 10_000;

/** Deletes the pods that the deadline of one drain decides on, each with its UID and a grace period. */
export class Deletions {
  readonly #deps: Pick<InjectedDeps, 'cluster' | 'events' | 'nodeEvents'>;
  /** Pod UID -> when its deletion was requested. */
  readonly #requested = new Map<string, number>();
  /** Pod UID -> why its deletion was rejected, and when. */
  readonly #rejected = new Map<string, { message: string; at: number }>();

  constructor(deps: Pick<InjectedDeps, 'cluster' | 'events' | 'nodeEvents'>) {
    this.#deps = deps;
  }

  /** Adds to the snapshot of a pod that its deletion was rejected. */
  amend(snapshotOf: (pod: Pod) => PodSnapshot): (pod: Pod) => PodSnapshot {
    return (pod) => {
      const rejected = this.#rejected.get(pod.metadata.uid ?? '');
      if (rejected === undefined) return snapshotOf(pod);
      return {
        ...snapshotOf(pod),
        blocker: { reason: BlockerReason.DeletionRejected, message: rejected.message },
      };
    };
  }

  /** Deletes the pods tier by tier, except on a node whose Lease has been lost. The next call continues if there are too many for one. */
  async perform(
    maintenance: NodeMaintenance,
    deletions: readonly PodDeletion[],
    isHeld: (node: string) => boolean,
  ): Promise<void> {
    const due = deletions.filter(
      ({ pod: { metadata, spec } }) => isHeld(spec.nodeName ?? '') && this.#isDue(metadata.uid ?? ''),
    );
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
        endsAt,
      );
      if (left > 0) break;
    }
    this.#record(maintenance, deleted);
  }

  #isDue(uid: string): boolean {
    const rejectedAt = this.#rejected.get(uid)?.at ?? -Infinity;
    const requestedAt = this.#requested.get(uid) ?? -Infinity;
    return Date.now() - rejectedAt >= rejectionRetryMs && Date.now() - requestedAt >= informerLagMs;
  }

  /** Resolves with true if the apiserver has accepted the deletion. A rejection concerns only this pod. */
  async #delete({ pod: { metadata }, gracePeriodSeconds }: PodDeletion): Promise<boolean> {
    const { namespace = '', name, uid = '' } = metadata;
    try {
      const outcome = await this.#deps.cluster.kube.delete(
        resources.pods,
        { namespace, name },
        { uid, gracePeriodSeconds },
      );
      this.#rejected.delete(uid);
      this.#requested.set(uid, Date.now());
      return outcome === 'Deleted';
    } catch (error) {
      if (!isRejection(error)) throw error;
      const message = `The apiserver rejected the deletion of the pod at the deadline: ${error.apiMessage}`;
      this.#rejected.set(uid, { message, at: Date.now() });
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
