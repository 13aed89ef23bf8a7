import { AGENT_COMPONENT, EVACUATE_CONTROL_PLANE_ANNOTATION } from '../../api/names.ts';

/** The part of a manifest, or of its mirror pod, that decides whether it may be stopped. */
interface Metadata {
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
}

/** The components that kubeadm and others run as static pods, by their label `component`. */
const controlPlaneComponents: ReadonlySet<string> = new Set([
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
]);

/** Returns true for a static pod of the control plane, by the labels of its manifest, which its mirror pod has, too. */
export function isControlPlanePod({ labels = {} }: Metadata): boolean {
  return labels['tier'] === 'control-plane' || controlPlaneComponents.has(labels['component'] ?? '');
}

/** Returns true for a static pod of the control plane without the annotation that permits to stop it. */
export function needsConsent(metadata: Metadata): boolean {
  return isControlPlanePod(metadata) && metadata.annotations?.[EVACUATE_CONTROL_PLANE_ANNOTATION] !== 'true';
}

/** Returns true for a pod of the node agent itself, which must not stop itself. */
export function isAgentPod({ labels = {} }: Metadata): boolean {
  return labels['app.kubernetes.io/name'] === AGENT_COMPONENT;
}
