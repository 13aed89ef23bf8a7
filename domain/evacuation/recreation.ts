import type { OwnerReference, Pod } from '../../api/core.ts';
import { type Blocker, BlockerReason } from './blocker.ts';

/** A pod that was created within this time after its predecessor was gone was not kept off the node. */
export const recreatedWithinMs = 10_000;

/** Compares in whole seconds, because creation timestamps have no fraction. */
export function wasCreatedSince({ metadata }: Pod, time: Date): boolean {
  return createdAtMs(metadata) >= Math.floor(time.getTime() / 1_000) * 1_000;
}

/** Identifies a controller and a node, on which the controller may create the same pod again; undefined for a pod without a controller. */
export function placeOf(pod: Pod): string | undefined {
  const controller = controllerOf(pod);
  return controller && `${controller.uid}/${pod.spec.nodeName}`;
}

/** The deletion of a pod, by the clock of the apiserver. */
export interface DeletedPod {
  readonly uid: string | undefined;
  readonly deletedAt: Date;
  readonly gracePeriodSeconds: number;
}

/** Reports whether the pod was created in place of the deleted one as soon as that was gone. */
export function isRecreated(pod: Pod, deleted: DeletedPod): boolean {
  if (pod.metadata.uid === deleted.uid || !wasCreatedSince(pod, deleted.deletedAt)) return false;
  return mayBeRecreated(deleted, new Date(createdAtMs(pod.metadata)));
}

/** Reports whether a pod that is created at this time may be in place of the deleted one. */
export function mayBeRecreated({ deletedAt, gracePeriodSeconds }: DeletedPod, at: Date): boolean {
  return at.getTime() <= deletedAt.getTime() + gracePeriodSeconds * 1_000 + recreatedWithinMs;
}

/**
 * Returns the blocker of a pod that its controller recreated at once. Without it, a missing policy, or a pod template with a node name, would cause
 * an endless loop of deletions.
 */
export function recreatedBlocker(pod: Pod): Blocker {
  const { kind = 'controller', name = '' } = controllerOf(pod) ?? {};
  const policy =
    kind === 'DaemonSet'
      ? 'the policy daemonset-gate.nodemaintenance.k8s.io is installed and that the pod template of the DaemonSet'
      : 'its pod template does not tolerate the cordon, and';
  return {
    reason: BlockerReason.PodRecreated,
    message: `${kind} ${name} recreated this pod on node ${pod.spec.nodeName} right after the previous one was deleted: check that ${policy} does not set spec.nodeName.`,
  };
}

function controllerOf({ metadata }: Pod): OwnerReference | undefined {
  return metadata.ownerReferences?.find(({ controller }) => controller === true);
}

function createdAtMs({ creationTimestamp = '' }: Pod['metadata']): number {
  return Date.parse(creationTimestamp);
}
