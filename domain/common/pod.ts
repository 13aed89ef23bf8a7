import type { OwnerReference, Pod } from '../../api/core.ts';
import type { PodType } from '../../api/nodeMaintenance.ts';

/** The kubelet publishes a static pod as a mirror pod that carries this annotation. */
const mirrorAnnotation = 'kubernetes.io/config.mirror';

/**
 * Returns the pod type: "Default selects all pods except DaemonSet and Static pods"
 * (KEP-4212 > NodeMaintenance API).
 */
export function podTypeOf(pod: Pod): PodType {
  if (pod.metadata.annotations?.[mirrorAnnotation] !== undefined) return 'Static';
  return daemonSetOf(pod) === undefined ? 'Default' : 'DaemonSet';
}

/**
 * Returns true if the pod belongs to a Job in `namespace`, where only administrators create Jobs: it does the work for which the node is drained,
 * and is not evacuated.
 */
export function isWork({ metadata }: Pod, namespace: string): boolean {
  if (metadata.namespace !== namespace) return false;
  return (
    metadata.ownerReferences?.some(({ kind, controller }) => kind === 'Job' && controller === true) ?? false
  );
}

/** Returns the owner reference of the DaemonSet that controls the pod. */
export function daemonSetOf(pod: Pod): OwnerReference | undefined {
  const controller = pod.metadata.ownerReferences?.find((owner) => owner.controller === true);
  return controller?.kind === 'DaemonSet' && controller.apiVersion.startsWith('apps/')
    ? controller
    : undefined;
}

/** Returns the priority of the pod. Like the scheduler, treats a missing priority as 0. */
export function podPriorityOf(pod: Pod): number {
  return pod.spec.priority ?? 0;
}

const defaultGracePeriodSeconds = 30;

/** Returns the termination grace period of the pod. */
export function gracePeriodSecondsOf(pod: Pod): number {
  return pod.spec.terminationGracePeriodSeconds ?? defaultGracePeriodSeconds;
}

/** Returns true if all containers have terminated and none is restarted. */
export function isFinished({ status }: Pod): boolean {
  return status.phase === 'Succeeded' || status.phase === 'Failed';
}

/** Returns `namespace/name`. */
export function podName(pod: Pod): string {
  return `${pod.metadata.namespace}/${pod.metadata.name}`;
}
