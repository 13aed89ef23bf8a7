import type { Condition, Job } from '../api/core.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { type ConditionFacts, isTrue } from './conditions.ts';

/** The condition of a NodeMaintenance that is a node's turn in a window: how the turn ended; absent or Unknown while it is under way. */
const TURN_SUCCEEDED = 'TurnSucceeded';

export function verdictOn({ status }: Pick<NodeMaintenance, 'status'>): Condition | undefined {
  return status?.conditions.find(({ type }) => type === TURN_SUCCEEDED);
}

export const turnSucceeded: ConditionFacts = {
  type: TURN_SUCCEEDED,
  status: 'True',
  reason: 'Done',
  message: 'The work is done, and the node takes pods again.',
};

/** Of a turn under way: somebody says that its work is done, or need not be done. */
export const workAdvanced: ConditionFacts = {
  type: TURN_SUCCEEDED,
  status: 'Unknown',
  reason: 'Advanced',
  message:
    'Somebody advanced the turn: the node is given back when it is ready, and the turn ends when it takes pods again.',
};

/** Of a turn that has failed: somebody has dealt with it. */
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

/**
 * The condition of a turn that has a Job: whether its work is done, Unknown since the Job began. A Job can be deleted: what is known of it
 * stays here.
 */
export const WORK_SUCCEEDED = 'WorkSucceeded';

export function workBegun(job: string): ConditionFacts {
  return { type: WORK_SUCCEEDED, status: 'Unknown', reason: 'JobStarted', message: `Job ${job} works.` };
}

export function workSucceeded(job: string): ConditionFacts {
  return { type: WORK_SUCCEEDED, status: 'True', reason: 'JobSucceeded', message: `Job ${job} succeeded.` };
}

export function turnFailed(reason: string, message: string): ConditionFacts {
  return { type: TURN_SUCCEEDED, status: 'False', reason, message };
}

/** The verdict on a turn of which somebody says that nothing is left to do. */
export function verdictOnAdvance(maintenance: Pick<NodeMaintenance, 'status'>, job?: Job): ConditionFacts {
  const verdict = verdictOn(maintenance);
  if (verdict?.status === 'True') return verdict;
  const hasFailed = verdict?.status === 'False' || isTrue(job?.status?.conditions, 'Failed');
  return hasFailed ? turnAdvanced : workAdvanced;
}

/** Whether somebody has said so of a turn. */
export function isAdvanced(maintenance: Pick<NodeMaintenance, 'status'>): boolean {
  return verdictOn(maintenance)?.reason === workAdvanced.reason;
}

/** Why a turn is not advanced while its Job works. */
export function jobWorks({ metadata: { namespace, name } }: Job, node: string): string {
  return `Job ${name} works on node ${node}, and the turn ends with it: to end it now, kubectl delete job -n ${namespace} ${name}, then advance the turn`;
}
