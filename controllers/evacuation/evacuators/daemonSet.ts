import type { Pod } from '../../../api/core.ts';
import type { Evacuation, EvacuationStatus } from '../../../api/evacuation.ts';
import { DAEMONSET_EVACUATOR, FIELD_MANAGER } from '../../../api/names.ts';
import { isTrue } from '../../../domain/common/conditions.ts';
import { daemonSetOf, gracePeriodSecondsOf } from '../../../domain/common/pod.ts';
import { gatingMaintenance, terminationMessage } from '../../../domain/drain/daemonSet.ts';
import {
  type Blocker,
  BlockerReason,
  blockedCondition,
  blockedConditions,
} from '../../../domain/evacuation/blocker.ts';
import {
  placeOf,
  recreatedBlocker,
  recreatedWithinMs,
  wasCreatedSince,
} from '../../../domain/evacuation/recreation.ts';
import { byPodUid, type FencedCluster } from '../../../kube/cluster.ts';
import { ignoreNotFound, isRejection } from '../../../kube/errors.ts';
import type { Log } from '../../../kube/log.ts';
import { resources } from '../../../kube/resources.ts';
import { keyOf } from '../../../kube/store.ts';
import { type Requeue, WorkQueue } from '../../../kube/workQueue.ts';
import { podOf } from '../podOf.ts';
import { runSchedulingGates, sameLabels } from './schedulingGates.ts';

interface Deps {
  cluster: FencedCluster;
  log: Log;
  /** The clock of this process, in milliseconds since the epoch. */
  clock?: () => number;
}

/** Number of Evacuations that are reconciled in parallel. */
const workers = 8;
/** A rejected deletion, or a recreated pod, is retried after this. */
const blockedRetryMs = 30_000;

/**
 * Runs the evacuator of DaemonSet pods (KEP-4212 > DaemonSet Controller) until the signal aborts, together with the scheduling
 * gates that keep these pods off their nodes until the maintenance is complete.
 */
export async function runDaemonSetEvacuator(deps: Deps, signal: AbortSignal): Promise<void> {
  await Promise.all([new DaemonSetEvacuator(deps).run(signal), runSchedulingGates(deps, signal)]);
}

/** A DaemonSet pod whose active evacuator is this one. */
interface Assignment {
  evacuation: Evacuation;
  pod: Pod;
  /** Name of the DaemonSet. */
  daemonSet: string;
  /** Message of the Evacuation while the pod terminates. */
  message: string;
}

/** The removal of a pod that this evacuator deleted. */
interface Removal {
  /** Time of the deletion request, by the clock of the apiserver. */
  deletedAt: Date;
  /** Time at which the informer showed that the pod is gone, by our clock. This is after the grace period, which may be long. */
  goneAtMs: number;
}

/**
 * Deletes the pods of Evacuations with this active evacuator, by UID, once the drain targets of their nodes include them. "If it
 * does occur" that they do not, "we should not encourage this flow": the evacuator neither deletes the pod nor completes.
 */
class DaemonSetEvacuator {
  readonly #cluster: FencedCluster;
  readonly #log: Log;
  readonly #clock: () => number;
  readonly #queue = new WorkQueue('daemonset-evacuator');
  /** Keys of Evacuations whose pods the observed drain targets do not include yet. */
  readonly #untargeted = new Set<string>();
  /** UID of a pod -> when we deleted it, until it is gone. */
  readonly #deletedAt = new Map<string, Date>();
  /** UID of a blocked pod -> when to retry, until it is gone. */
  readonly #retryAtMs = new Map<string, number>();
  /** DaemonSet and node -> the last pod that we removed there. Losing an entry costs one more deletion at most. */
  readonly #removals = new Map<string, Removal>();

