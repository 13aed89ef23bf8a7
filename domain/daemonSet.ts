import type { DaemonSet, Node, Pod } from '../api/core.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { drainersOf } from './drainers.ts';
import { targetsPod } from './drainTargets.ts';
import { compareNames } from './names.ts';

/**
 * The maintenance that keeps a DaemonSet's pod away from a node, the oldest if several do: "only if there is a NodeMaintenance
 * happening on that node and the DaemonSet is in the drainTargets" (KEP-4212 > DaemonSet Controller), which are those that
 * its status publishes. The policy `daemonset-gate.nodemaintenance.k8s.io` decides the same, without knowing the node.
 */
export function withholderOf(
  pod: Pod,
  node: Node,
  maintenances: readonly NodeMaintenance[],
): NodeMaintenance | undefined {
  const withholders = drainersOf(node, maintenances).filter(({ status }) => {
    const own = status?.nodeStatuses.find(({ nodeRef }) => nodeRef.name === node.metadata.name);
    return targetsPod(own?.drainTargets ?? [], pod);
  });
  return withholders.toSorted(byAge)[0];
}

function byAge({ metadata: a }: NodeMaintenance, { metadata: b }: NodeMaintenance): number {
  return compareNames(a.creationTimestamp ?? '', b.creationTimestamp ?? '') || compareNames(a.name, b.name);
}

/** The KEP's sentence; a maintenance without a reason is named instead. */
export function terminationMessage(daemonSet: string, { metadata, spec }: NodeMaintenance): string {
  return `${daemonSet} is terminating the pod due to node maintenance (${spec.reason || metadata.name}).`;
}

/**
 * Whether the DaemonSet controller is replacing pods one after the other, and counts those that are not available while it
 * does. With maxSurge the new pod is made first, and a node whose old pod is gone counts for nothing.
 */
export function isRollingOut({ metadata, spec, status }: DaemonSet): boolean {
  const { type = 'RollingUpdate', rollingUpdate = {} } = spec.updateStrategy ?? {};
  if (type !== 'RollingUpdate' || scaled(rollingUpdate.maxSurge ?? 0, 100) > 0) return false;
  if (status === undefined || status.observedGeneration !== metadata.generation) return false;
  return (status.updatedNumberScheduled ?? 0) < status.currentNumberScheduled;
}

/** How many of its pods may be unavailable meanwhile. */
export function maxUnavailableOf({ spec, status }: DaemonSet): number {
  const maxUnavailable = spec.updateStrategy?.rollingUpdate?.maxUnavailable ?? 1;
  return Math.max(1, scaled(maxUnavailable, status?.desiredNumberScheduled ?? 0));
}

/** An IntOrString of `total`, rounded up as the DaemonSet controller does. */
function scaled(value: number | string, total: number): number {
  return typeof value === 'number' ? value : Math.ceil((Number.parseInt(value, 10) * total) / 100);
}
