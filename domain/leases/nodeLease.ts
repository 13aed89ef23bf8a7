import type { ConditionFacts } from '../common/conditions.ts';
import { listed } from '../common/names.ts';
import { type DeniedNode, deniedMessage } from '../common/nodePermission.ts';
import { oneLine } from '../common/text.ts';

/** A selected node that is not cordoned or drained, because its maintenance Lease is not ours (KEP-1411). */
export interface NodeWithoutLease {
  name: string;
  /** A human-readable reason; the same for all nodes of one holder. */
  because: string;
  permission?: never;
}

/** A selected node that cannot be cordoned, because the apiserver rejects that: for example a policy of another project. */
export interface RejectedNode {
  name: string;
  /** The message of the apiserver. */
  rejection: string;
  permission?: never;
}

/** A selected node that is not changed at present. */
export type WaitingNode = NodeWithoutLease | DeniedNode | RejectedNode;

export function isDenied(node: WaitingNode | UnreturnedNode): node is DeniedNode {
  return node.permission !== undefined;
}

export function isRejected(node: WaitingNode | UnreturnedNode): node is RejectedNode {
  return 'rejection' in node;
}

export function isWithoutLease(node: WaitingNode | UnreturnedNode): node is NodeWithoutLease {
  return 'because' in node && !isDenied(node);
}

/** A node that other maintenances hold, of which none has recorded it: they may be deleted, or select other nodes, and would not return it then. */
export interface NodeHeldByOthers {
  name: string;
  /** Names of these maintenances. */
  holders: readonly string[];
  permission?: never;
}

/** A node that cannot return to service yet. */
export type UnreturnedNode = NodeWithoutLease | RejectedNode | NodeHeldByOthers;

export function isHeldByOthers(node: UnreturnedNode): node is NodeHeldByOthers {
  return 'holders' in node;
}

export const NODE_LEASES_HELD = 'NodeLeasesHeld';

/** Limits the size of the status, which has one message per node. */
const maxReasonLength = 256;
/** Any client may write any text as the holder of a Lease. */
const maxHolderLength = 200;

/** Applies to all nodes, so it is reported once. */
export const leasesRejected =
  'the worker lacks permission to write Leases in namespace kube-node-maintenance: apply the manifests of its release again, as they were installed';

export function heldByAnother(holder: string): string {
  return `held by ${oneLine(holder, maxHolderLength)}`;
}

/** Returns the message in the status of the node. */
export function waitingMessage(node: WaitingNode): string {
  if (isDenied(node)) return deniedMessage(node);
  if (isRejected(node)) return `Not cordoned: ${oneLine(node.rejection, maxReasonLength)}.`;
  return `Waiting for the maintenance Lease of the node: ${oneLine(node.because, maxReasonLength)}.`;
}

/** Returns the message in the status of a node that is to return to service. */
export function unreturnedMessage(node: UnreturnedNode): string {
  if (isHeldByOthers(node))
    return `Not uncordoned: waiting for NodeMaintenance ${listed(node.holders)} to record it.`;
  return isRejected(node)
    ? `Not uncordoned: ${oneLine(node.rejection, maxReasonLength)}.`
    : waitingMessage(node);
}

/** Returns the condition that reports whether the maintenance holds the Leases of all its nodes. */
export function nodeLeasesCondition(waiting: readonly NodeWithoutLease[]): ConditionFacts {
  const type = NODE_LEASES_HELD;
  if (waiting.length === 0)
    return { type, status: 'True', reason: 'Held', message: 'The maintenance Leases of all nodes are held.' };
  const nodes = waiting.map(({ name, because }) => `node ${name} (${oneLine(because, maxReasonLength)})`);
  return {
    type,
    status: 'False',
    reason: 'Waiting',
    message: `Waiting for the maintenance Lease of ${listed(nodes)}.`,
  };
}

/** Returns the condition while nodes cannot return to service. */
export function unreturnedCondition(unreturned: readonly UnreturnedNode[]): ConditionFacts {
  const withoutLease = unreturned.filter(isWithoutLease);
  if (withoutLease.length > 0) return nodeLeasesCondition(withoutLease);
  const message = 'The maintenance Leases of the nodes that cannot be uncordoned are held.';
  return { type: NODE_LEASES_HELD, status: 'True', reason: 'Held', message };
}

/** Returns why nodes are not drained that cannot be cordoned: the reason and message of a condition. */
export function cordonRejected(
  rejected: readonly RejectedNode[],
): Pick<ConditionFacts, 'reason' | 'message'> {
  const nodes = rejected.map(({ name, rejection }) => `${name} (${oneLine(rejection, maxReasonLength)})`);
  return {
    reason: 'CordonRejected',
    message: `Nodes cannot be cordoned: ${listed(nodes)}. Change what rejects it, or do not select them.`,
  };
}

/** The condition after the nodes are uncordoned. */
export const nodeLeasesReleased: ConditionFacts = {
  type: NODE_LEASES_HELD,
  status: 'False',
  reason: 'Released',
  message: 'The nodes are uncordoned and their maintenance Leases released.',
};
