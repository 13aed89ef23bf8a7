import type { DaemonSet, Node, Pod } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { drainingMaintenances } from './drainingMaintenances.ts';
import { targetsPod } from './targets.ts';
import { compareNames } from '../common/names.ts';

/**
 * Returns the maintenance that keeps the scheduling gate on a DaemonSet's pod; the oldest, if there are several. The gate stays "only if there
 * is a NodeMaintenance happening on that node and the DaemonSet is in the drainTargets" (KEP-4212 > DaemonSet Controller) that the status
 * publishes. The policy `daemonset-gate.nodemaintenance.k8s.io` decides the same, without knowing the node.
 */
export function gatingMaintenance(
  pod: Pod,
  node: Node,
  maintenances: readonly NodeMaintenance[],
): NodeMaintenance | undefined {
  const gating = drainingMaintenances(node, maintenances).filter(({ status }) => {
    const own = status?.nodeStatuses.find(({ nodeRef }) => nodeRef.name === node.metadata.name);
    return targetsPod(own?.drainTargets ?? [], pod);
  });
  return gating.toSorted(byAge)[0];
}

function byAge({ metadata: a }: NodeMaintenance, { metadata: b }: NodeMaintenance): number {
  return compareNames(a.creationTimestamp ?? '', b.creationTimestamp ?? '') || compareNames(a.name, b.name);
}

/** Returns the message of the KEP. The name of the maintenance replaces a missing reason. */
export function terminationMessage(daemonSet: string, { metadata, spec }: NodeMaintenance): string {
  return `${daemonSet} is terminating the pod due to node maintenance (${spec.reason || metadata.name}).`;
}

/**
 * Returns true while the DaemonSet controller replaces pods and limits the unavailable ones. With maxSurge it creates the new pod first, and a
 * node without the old pod does not count against the limit.
 */
export function isRollingOut({ metadata, spec, status }: DaemonSet): boolean {
  const { type = 'RollingUpdate', rollingUpdate = {} } = spec.updateStrategy ?? {};
  if (type !== 'RollingUpdate' || scaled(rollingUpdate.maxSurge ?? 0, 100) > 0) return false;
  if (status === undefined || status.observedGeneration !== metadata.generation) return false;
  return (status.updatedNumberScheduled ?? 0) < status.currentNumberScheduled;
}

/** Returns the number of pods that may be unavailable during a rolling update. */
export function maxUnavailableOf({ spec, status }: DaemonSet): number {
  const maxUnavailable = spec.updateStrategy?.rollingUpdate?.maxUnavailable ?? 1;
  return Math.max(1, scaled(maxUnavailable, status?.desiredNumberScheduled ?? 0));
}

/** Resolves an IntOrString against `total`, rounding up as the DaemonSet controller does. */
function scaled(value: number | string, total: number): number {
  return typeof value === 'number' ? value : Math.ceil((Number.parseInt(value, 10) * total) / 100);
}
