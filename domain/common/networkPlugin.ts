import type { Condition } from '../../api/core.ts';

/** Begins the message of kubelets, with every container runtime. If something else is missing, too, they begin with a bracket. */
const networkNotReady = 'container runtime network not ready';

/**
 * Reports whether a kubelet is not ready for the sole reason that no network plugin runs. Where its configuration does not survive a boot, the pod of a
 * DaemonSet writes it, and that pod returns only with Complete: Complete must not wait for the plugin.
 */
export function awaitsNetworkPlugin(
  conditions: readonly (Pick<Condition, 'type' | 'status'> & { readonly message?: string })[] = [],
): boolean {
  const ready = conditions.find(({ type }) => type === 'Ready');
  return ready?.status === 'False' && ready.message?.startsWith(networkNotReady) === true;
}