  constructor({ cluster, log, clock = Date.now }: Deps) {
    this.#cluster = cluster;
    this.#log = log;
    this.#clock = clock;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { evacuations, maintenances, nodes, pods } = this.#cluster;
    const unsubscribe = [
      evacuations.subscribe(({ type, key, object }) => {
        if (type === 'Deleted') this.#untargeted.delete(key);
        else if (isActive(object)) this.#queue.add(key);
      }),
      maintenances.subscribe(() => this.#enqueueUntargeted()),
      nodes.subscribe((change) => {
        if (change.type === 'Updated' && sameLabels(change.object, change.previous)) return;
        this.#enqueueUntargeted();
      }),
      pods.subscribe(({ type, object }) => {
        if (type === 'Deleted') this.#forget(object);
        else if (type === 'Added') this.#enqueueEvacuationOf(object);
      }),
    ];
    const reconcile = (key: string) => this.#reconcile(key);
    try {
      await this.#queue.run({ workers, reconcile, signal, log: this.#log, observer: this.#cluster.queues });
    } finally {
      for (const stop of unsubscribe) stop();
    }
  }

  #enqueueUntargeted(): void {
    for (const key of this.#untargeted) this.#queue.add(key);
    this.#untargeted.clear();
  }

  /** Handles an Evacuation whose informer event arrived before that of its pod. */
  #enqueueEvacuationOf(pod: Pod): void {
    for (const evacuation of this.#cluster.evacuations.byIndex(byPodUid, uidOf(pod)))
      if (isActive(evacuation)) this.#queue.add(keyOf(evacuation));
  }

  async #reconcile(key: string): Promise<Requeue | void> {
    const assignment = this.#assignmentOf(key);
    return assignment && this.#evacuate(assignment).catch(ignoreNotFound);
  }

  #assignmentOf(key: string): Assignment | undefined {
    const { evacuations, maintenances, nodes } = this.#cluster;
    const evacuation = evacuations.get(key);
    if (evacuation === undefined || !isActive(evacuation)) return undefined;
    const pod = podOf(this.#cluster, evacuation);
    if (pod === undefined) return undefined;
    const isTerminating = pod.metadata.deletionTimestamp !== undefined || this.#deletedAt.has(uidOf(pod));
    const daemonSet = daemonSetOf(pod)?.name;
    if (isTerminating || daemonSet === undefined) return undefined;
    const node = nodes.get(pod.spec.nodeName ?? '');
    const maintenance = node && gatingMaintenance(pod, node, maintenances.list());
    if (maintenance === undefined) {
      this.#untargeted.add(key);
      return undefined;
    }
    return { evacuation, pod, daemonSet, message: terminationMessage(daemonSet, maintenance) };
  }

