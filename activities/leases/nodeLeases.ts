import type { Node } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { NodeDecision } from '../../domain/common/requester.ts';
import { isCordoned } from '../../domain/common/cordon.ts';
import { compareNames } from '../../domain/common/names.ts';
import { holdsNodes, stageOf } from '../../domain/common/stage.ts';
import { type DetailsSnapshot, detailsSnapshotAt } from '../../domain/maintenance/detailsSnapshot.ts';
import { wasCordonedByMaintenance } from '../../domain/maintenance/status.ts';
import { resources } from '../../kube/resources.ts';
import type { MaintenanceRef } from '../contract.ts';
import type { Deps } from '../deps.ts';
import { type HeldView, nodeStatusOf, selectedNodes, type View } from '../view.ts';

/**
 * Acquires and renews the Leases of the nodes of a maintenance in Cordon or Drain. The workflow calls it on a durable timer. A third of the
 * Lease duration leaves two more attempts before the Leases expire. The result carries a details snapshot, because that needs no further
 * event in the workflow history.
 */
export async function renewNodeLeases(
  { cluster, leases, nodeLeases, authority }: Deps,
  ref: MaintenanceRef,
): Promise<{ renewAfterSeconds: number; details?: DetailsSnapshot }> {
  const maintenance =
    cluster.maintenances.get(ref.name) ??
    (await cluster.kube.get(resources.nodeMaintenances, { name: ref.name }));
  // In another stage, the activity of that stage acquires the Leases itself.
  if (maintenance?.metadata.uid === ref.uid && holdsNodes(stageOf(maintenance))) {
    const existing = cluster.nodes.list();
    const { decisions } = await authority.decide(maintenance, selectedNodes(maintenance, existing));
    await nodeLeases.of(ref.uid).renew(maintenance, nodesToHold(maintenance, existing, decisions));
  }
  const cached = cluster.maintenances.get(ref.name);
  return {
    renewAfterSeconds: leases.leaseDurationSeconds / 3,
    ...(cached?.metadata.uid === ref.uid && {
      details: detailsSnapshotAt(cached, cluster.kube.now().toISOString()),
    }),
  };
}

/**
 * Acquires the Leases of the nodes of a view that the requester may maintain, or could maintain when they were cordoned. Resolves with
 * undefined if the view is outdated.
 */
export async function acquireNodeLeases(
  { nodeLeases, authority }: Pick<Deps, 'nodeLeases' | 'authority'>,
  view: View,
): Promise<HeldView | undefined> {
  const { maintenance, nodes, existing } = view;
  const leases = nodeLeases.of(maintenance.metadata.uid ?? '');
  const { decisions, denied } = await authority.decide(maintenance, nodes);
  const acquisition = await leases.acquire(maintenance, nodesToHold(maintenance, existing, decisions));
  if (acquisition.kind === 'Outdated') return undefined;
  const { held, waiting } = acquisition;
  const mayChange = (name: string) => decisions.get(name) === NodeDecision.Proceed;
  return {
    ...view,
    held: nodes.filter(({ metadata: { name } }) => held.has(name) && mayChange(name)),
    waiting: [...waiting.filter(({ name }) => mayChange(name)), ...denied].toSorted((a, b) =>
      compareNames(a.name, b.name),
    ),
  };
}

/**
 * Returns the selected nodes that are not skipped, and those that the selector no longer matches and that are still cordoned for the
 * maintenance.
 */
function nodesToHold(
  maintenance: NodeMaintenance,
  existing: readonly Node[],
  decisions: ReadonlyMap<string, NodeDecision>,
): Node[] {
  const isSelected = (name: string) => {
    const decision = decisions.get(name);
    return decision !== undefined && decision !== NodeDecision.Skip;
  };
  return existing.filter(
    (node) =>
      isSelected(node.metadata.name) ||
      (isCordoned(node) && wasCordonedByMaintenance(nodeStatusOf(maintenance, node))),
  );
}
