import type { Condition } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { ConditionFacts } from '../common/conditions.ts';

/** The condition of a window's NodeMaintenance that records its result. It is absent or Unknown while the node is in progress. */
const SUCCEEDED = 'Succeeded';

export function nodeResultOf({ status }: Pick<NodeMaintenance, 'status'>): Condition | undefined {
  return status?.conditions.find(({ type }) => type === SUCCEEDED);
}

export const nodeSucceeded: ConditionFacts = {
  type: SUCCEEDED,
  status: 'True',
  reason: 'Done',
  message: 'The work is done and the node is in service.',
};

/** The result of a node in progress whose work a user marked as done. */
export const advanceRequested: ConditionFacts = {
  type: SUCCEEDED,
  status: 'Unknown',
  reason: 'Advanced',
  message:
    'The work was marked as done: the node is uncordoned when it is ready, and succeeds when it is in service.',
};

/** The result of a failed node that a user marked as done. */
export const nodeAdvanced: ConditionFacts = {
  type: SUCCEEDED,
  status: 'True',
  reason: 'Advanced',
  message: 'The node had failed and was marked as done.',
};

const cancelled = 'Cancelled';

export const nodeCancelled: ConditionFacts = {
  type: SUCCEEDED,
  status: 'False',
  reason: cancelled,
  message:
    'The maintenance was cancelled before the work was done: the node is maintained again, in this window or the next one.',
};

export function isCancelled(result: Pick<Condition, 'status' | 'reason'> | undefined): boolean {
  return result?.status === 'False' && result.reason === cancelled;
}

/**
 * The condition of a NodeMaintenance with a Job or a reboot: the result of the work, Unknown since the Job was created, or before the reboot is
 * requested. A Job can be deleted, its result is kept here.
 */
const WORK_SUCCEEDED = 'WorkSucceeded';

export function workResultOf({ status }: Pick<NodeMaintenance, 'status'>): Condition | undefined {
  return status?.conditions.find(({ type }) => type === WORK_SUCCEEDED);
}

export function workStarted(job: string): ConditionFacts {
  return { type: WORK_SUCCEEDED, status: 'Unknown', reason: 'JobStarted', message: `Job ${job} is running.` };
}

export function workSucceeded(job: string): ConditionFacts {
  return { type: WORK_SUCCEEDED, status: 'True', reason: 'JobSucceeded', message: `Job ${job} succeeded.` };
}

export const rebootRequested: ConditionFacts = {
  type: WORK_SUCCEEDED,
  status: 'Unknown',
  reason: 'RebootRequested',
  message: 'The agent of the node is asked to reboot it.',
};

export const rebootDone: ConditionFacts = {
  type: WORK_SUCCEEDED,
  status: 'True',
  reason: 'Rebooted',
  message: 'The node has a new boot ID.',
};

export const rebootNotRequired: ConditionFacts = {
  type: WORK_SUCCEEDED,
  status: 'True',
  reason: 'RebootNotRequired',
  message: 'The node did not need a reboot any more when the window reached it.',
};

export function nodeFailed(reason: string, message: string): ConditionFacts {
  return { type: SUCCEEDED, status: 'False', reason, message };
}

/** Reports whether the work on the node was marked as done. */
export function isAdvanced(maintenance: Pick<NodeMaintenance, 'status'>): boolean {
  return nodeResultOf(maintenance)?.reason === advanceRequested.reason;
}
