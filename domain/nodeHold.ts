import type { ConditionFacts } from './conditions.ts';
import { listed } from './names.ts';

/** A selected node to which nothing is done, because its maintenance Lease is not ours (KEP-1411). */
export interface WithheldNode {
  name: string;
  /** Why, for people; the same for all nodes that one holder has. */
  because: string;
}

/** A status has one message for each node, of which there may be a thousand. Characters. */
const longestReason = 256;

export function heldByAnother(holder: string): string {
  return `held by ${holder}`;
}

/** What the node's status says meanwhile. */
export function withheldMessage({ because }: WithheldNode): string {
  return `Waiting for the maintenance Lease of the node: ${because.slice(0, longestReason)}.`;
}

/** Whether the maintenance has all of its nodes to itself. */
export function nodeLeasesCondition(withheld: readonly WithheldNode[]): ConditionFacts {
  const type = 'NodeLeasesHeld';
  if (withheld.length === 0)
    return { type, status: 'True', reason: 'Held', message: 'The maintenance Leases of all nodes are held.' };
  const nodes = withheld.map(({ name, because }) => `${name} (${because.slice(0, longestReason)})`);
  return { type, status: 'False', reason: 'Waiting', message: `Waiting for nodes ${listed(nodes)}.` };
}
