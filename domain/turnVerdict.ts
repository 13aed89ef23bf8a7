import type { ConditionFacts } from './conditions.ts';

/** The condition of a NodeMaintenance that is a node's turn in a window: how the turn ended; absent while it is under way. */
export const TURN_SUCCEEDED = 'TurnSucceeded';

export const turnSucceeded: ConditionFacts = {
  type: TURN_SUCCEEDED,
  status: 'True',
  reason: 'Done',
  message: 'The work is done, and the node takes pods again.',
};

/** Somebody says that nothing is left to do. */
export const turnAdvanced: ConditionFacts = {
  type: TURN_SUCCEEDED,
  status: 'True',
  reason: 'Advanced',
  message: 'Somebody advanced the turn.',
};

export const turnCancelled: ConditionFacts = {
  type: TURN_SUCCEEDED,
  status: 'False',
  reason: 'Cancelled',
  message:
    'The window ended, or was cancelled, before the work was done: the node has its turn anew in the next one.',
};

export function turnFailed(reason: string, message: string): ConditionFacts {
  return { type: TURN_SUCCEEDED, status: 'False', reason, message };
}