  #forget(pod: Pod): void {
    const uid = uidOf(pod);
    const deletedAt = this.#deletedAt.get(uid);
    if (deletedAt !== undefined) this.#recordRemoval(pod, deletedAt);
    this.#deletedAt.delete(uid);
    this.#retryAtMs.delete(uid);
  }

  /** Writes the status before it deletes the pod, so that a crash in between leaves a pod that is still to be deleted. */
  async #evacuate(assignment: Assignment): Promise<Requeue | undefined> {
    const waitMs = (this.#retryAtMs.get(uidOf(assignment.pod)) ?? 0) - this.#clock();
    if (waitMs > 0) return { requeueAfterMs: waitMs };
    const recreated = this.#recreatedBlocker(assignment);
    if (recreated !== undefined) return this.#block(assignment, recreated);
    const wasBlocked = isTrue(assignment.evacuation.status?.conditions, blockedCondition);
    const reported = wasBlocked ? assignment : await this.#reportTermination(assignment);
    const rejection = await this.#delete(assignment.pod);
    if (rejection !== undefined) return this.#block(reported, rejection);
    if (wasBlocked) await this.#reportTermination(assignment);
    return undefined;
  }

  async #block(assignment: Assignment, blocker: Blocker): Promise<Requeue> {
    this.#retryAtMs.set(uidOf(assignment.pod), this.#clock() + blockedRetryMs);
    const { message, conditions } = assignment.evacuation.status ?? {};
    const isReported = message === blocker.message && isTrue(conditions, blockedCondition);
    if (!isReported) await this.#report(assignment, { message: blocker.message }, blocker);
    return { requeueAfterMs: blockedRetryMs };
  }

  /** Returns a blocker for a pod that its DaemonSet recreated at once. */
  #recreatedBlocker({ pod }: Assignment): Blocker | undefined {
    const last = this.#removals.get(placeOf(pod) ?? '');
    if (last === undefined || this.#clock() - last.goneAtMs > recreatedWithinMs) return undefined;
    // With maxSurge a node can have two pods at a time, and neither replaces the other one.
    if (!wasCreatedSince(pod, last.deletedAt)) return undefined;
    return recreatedBlocker(pod);
  }

  /** Deletes the pod. Returns a blocker when the apiserver rejects the deletion. */
  async #delete(pod: Pod): Promise<Blocker | undefined> {
    const { name, namespace = '' } = pod.metadata;
    const uid = uidOf(pod);
    try {
      this.#deletedAt.set(uid, this.#cluster.kube.now());
      await this.#cluster.kube.delete(resources.pods, { namespace, name }, { uid });
      return undefined;
    } catch (error) {
      this.#deletedAt.delete(uid);
      if (!isRejection(error)) throw error;
      const message = `The apiserver rejected the deletion of the pod: ${error.apiMessage}`;
      return { reason: BlockerReason.DeletionRejected, message };
    }
  }

  #recordRemoval(pod: Pod, deletedAt: Date): void {
    const nowMs = this.#clock();
    for (const [place, { goneAtMs }] of this.#removals)
      if (nowMs - goneAtMs > recreatedWithinMs) this.#removals.delete(place);
    this.#removals.set(placeOf(pod) ?? '', { deletedAt, goneAtMs: nowMs });
  }

  /** Reports that the pod terminates, with the fields of the example in the KEP. */
  async #reportTermination(assignment: Assignment): Promise<Assignment> {
    const { message, evacuation, pod } = assignment;
    const now = this.#cluster.kube.now();
    const { expectedEvacuationFinishTime } = evacuation.status ?? {};
    const isReported = evacuation.status?.message === message && expectedEvacuationFinishTime !== undefined;
    if (isReported && Date.parse(expectedEvacuationFinishTime) > now.getTime()) return assignment;
    const finish = new Date(now.getTime() + gracePeriodSecondsOf(pod) * 1_000);
    return this.#report(assignment, {
      activeEvacuatorCompleted: false,
      evacuationProgressTimestamp: now.toISOString(),
      expectedEvacuationFinishTime: finish.toISOString(),
      message,
    });
  }

  /**
   * Patches the status at the resourceVersion that was read: an evacuator that is no longer active must not overwrite the
   * status of its successor.
   */
  async #report(
    assignment: Assignment,
    next: Partial<EvacuationStatus>,
    blocker?: Blocker,
  ): Promise<Assignment> {
    const { metadata, status } = assignment.evacuation;
    const { name, namespace = '', uid, resourceVersion } = metadata;
    const conditions = blockedConditions(status?.conditions ?? [], blocker, this.#cluster.kube.now());
    const patch = { metadata: { uid, resourceVersion }, status: { ...next, conditions } };
    const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
    const { kube } = this.#cluster;
    const evacuation = await kube.mergePatch(resources.evacuations, { namespace, name }, patch, options);
    return { ...assignment, evacuation };
  }
}

/** Reports whether the DaemonSet evacuator is active and has not completed. */
function isActive({ metadata, status }: Evacuation): boolean {
  if (metadata.deletionTimestamp !== undefined || status?.activeEvacuatorCompleted === true) return false;
  return status?.activeEvacuatorClass === DAEMONSET_EVACUATOR;
}

function uidOf({ metadata }: Pod): string {
  return metadata.uid ?? '';
}
