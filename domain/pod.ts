import type { OwnerReference, Pod } from '../api/core.ts';
import type { PodType } from '../api/nodeMaintenance.ts';
import type { Blocker } from './blocker.ts';

export interface PodSnapshot {
  pod: Pod;
  /** Whether the pod has a matching Evacuation that we instigate. */
  evacuating: boolean;
  /** What keeps it from leaving, if anything does. */
  blocker?: Blocker | undefined;
}

/** The kubelet publishes a static pod as a mirror pod that carries this annotation. */
const mirrorAnnotation = 'kubernetes.io/config.mirror';

/**
 * Which of the KEP's three pod types a pod has: "Default selects all pods except DaemonSet and Static pods"
 * (KEP-4212 > NodeMaintenance API).
 */
export function podTypeOf(pod: Pod): PodType {
  if (pod.metadata.annotations?.[mirrorAnnotation] !== undefined) return 'Static';
  return daemonSetOf(pod) === undefined ? 'Default' : 'DaemonSet';
}

/**
 * Whether the pod does the work for which its node is drained: a Job's, in the namespace that `namespace` names, where nobody but
 * administrators makes any. No drain asks it to leave.
 */
export function isWork({ metadata }: Pod, namespace: string): boolean {
  if (metadata.namespace !== namespace) return false;
  return (
    metadata.ownerReferences?.some(({ kind, controller }) => kind === 'Job' && controller === true) ?? false
  );
}

/** The DaemonSet that made the pod, if one did. */
export function daemonSetOf(pod: Pod): OwnerReference | undefined {
  const controller = pod.metadata.ownerReferences?.find((owner) => owner.controller === true);
  return controller?.kind === 'DaemonSet' && controller.apiVersion.startsWith('apps/')
    ? controller
    : undefined;
}

/** A pod without a priority has the default one, 0, as the scheduler reads it. */
export function podPriorityOf(pod: Pod): number {
  return pod.spec.priority ?? 0;
}

const defaultGracePeriod = 30;

/** How long the pod may take to end. Seconds. */
export function gracePeriodOf(pod: Pod): number {
  return pod.spec.terminationGracePeriodSeconds ?? defaultGracePeriod;
}

/** Whether all its containers have ended, for good. */
export function isFinished({ status }: Pod): boolean {
  return status.phase === 'Succeeded' || status.phase === 'Failed';
}

/** namespace/name, as people write it. */
export function podName(pod: Pod): string {
  return `${pod.metadata.namespace}/${pod.metadata.name}`;
}
