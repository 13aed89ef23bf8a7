import type { OwnerReference, Pod } from '../../api/core.ts';
import { isFinished, podTypeOf } from '../common/pod.ts';
import { schedulingOf } from './clusterState.ts';

/**
 * Reports whether a replacement of the pod needs a place on another node when the pod leaves: pods with a controller that are not done. Pods of
 * DaemonSets and static pods stay away until Complete, and nothing recreates a pod without a controller.
 */
export function needsPlace(pod: Pod): boolean {
  return (
    podTypeOf(pod) === 'Default' && !isFinished(pod) && controllerOf(pod) !== undefined && isModelled(pod)
  );
}

/** Other schedulers have other rules, and the rules of some pods are too many. */
export function isModelled(pod: Pod): boolean {
  const { schedulerName, hasTooManyRules } = schedulingOf(pod);
  return schedulerName === undefined && hasTooManyRules !== true;
}

export function controllerOf({ metadata }: Pod): OwnerReference | undefined {
  return metadata.ownerReferences?.find(({ controller }) => controller === true);
}

/** A pod that waits for a node this long, although one fits, waits for something that is not modelled. */
const pendingMs = 5 * 60_000;

/** Reports whether the scheduler is about to find a node for the pod. */
export function isAboutToBeScheduled(pod: Pod, nowMs: number): boolean {
  const { creationTimestamp = '' } = pod.metadata;
  return isWaitingForNode(pod) && nowMs - Date.parse(creationTimestamp) < pendingMs;
}

/** Reports whether the pod waits for the default scheduler, by rules that are modelled. */
export function isWaitingForNode(pod: Pod): boolean {
  const { metadata, spec, status } = pod;
  return (
    spec.nodeName === undefined &&
    metadata.deletionTimestamp === undefined &&
    status.phase === 'Pending' &&
    (spec.schedulingGates ?? []).length === 0 &&
    isModelled(pod)
  );
}

/**
 * Returns the pods whose replacements do not exist yet, among pods that are being evacuated (`since`: when each began to terminate, or
 * undefined). A pod of the same controller that was created later replaces one of them.
 */
export function withoutReplacement(
  leaving: readonly { pod: Pod; since: number | undefined }[],
  pods: readonly Pod[],
): Pod[] {
  const created = new Map<string, number[]>();
  const own = new Set(leaving.map(({ pod }) => pod.metadata.uid));
  const controllers = new Set(leaving.map(({ pod }) => controllerOf(pod)?.uid));
  for (const pod of pods) {
    const uid = controllerOf(pod)?.uid;
    if (uid === undefined || !controllers.has(uid) || own.has(pod.metadata.uid)) continue;
    const times = created.get(uid) ?? [];
    times.push(Date.parse(pod.metadata.creationTimestamp ?? ''));
    created.set(uid, times);
  }
  for (const times of created.values()) times.sort((a, b) => a - b);
  // The one that left first is replaced first.
  return leaving
    .toSorted((a, b) => (a.since ?? Infinity) - (b.since ?? Infinity))
    .filter(({ pod, since }) => {
      const times = created.get(controllerOf(pod)?.uid ?? '');
      const index = since === undefined ? -1 : (times?.findIndex((time) => time >= since) ?? -1);
      if (index >= 0) times?.splice(index, 1);
      return index < 0;
    })
    .map(({ pod }) => pod);
}

/** Returns when a terminating pod was deleted, in milliseconds since the epoch and whole seconds like creationTimestamp. */
export function deletedAt({ metadata }: Pod): number | undefined {
  const { deletionTimestamp, deletionGracePeriodSeconds = 0 } = metadata;
  if (deletionTimestamp === undefined) return undefined;
  return Date.parse(deletionTimestamp) - deletionGracePeriodSeconds * 1_000;
}
