import type { OwnerReference, Pod } from '../../api/core.ts';
import { AGENT_SERVICE_ACCOUNT, WORK_NAMESPACE } from '../../api/names.ts';
import type { PodType } from '../../api/nodeMaintenance.ts';
import { isAgentPod } from './staticPod.ts';

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
 * Returns true for a pod that every drain leaves where it is: that of a Job of a window, for whose work the node is drained, and that of the node
 * agent, which stops the static pods and starts them again. `namespace` is that of the installation.
 */
export function isLeftRunning(pod: Pod, namespace: string): boolean {
  return isWork(pod) || isNodeAgent(pod, namespace);
}

/** Returns true for a pod of a Job of a window. Only administrators create Jobs in the namespace of work. */
export function isWork({ metadata }: Pod): boolean {
  if (metadata.namespace !== WORK_NAMESPACE) return false;
  return (
    metadata.ownerReferences?.some(({ kind, controller }) => kind === 'Job' && controller === true) ?? false
  );
}

/** A static pod cannot have a ServiceAccount. Only those who administer a node write its manifests. */
function isNodeAgent(pod: Pod, namespace: string): boolean {
  const { metadata, spec } = pod;
  if (podTypeOf(pod) === 'Static') return isAgentPod(metadata);
  return metadata.namespace === namespace && spec.serviceAccountName === AGENT_SERVICE_ACCOUNT;
}

/** The kubelet names the source of every static pod: "file", or "http" for one from a URL. */
const sourceAnnotation = 'kubernetes.io/config.source';

/** Returns true unless the kubelet got the manifest of this static pod from elsewhere than its folder. */
export function isFromFile({ metadata }: Pod): boolean {
  return (metadata.annotations?.[sourceAnnotation] ?? 'file') === 'file';
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
/** 68 years. The apiserver accepts periods beyond the last date that can be written. */
const maxGracePeriodSeconds = 2 ** 31 - 1;

/** Returns the termination grace period of the pod, at most 68 years. */
export function gracePeriodSecondsOf(pod: Pod): number {
  return Math.min(pod.spec.terminationGracePeriodSeconds ?? defaultGracePeriodSeconds, maxGracePeriodSeconds);
}

/** Returns true if all containers have terminated and none is restarted. */
export function isFinished({ status }: Pod): boolean {
  return status.phase === 'Succeeded' || status.phase === 'Failed';
}

/** Returns `namespace/name`. */
export function podName(pod: Pod): string {
  return `${pod.metadata.namespace}/${pod.metadata.name}`;
}
