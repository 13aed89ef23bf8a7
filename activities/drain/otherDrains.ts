import type { Node, Pod } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { maintenancesTargeting } from '../../domain/drain/drainingMaintenances.ts';
import type { Cluster } from '../../kube/cluster.ts';

/** Returns the other maintenances that may drain the node. */
export type OtherDrains = (node: Node) => readonly NodeMaintenance[];

/** Returns the other maintenances that target the pod. */
export function othersThatNeed(
  { nodes }: Pick<Cluster, 'nodes'>,
  others: OtherDrains,
  pod: Pod,
): NodeMaintenance[] {
  const node = nodes.get(pod.spec.nodeName ?? '');
  return node === undefined ? [] : maintenancesTargeting(pod, node, others(node));
}
