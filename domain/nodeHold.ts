import type { ConditionFacts } from './conditions.ts';
import { listed } from './names.ts';

/** A selected node to which nothing is done, because its maintenance Lease is not ours (KEP-1411). */
export interface WaitingNode {
  name: string;
  /** Why, for people; the same for all nodes that one holder has. */
  because: string;
}

export const NODE_LEASES_HELD = 'NodeLeasesHeld';

/** A status has one message for each node, of which there may be a thousand. Characters. */
const longestReason = 256;

/** No node's alone, so that it is told once and not for each. */
export const leasesRefused =
  'the worker may not write Leases in kube-node-maintenance; npm start -- --install, or kubectl apply --server-side -k deploy, gives it the rights';

export function heldByAnother(holder: string): string {
  return `held by ${holder}`;
}

/** What the node's status says meanwhile. */
export function waitingMessage({ because }: WaitingNode): string {
  return `Waiting for the maintenance Lease of the node: ${because.slice(0, longestReason)}.`;
}

/** Whether the maintenance has all of its nodes to itself. */
export function nodeLeasesCondition(waiting: readonly WaitingNode[]): ConditionFacts {
  const type = NODE_LEASES_HELD;
  if (waiting.length === 0)
    return { type, status: 'True', reason: 'Held', message: 'The maintenance Leases of all nodes are held.' };
  const nodes = waiting.map(({ name, because }) => `${name} (${because.slice(0, longestReason)})`);
  return { type, status: 'False', reason: 'Waiting', message: `Waiting for nodes ${listed(nodes)}.` };
}

/** What becomes of it when the nodes are given back. */
export const nodeLeasesReleased: ConditionFacts = {
  type: NODE_LEASES_HELD,
  status: 'False',
  reason: 'Released',
  message: 'The nodes are given back, and their maintenance Leases released.',
};
