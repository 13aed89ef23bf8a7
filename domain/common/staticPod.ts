import { EVACUATE_CONTROL_PLANE_ANNOTATION } from '../../api/names.ts';

/** The part of a manifest, or of its mirror pod, that decides whether it may be stopped. */
export interface StaticPodMetadata {
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
}

/** The `component` labels that kubeadm sets. */
const controlPlaneComponents: readonly (string | undefined)[] = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
];

/** Returns true for a part of the control plane, by the labels that kubeadm sets. */
export function isControlPlanePod({ labels = {} }: StaticPodMetadata): boolean {
  return labels['tier'] === 'control-plane' || controlPlaneComponents.includes(labels['component']);
}

/** Returns true for a part of the control plane whose manifest does not permit drains to stop it. */
export function needsConsent(metadata: StaticPodMetadata): boolean {
  return isControlPlanePod(metadata) && metadata.annotations?.[EVACUATE_CONTROL_PLANE_ANNOTATION] !== 'true';
}
