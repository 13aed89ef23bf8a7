import type { Pod } from '../../api/core.ts';
import { AGENT_COMPONENT, EVACUATE_CONTROL_PLANE_ANNOTATION } from '../../api/names.ts';

/** The part of a manifest that decides whether its pod may be stopped. */
interface StaticPod {
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
}

/** The labels by which installers name what a static pod is: kubeadm the first one, kOps and Kubespray the second one. */
const nameLabels = ['component', 'k8s-app', 'app', 'app.kubernetes.io/name', 'app.kubernetes.io/component'];

/** Names of the control plane, and of what kubelets reach its apiservers by: without either one the agent could not put it back. */
const controlPlaneNames: readonly RegExp[] = [
  /^(openshift-)?kube-(apiserver|controller-manager|scheduler)$/,
  // kOps runs etcd by etcd-manager-main and etcd-manager-events.
  /^etcd(-manager(-.+)?)?$/,
  /^(.+-)?cloud-controller-manager$/,
  // Proxies on workers: nginx-proxy (k8s-app: kube-nginx) and haproxy of Kubespray, kube-apiserver-proxy of HyperShift, lvscare of Sealos.
  /^(nginx-proxy|kube-nginx|haproxy|kube-haproxy|kube-apiserver-proxy|kube-sealos-lvscare)$/,
  // Virtual IP addresses of the apiservers.
  /^(kube-vip|keepalived)$/,
];

/** Returns what the manifest of a mirror pod says. The kubelet appends the name of the node to that of the pod. */
export function staticPodOf({ metadata, spec }: Pod): StaticPod {
  const { name, labels, annotations } = metadata;
  const suffix = `-${(spec.nodeName ?? '').toLowerCase()}`;
  return { name: name.endsWith(suffix) ? name.slice(0, -suffix.length) : name, labels, annotations };
}

/**
 * Returns true for a static pod of the control plane, or for one by which the kubelet reaches it, by its labels or its name. One that is wrongly
 * taken for such a pod only keeps running until its manifest permits to stop it.
 */
export function isControlPlanePod({ name, labels = {} }: StaticPod): boolean {
  if (labels['tier'] === 'control-plane') return true;
  const names = [name, ...nameLabels.map((key) => labels[key] ?? '')];
  return names.some((one) => controlPlaneNames.some((pattern) => pattern.test(one)));
}

/** Returns true for a static pod of the control plane without the annotation that permits to stop it. */
export function needsConsent(pod: StaticPod): boolean {
  return isControlPlanePod(pod) && pod.annotations?.[EVACUATE_CONTROL_PLANE_ANNOTATION] !== 'true';
}

/** Returns true for a pod of the node agent itself, which must not stop itself. */
export function isAgentPod({ labels = {} }: Pick<StaticPod, 'labels'>): boolean {
  return labels['app.kubernetes.io/name'] === AGENT_COMPONENT;
}
