import type { Job } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { type ConditionFacts, isTrue } from '../common/conditions.ts';
import { canAdvance } from './nodeOutcome.ts';
import { advanceRequested, isAdvanced, nodeAdvanced, nodeResultOf } from './nodeResult.ts';
import { decideNodeStep } from './nodeStep.ts';
import type { NodeStepInput } from './nodeStepInput.ts';
import { isJobRunning } from '../common/job.ts';

/** The outcome of a request to mark the work on a node as done. `problem` is a clause that says how to fix it. */
export type AdvanceDecision =
  | { kind: 'Accepted'; result: ConditionFacts }
  | { kind: 'Rejected'; problem: string };

/** Decides a request to mark the work on a node as done. A node that was returned to service, or whose Job is running, rejects it. */
export function decideAdvance(
  maintenance: Pick<NodeMaintenance, 'metadata' | 'spec' | 'status'>,
  node: string,
  job: Job | undefined,
): AdvanceDecision {
  if (!canAdvance(maintenance))
    return { kind: 'Rejected', problem: `node ${node} is not in maintenance any more` };
  if (isJobRunning(job)) return { kind: 'Rejected', problem: jobRunningProblem(job, node) };
  return { kind: 'Accepted', result: resultOfAdvance(maintenance, job) };
}

/** Returns the result of a node that is marked as done. */
function resultOfAdvance(maintenance: Pick<NodeMaintenance, 'status'>, job: Job | undefined): ConditionFacts {
  const result = nodeResultOf(maintenance);
  if (result?.status === 'True') return result;
  const hasFailed = result?.status === 'False' || isTrue(job?.status?.conditions, 'Failed');
  return hasFailed ? nodeAdvanced : advanceRequested;
}

/** Why a node is not advanced while the worker may not read its Job. */
export function unknownJobProblem(node: string): string {
  return `the worker may not see whether a Job is running on node ${node}: apply deploy/window-jobs, or delete the NodeMaintenance when nothing works on the node any more`;
}

function jobRunningProblem({ metadata: { namespace, name } }: Job, node: string): string {
  return `Job ${name} is running on node ${node}: wait until it ends, or delete it with kubectl delete job -n ${namespace} ${name} and then mark the work as done (kubectl maintenance window advance)`;
}

/**
 * Decides whether an advanced node is uncordoned while its window is closed: under the same conditions as while it is open. A Node that
 * was deleted or recreated has nothing to wait for.
 */
export function canUncordonWhileClosed(input: NodeStepInput): boolean {
  if (!isAdvanced(input.maintenance) || isJobRunning(input.job)) return false;
  return input.node.kind !== 'Present' || decideNodeStep(input).kind === 'Complete';
}
