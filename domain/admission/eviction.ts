import type { Pod } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { holdsNodes, stageOf } from '../common/stage.ts';
import { compareNames } from '../common/names.ts';

/** Maximum number of maintenances of a node that a user is warned of. */
const maxWarnings = 3;

/**
 * Returns warnings for the user who evicts a pod directly: which maintenances hold its node, and what they do with its pods. No pod is named, so
 * that kubectl prints each warning once for all pods of a node.
 */
export function evictionWarnings(
  { spec: { nodeName } }: Pod,
  maintenances: readonly Pick<NodeMaintenance, 'metadata' | 'spec' | 'status'>[],
): string[] {
  if (nodeName === undefined) return [];
  const holding = holdingMaintenances(nodeName, maintenances);
  const warnings = holding.slice(0, maxWarnings).map((one) => {
    const stage = stageOf(one);
    const holds = `NodeMaintenance ${one.metadata.name} (stage ${stage}) holds node ${nodeName}`;
    return stage === 'Drain'
      ? `${holds} and evacuates its pods by itself, in the order of its drain plan: a direct eviction does not follow that order`
      : `${holds} and will evacuate its pods by itself in stage Drain: a direct eviction comes before that`;
  });
  const more = holding.length - maxWarnings;
  return more > 0
    ? [...warnings, `${more} more NodeMaintenance${more === 1 ? ' holds' : 's hold'} node ${nodeName}`]
    : warnings;
}

/** Returns the maintenances that hold a node, by name. */
function holdingMaintenances(
  node: string,
  maintenances: readonly Pick<NodeMaintenance, 'metadata' | 'spec' | 'status'>[],
) {
  return maintenances
    .filter((one) => holdsNodes(stageOf(one)))
    .filter(({ status }) => {
      const own = status?.nodeStatuses.find(({ nodeRef }) => nodeRef.name === node);
      // It is recorded before the node is cordoned for the first time.
      return own?.unschedulableBefore !== undefined;
    })
    .toSorted((a, b) => compareNames(a.metadata.name, b.metadata.name));
}
