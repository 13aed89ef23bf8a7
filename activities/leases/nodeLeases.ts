import type { Node } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { NodeDecision } from '../../domain/common/requester.ts';
import { isCordoned } from '../../domain/common/cordon.ts';
import { compareNames } from '../../domain/common/names.ts';
import { hasCordonRecord } from '../../domain/maintenance/status.ts';
import type { Deps } from '../deps.ts';
import { type HeldView, nodeStatusOf, type View } from '../view.ts';

/**
 * Acquires the Leases of the nodes of a view that the requester may maintain, or could maintain when they were cordoned, and renews those that
 * are due. Resolves with undefined if the view is outdated.
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
      (isCordoned(node) && hasCordonRecord(nodeStatusOf(maintenance, node))),
  );
}
