import type { Node } from '../../api/core.ts';
import type {
  NodeMaintenance,
  NodeMaintenanceNodeStatus,
  NodeMaintenanceStatus,
} from '../../api/nodeMaintenance.ts';
import type { ConditionFacts } from './conditions.ts';
import { listed } from './names.ts';
import { selectsNode } from './nodeSelector.ts';
import { holdsNodes, stageOf } from './stage.ts';
import { oneLine } from './text.ts';

export const NODES_AUTHORIZED = 'NodesAuthorized';

/** A selected node that the maintenance does not change, or no longer changes, because its requester may not maintain it (ADR 27). */
export interface DeniedNode {
  name: string;
  /** A human-readable reason; the same for all nodes of a maintenance. */
  because: string;
  /** `Denied`: nothing is done to the node. `Withdrawn`: it was cordoned before, and nothing more is started on it. */
  permission: 'Denied' | 'Withdrawn';
}

/** Limits the size of the status, which has one message per node. */
const maxReasonLength = 256;

/** Returns the message in the status of the node. */
export function deniedMessage({ because, permission }: DeniedNode): string {
  const what = permission === 'Denied' ? 'Skipped' : 'Stays cordoned, and nothing more is started';
  return `${what}: ${oneLine(because, maxReasonLength)}.`;
}

/** Returns the condition that reports whether the requester may maintain all nodes of the maintenance. */
export function nodesAuthorizedCondition(denied: readonly DeniedNode[]): ConditionFacts {
  const type = NODES_AUTHORIZED;
  const [first] = denied;
  if (first === undefined)
    return { type, status: 'True', reason: 'Authorized', message: 'The requester may maintain all nodes.' };
  const names = listed(denied.map(({ name }) => name));
  const message = `${denied.length === 1 ? 'Node' : 'Nodes'} ${names}: ${oneLine(first.because, maxReasonLength)}.`;
  return { type, status: 'False', reason: 'NotAuthorized', message };
}

/** Returns the selected nodes that the maintenance skips, according to its status. */
export function skippedNodes({
  status,
}: {
  status?: NodeMaintenanceStatus | undefined;
}): ReadonlySet<string> {
  return new Set(status?.nodeStatuses.filter(isSkipped).map(({ nodeRef }) => nodeRef.name));
}

function isSkipped({ authorized, unschedulableBefore }: NodeMaintenanceNodeStatus): boolean {
  return authorized === false && unschedulableBefore === undefined;
}

/** Returns true if the maintenance is in Cordon or Drain, selects the node, and does not skip it. */
export function holdsNode(
  maintenance: Pick<NodeMaintenance, 'metadata' | 'spec' | 'status'>,
  node: Pick<Node, 'metadata'>,
): boolean {
  return (
    holdsNodes(stageOf(maintenance)) &&
    selectsNode(maintenance.spec.nodeSelector, node) &&
    maintenance.status?.nodeStatuses.some(
      (one) => isSkipped(one) && one.nodeRef.name === node.metadata.name,
    ) !== true
  );
}
