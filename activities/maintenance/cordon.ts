import type { Node } from '../../api/core.ts';
import type { NodeMaintenanceNodeStatus, NodeMaintenanceStatus } from '../../api/nodeMaintenance.ts';
import { newNodeStatus, withCordon } from '../../domain/maintenance/status.ts';
import type { ObservedStage, MaintenanceRef } from '../contract.ts';
import type { Deps } from '../deps.ts';
import { acquireNodeLeases } from '../leases/nodeLeases.ts';
import { returnUncordonedNodes } from '../leases/returnedNodes.ts';
import { otherDelayMs, reconcile } from '../reconcile.ts';
import { StatusWriter } from '../statusWriter.ts';
import { isView, namesOf, readView } from '../view.ts';

/**
 * Keeps "`.spec.unschedulable` true on all nodes that satisfy .spec.nodeSelector" (KEP-4212 > Cordon), including nodes that satisfy it
 * later, until the maintenance leaves the stage Cordon.
 */
export async function keepCordoned(deps: Deps, ref: MaintenanceRef): Promise<ObservedStage> {
  const { cluster } = deps;
  let writer: StatusWriter | undefined;
  const pass = async () => {
    const view = await readView(cluster, ref, 'Cordon');
    if (!isView(view)) return view;
    writer ??= new StatusWriter(cluster.kube, view.maintenance, deps.lastStatusWrites);
    writer.update(view.maintenance);
    const acquired = await acquireNodeLeases(deps, view);
    const held = acquired && (await deps.cordons.of(ref.uid).reconcile(acquired, writer));
    if (held === undefined) return undefined;
    const returned = await returnUncordonedNodes(deps, view);
    const now = cluster.kube.now().toISOString();
    const input = { waiting: held.waiting, now, existing: namesOf(view.existing, returned) };
    writer.publish((status) => withCordon(status, nodeStatusesOf(status, view.nodes), input));
    return undefined;
  };
  try {
    return await reconcile<ObservedStage>(
      deps,
      { maintenance: ref.name, otherMs: () => otherDelayMs('Waiting') },
      pass,
    );
  } finally {
    await writer?.stop();
  }
}

/** Returns one status for each node; an empty one where nothing is recorded. */
function nodeStatusesOf(
  { nodeStatuses }: NodeMaintenanceStatus,
  nodes: readonly Node[],
): NodeMaintenanceNodeStatus[] {
  const recorded = new Map(nodeStatuses.map((node) => [node.nodeRef.name, node] as const));
  return nodes.map(({ metadata: { name } }) => recorded.get(name) ?? newNodeStatus(name));
}
