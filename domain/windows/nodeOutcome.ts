import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { isCompleted } from '../common/stage.ts';
import { isCancelled, nodeResultOf } from './nodeResult.ts';

/** The state of a node in a window. A node without an outcome, and one whose maintenance was cancelled, is Remaining. */
export type NodeOutcome =
  | { state: 'InProgress' }
  /** `at` is in milliseconds since the epoch. */
  | { state: 'Succeeded'; at: number }
  | { state: 'Failed'; reason: string; message: string }
  | { state: 'Remaining' };

/** Returns the outcome that is recorded on the NodeMaintenance. */
export function nodeOutcomeOf(
  maintenance: Pick<NodeMaintenance, 'metadata' | 'spec' | 'status'>,
): NodeOutcome {
  const result = nodeResultOf(maintenance);
  if (result === undefined || result.status === 'Unknown') return { state: 'InProgress' };
  const { status, reason, message, lastTransitionTime } = result;
  if (status === 'False' && !isCancelled(result)) return { state: 'Failed', reason, message };
  if (!isCompleted(maintenance)) return { state: 'InProgress' };
  return status === 'True'
    ? { state: 'Succeeded', at: Date.parse(lastTransitionTime) }
    : { state: 'Remaining' };
}

/** The states of a node that has several NodeMaintenances: the first of these states applies. */
const precedence: readonly NodeOutcome['state'][] = ['Failed', 'InProgress', 'Succeeded'];

/** Returns the outcome of each node that is not Remaining. The result does not depend on the order of its input. */
export function outcomesByNode(
  outcomes: Iterable<readonly [node: string, NodeOutcome]>,
): Map<string, NodeOutcome> {
  const byNode = new Map<string, NodeOutcome>();
  for (const [node, outcome] of outcomes) {
    if (outcome.state === 'Remaining') continue;
    const known = byNode.get(node);
    if (known === undefined || isPreferred(outcome, known)) byNode.set(node, outcome);
  }
  return byNode;
}

function isPreferred(outcome: NodeOutcome, known: NodeOutcome): boolean {
  if (outcome.state === 'Succeeded' && known.state === 'Succeeded') return outcome.at > known.at;
  if (outcome.state === 'Failed' && known.state === 'Failed')
    return `${outcome.reason} ${outcome.message}` < `${known.reason} ${known.message}`;
  return precedence.indexOf(outcome.state) < precedence.indexOf(known.state);
}

/** Reports whether the node is in progress or has failed. */
export function canAdvance(maintenance: Pick<NodeMaintenance, 'metadata' | 'spec' | 'status'>): boolean {
  const { state } = nodeOutcomeOf(maintenance);
  return state === 'InProgress' || state === 'Failed';
}
