import type { Job } from '../../api/core.ts';
import { gatesNotReady, notReadyReason, outOfServiceReason } from '../budget/nodeService.ts';
import { isTrue } from '../common/conditions.ts';
import { awaitsNetworkPlugin } from '../common/networkPlugin.ts';
import { hasStarted, isCompleted, isDrained, stageOf } from '../common/stage.ts';
import { needsReboot } from '../reboot/nodeReboot.ts';
import { jobsNotEnabledMessage } from './conditions.ts';
import {
  awaitLease,
  awaitNode,
  type NodeStepFacts,
  type Milestone,
  type NodeStep,
  type Phase,
} from './nodeFacts.ts';
import {
  isCancelled,
  nodeResultOf,
  rebootRequested,
  workResultOf,
  workStarted,
  workSucceeded,
} from './nodeResult.ts';
import type { NodeStepInput } from './nodeStepInput.ts';
import {
  awaitAgent,
  awaitReboot,
  endReboot,
  finishLateReboot,
  finishReboot,
  isRebooting,
  skipReboot,
} from './rebootPhases.ts';
import { isJobRunning } from '../common/job.ts';

/**
 * The phases of a node, in order: the first one that returns a step decides. `Succeeded` is the result that is recorded on the
 * NodeMaintenance; an empty cell matches everything.
 *
 * | phase                     | stage    | Succeeded        | other conditions                   | step                             |
 * |---------------------------|----------|------------------|------------------------------------|----------------------------------|
 * | deleteJobOfUncordonedNode | Complete |                  | Job running                        | DeleteJob                        |
 * | deleteJobOfReplacedNode   |          | NodeReplaced     | Job running                        | DeleteJob                        |
 * | reportFailure             |          | False            |                                    | Failed                           |
 * | awaitJobPermission        | Drain    |                  | work Job, Jobs are not permitted   | Wait                             |
 * | endCancelledJob           |          | False, Cancelled | Job exists, node cordoned          | DeleteJob, Wait, Fail            |
 * | endReboot                 | Drain    | any              | reboot requested, not done         | Wait; AwaitNode, Fail if started |
 * | awaitUncordon             | Complete |                  | node cordoned                      | Wait                             |
 * | uncordon                  | Drain    | True or Cancelled|                                    | Complete; Wait while Job running |
 * | finishCancelled           | Complete | False, Cancelled |                                    | DeleteMaintenance                |
 * | finishLateReboot          | Complete | Advanced         | other boot ID                      | FinishReboot                     |
 * | finishSucceeded           | Complete | True             |                                    | Succeeded, DeleteMaintenance     |
 * | handleMissingNode         |          |                  | Node deleted or recreated          | DeleteMaintenance, Cancel, Fail  |
 * | repeatRestored            | Complete | absent           | restored without its status        | DeleteMaintenance                |
 * | finishReboot              |          | absent, Unknown  | other boot ID                      | FinishReboot                     |
 * | detectEarlyCompletion     | Complete | absent           | drain or work not finished         | Fail                             |
 * | awaitService              | Complete |                  |                                    | AwaitNode, Fail, Succeed         |
 * | awaitJobOfAdvancedNode    | Drain    | Unknown          | Job not succeeded                  | Wait, Fail                       |
 * | awaitReadyNode            | Drain    |                  | advanced, or work succeeded        | AwaitNode, Fail, Complete        |
 * | cancelAtWindowEnd         | Drain    | absent           | policy Cancel, Job did not fail,   | Cancel                           |
 * |                           |          |                  | reboot not started                 |                                  |
 * | recordWork                | Drain    | absent           | Job created or succeeded           | RecordWork                       |
 * | awaitJob                  | Drain    | absent           | Job exists                         | Wait, Fail                       |
 * | detectDeletedJob          | Drain    | absent           | Job was created, and is gone       | Fail                             |
 * | awaitReboot               | Drain    | absent           | reboot requested                   | RequestReboot, AwaitNode, Fail,  |
 * |                           |          |                  |                                    | Wait while another has the Lease |
 * | cancelOutdated            | Drain    | absent           | work, revision outdated            | Cancel                           |
 * | skipReboot                | Drain    | absent           | no reboot required any more        | RecordWork                       |
 * | awaitDrain                | Drain    | absent           | not Drained                        | Wait                             |
 * | awaitAdvance              | Drain    | absent           | work None                          | Wait                             |
 * | holdWork                  | Drain    | absent           | policy Hold                        | Wait                             |
 * | awaitLease                | Drain    | absent           | another client has the node Lease  | Wait                             |
 * | awaitAgent                | Drain    | absent           | work Reboot, agent not running     | AwaitNode, Fail                  |
 * | (otherwise)               | Drain    | absent           | drained                            | StartJob, RecordWork for Reboot  |
 */
const phases: readonly Phase[] = [
  deleteJobOfUncordonedNode, // a Job must not work on a node that accepts pods, no matter who completed the maintenance
  deleteJobOfReplacedNode, // it would repeat its work on the new Node
  reportFailure, // only a user resolves a failure
  awaitJobPermission, // without it, nobody knows whether the Job is running
  endCancelledJob, // first the Job, then the node, then the record
  endReboot, // a node that is about to reboot must not accept pods
  awaitUncordon,
  uncordon, // a user who resolved a failure may return a node to service that is not ready
  finishCancelled,
  finishLateReboot, // otherwise the node would be rebooted again at the next opening
  finishSucceeded,
  handleMissingNode,
  repeatRestored, // nobody knows whether the work has succeeded
  finishReboot, // whatever the reason of the reboot was
  detectEarlyCompletion,
  awaitService,
  awaitJobOfAdvancedNode,
  awaitReadyNode,
  cancelAtWindowEnd, // work that is done stays done, and a failed Job is reported as a failure
  recordWork,
  awaitJob,
  detectDeletedJob,
  awaitReboot,
  cancelOutdated,
  skipReboot,
  awaitDrain,
  awaitAdvance,
  holdWork,
  awaitLease,
  awaitAgent,
];

/** The reason of a failure. */
const nodeReplaced = 'NodeReplaced';

/** Decides the next step for one node of a window. */
export function decideNodeStep(input: NodeStepInput): NodeStep {
  const { maintenance } = input;
  const isComplete = stageOf(maintenance) === 'Complete';
  const facts: NodeStepFacts = {
    ...input,
    result: nodeResultOf(maintenance),
    workResult: workResultOf(maintenance),
    isComplete,
    isUncordoned: isComplete && isCompleted(maintenance),
  };
  for (const phase of phases) {
    const step = phase(facts);
    if (step !== undefined) return step;
  }
  return input.work === 'Reboot' ? { kind: 'RecordWork', facts: rebootRequested } : { kind: 'StartJob' };
}

/** Reports whether the step depends on the kubelet's Lease, which is not watched. */
export function needsHeartbeat({ maintenance, job }: Pick<NodeStepInput, 'maintenance' | 'job'>): boolean {
  if (stageOf(maintenance) === 'Complete') return false;
  return (
    workEndOf({ result: nodeResultOf(maintenance), workResult: workResultOf(maintenance), job }) !== undefined
  );
}

/** Reports whether the step depends on the readiness gates of the node. */
export function needsReadinessGates(maintenance: NodeStepInput['maintenance']): boolean {
  return stageOf(maintenance) === 'Complete' && nodeResultOf(maintenance)?.status !== 'True';
}

function deleteJobOfUncordonedNode({ isComplete, job }: NodeStepFacts): NodeStep | undefined {
  return isComplete ? deleteRunning(job) : undefined;
}

function deleteJobOfReplacedNode({ result, job }: NodeStepFacts): NodeStep | undefined {
  const isReplaced = result?.status === 'False' && result.reason === nodeReplaced;
  return isReplaced ? deleteRunning(job) : undefined;
}

function deleteRunning(job: Job | undefined): NodeStep | undefined {
  const isDeleted = job?.metadata.deletionTimestamp !== undefined;
  return isJobRunning(job) && !isDeleted ? { kind: 'DeleteJob' } : undefined;
}

function reportFailure({ result, isUncordoned }: NodeStepFacts): NodeStep | undefined {
  if (result?.status !== 'False' || isCancelled(result)) return undefined;
  return { kind: 'Failed', reason: result.reason, message: result.message, isUncordoned };
}

function awaitJobPermission({ work, mayRunJobs, isComplete }: NodeStepFacts): NodeStep | undefined {
  if (work !== 'Job' || mayRunJobs || isComplete) return undefined;
  return { kind: 'Wait', message: jobsNotEnabledMessage };
}

function endCancelledJob({ result, isUncordoned, job, nowMs }: NodeStepFacts): NodeStep | undefined {
  if (!isCancelled(result) || isUncordoned || job === undefined) return undefined;
  const { name, deletionTimestamp } = job.metadata;
  if (deletionTimestamp === undefined) return { kind: 'DeleteJob' };
  const seconds = terminationSeconds(job);
  // Nobody terminates the pods of a node that does not exist any more.
  if (!hasElapsed(deletionTimestamp, seconds, nowMs))
    return { kind: 'Wait', message: `the pods of Job ${name} are terminating` };
  return {
    kind: 'Fail',
    reason: 'JobTerminationTimeout',
    message: `the pods of Job ${name} did not terminate within ${seconds} s after it was deleted: check the pods and the node, then mark its work as done (kubectl maintenance window advance)`,
  };
}

function awaitUncordon({ isComplete, isUncordoned }: NodeStepFacts): NodeStep | undefined {
  return isComplete && !isUncordoned ? { kind: 'Wait', message: 'the node is being uncordoned' } : undefined;
}

function uncordon({ result, isComplete, job }: NodeStepFacts): NodeStep | undefined {
  if (isComplete || (result?.status !== 'True' && !isCancelled(result))) return undefined;
  return isJobRunning(job) ? jobIsRunning(job) : { kind: 'Complete' };
}

function finishCancelled({ result }: NodeStepFacts): NodeStep | undefined {
  return isCancelled(result) ? { kind: 'DeleteMaintenance' } : undefined;
}

function finishSucceeded({ result, revision, node, work, openedAtMs }: NodeStepFacts): NodeStep | undefined {
  if (result?.status !== 'True') return undefined;
  const at = Date.parse(result.lastTransitionTime);
  // A new revision, and a recreated Node, are maintained again.
  if (revision === 'Outdated' || node.kind !== 'Present') return { kind: 'DeleteMaintenance' };
  // Once in an opening: a sentinel that survives reboots must not reboot its node all the time.
  const isNeededAgain = work === 'Reboot' && needsReboot(node.node) && at < openedAtMs;
  return isNeededAgain ? { kind: 'DeleteMaintenance' } : { kind: 'Succeeded', at };
}

function handleMissingNode(facts: NodeStepFacts): NodeStep | undefined {
  const { node, isComplete, job, result, workResult, work } = facts;
  if (node.kind === 'Present') return undefined;
  if (isComplete) return { kind: 'DeleteMaintenance' };
  const workHasStarted = job !== undefined || workResult !== undefined;
  const isAdvanced = node.kind === 'Absent' && result?.status === 'Unknown';
  if (node.kind === 'Unselected' || !workHasStarted || isAdvanced) return { kind: 'Cancel' };
  // Work that makes its Node be recreated would do so forever, if the window maintained each new Node at once.
  const event = work === 'Reboot' ? 'its reboot was requested' : 'its Job had started';
  return {
    kind: 'Fail',
    reason: nodeReplaced,
    message: `the Node was ${node.kind === 'Absent' ? 'deleted' : 'recreated'} after ${event}: check the node, then delete the NodeMaintenance to let the window maintain the new Node`,
  };
}

function repeatRestored({ isUncordoned, result, maintenance }: NodeStepFacts): NodeStep | undefined {
  const isRestored = isUncordoned && result === undefined && !hasStarted(maintenance, 'Complete');
  return isRestored ? { kind: 'DeleteMaintenance' } : undefined;
}

function detectEarlyCompletion({
  isComplete,
  result,
  work,
  workResult,
  job,
  maintenance,
}: NodeStepFacts): NodeStep | undefined {
  if (!isComplete || result !== undefined) return undefined;
  const isDone =
    work === 'None'
      ? isTrue(maintenance.status?.conditions, 'Drained')
      : workResult?.status === 'True' || isTrue(job?.status?.conditions, 'Complete');
  if (isDone) return undefined;
  const missing = { None: 'the node was drained', Job: 'its Job succeeded', Reboot: 'its reboot' }[work];
  return {
    kind: 'Fail',
    reason: 'CompletedEarly',
    message: `the NodeMaintenance was completed before ${missing}: mark its work as done (kubectl maintenance window advance) if nothing is left to do, or delete the NodeMaintenance to maintain the node again`,
  };
}

/** Waits until an uncordoned node accepts pods. Its readiness gates count only now: their pods return after the uncordon. */
function awaitService(facts: NodeStepFacts): NodeStep | undefined {
  const { isComplete, node, maintenance } = facts;
  if (!isComplete || node.kind !== 'Present') return undefined;
  const reason = outOfServiceReason(node.node) ?? (node.isMissingReadinessTaint ? gatesNotReady : undefined);
  if (reason === undefined) return { kind: 'Succeed' };
  const uncordoned = maintenance.status?.stageStatuses.find(
    ({ name }) => name === 'Complete',
  )?.startTimestamp;
  return awaitNode(facts, reason, { at: Date.parse(uncordoned ?? ''), event: 'the uncordon' });
}

function awaitJobOfAdvancedNode({ result, job, nowMs }: NodeStepFacts): NodeStep | undefined {
  // The request was accepted before the Job was created, and does not apply to it.
  if (result?.status !== 'Unknown' || job === undefined || succeededAt(job) !== undefined) return undefined;
  return jobStep(job, nowMs);
}

/** Waits until a node is ready after its work, and its kubelet sends a heartbeat: Kubernetes notices only after a while that it is down. */
function awaitReadyNode(facts: NodeStepFacts): NodeStep | undefined {
  const { node, result, workResult, job } = facts;
  const isDone = result?.status === 'Unknown' || workResult?.status === 'True';
  const end = workEndOf(facts);
  if (!isDone || end === undefined || isJobRunning(job) || node.kind !== 'Present') return undefined;
  const isSilent = node.lastHeartbeatMs !== undefined && node.lastHeartbeatMs <= end.at;
  const notReady = awaitsNetworkPlugin(node.node.status?.conditions) ? undefined : notReadyReason(node.node);
  const reason = notReady ?? (isSilent ? `no kubelet heartbeat since ${end.event}` : undefined);
  return reason === undefined ? { kind: 'Complete' } : awaitNode(facts, reason, end);
}

function cancelAtWindowEnd(facts: NodeStepFacts): NodeStep | undefined {
  const { policy, job } = facts;
  const isCancellable = (job === undefined || isJobRunning(job)) && !isRebooting(facts);
  return policy === 'Cancel' && isCancellable ? { kind: 'Cancel' } : undefined;
}

function recordWork({ job, workResult }: NodeStepFacts): NodeStep | undefined {
  if (job === undefined) return undefined;
  const { name } = job.metadata;
  if (succeededAt(job) !== undefined) return { kind: 'RecordWork', facts: workSucceeded(name) };
  return workResult === undefined ? { kind: 'RecordWork', facts: workStarted(name) } : undefined;
}

function awaitJob({ job, nowMs }: NodeStepFacts): NodeStep | undefined {
  return job === undefined ? undefined : jobStep(job, nowMs);
}

/** A user who deletes the Job does not want it to run: it is not created again. */
function detectDeletedJob({ work, job, workResult }: NodeStepFacts): NodeStep | undefined {
  if (work === 'Reboot' || job !== undefined || workResult === undefined) return undefined;
  return {
    kind: 'Fail',
    reason: 'JobDeleted',
    message:
      'its Job was deleted before it succeeded: mark its work as done (kubectl maintenance window advance) if nothing is left to do, or set the NodeMaintenance to Complete and delete it to maintain the node again',
  };
}

/** The window does not define the work any more that the maintenance was started for. */
function cancelOutdated({ work, revision }: NodeStepFacts): NodeStep | undefined {
  return work !== 'None' && revision === 'Outdated' ? { kind: 'Cancel' } : undefined;
}

function awaitDrain({ maintenance, policy }: NodeStepFacts): NodeStep | undefined {
  if (isDrained(maintenance)) return undefined;
  return {
    kind: 'Wait',
    message: policy === 'Hold' ? 'the drain is paused by the window' : 'the node is being drained',
  };
}

function awaitAdvance({ work }: NodeStepFacts): NodeStep | undefined {
  if (work !== 'None') return undefined;
  return {
    kind: 'Wait',
    message:
      'the node is drained: when the work is finished, mark it as done (kubectl maintenance window advance)',
  };
}

function holdWork({ policy, work }: NodeStepFacts): NodeStep | undefined {
  if (policy !== 'Hold') return undefined;
  const next = work === 'Reboot' ? 'it is rebooted' : 'its Job starts';
  return { kind: 'Wait', message: `the window has ended: ${next} at the next opening` };
}

function jobStep(job: Job, nowMs: number): NodeStep {
  const { name, creationTimestamp = '' } = job.metadata;
  const failure = job.status?.conditions?.find(({ type, status }) => type === 'Failed' && status === 'True');
  if (failure !== undefined)
    return {
      kind: 'Fail',
      reason: 'JobFailed',
      message: `Job ${name} failed (${failure.reason || 'no reason given'}): check its pods, then mark its work as done (kubectl maintenance window advance), or set the NodeMaintenance to Complete and delete it to maintain the node again`,
    };
  const seconds = (job.spec.activeDeadlineSeconds ?? 0) + terminationSeconds(job);
  if (!hasElapsed(job.status?.startTime ?? creationTimestamp, seconds, nowMs)) return jobIsRunning(job);
  return {
    kind: 'Fail',
    reason: 'JobTerminationTimeout',
    message: `Job ${name} did not end within ${seconds} s: check its pods and the node, delete the Job, then mark its work as done (kubectl maintenance window advance)`,
  };
}

function jobIsRunning({ metadata: { name } }: Job): NodeStep {
  return { kind: 'Wait', message: `Job ${name} is running` };
}

/** The time that a Job may take in addition to its deadline and the grace period of its pods. */
const jobGraceSeconds = 60;

/** Returns how long the pods of a Job may take to terminate. */
function terminationSeconds({ spec: { template } }: Job): number {
  return jobGraceSeconds + (template.spec?.terminationGracePeriodSeconds ?? 0);
}

function hasElapsed(since: string, seconds: number, nowMs: number): boolean {
  return nowMs - Date.parse(since) > seconds * 1_000;
}

function succeededAt(job: Job | undefined): number | undefined {
  const success = job?.status?.conditions?.find(
    ({ type, status }) => type === 'Complete' && status === 'True',
  );
  return success && Date.parse(success.lastTransitionTime);
}

/** Returns when the work on a cordoned node was done, or undefined while it is not. */
function workEndOf({
  result,
  workResult,
  job,
}: Pick<NodeStepFacts, 'result' | 'workResult' | 'job'>): Milestone | undefined {
  if (result?.status === 'Unknown')
    return { at: Date.parse(result.lastTransitionTime), event: 'it was advanced' };
  if (result !== undefined) return undefined;
  const recorded = workResult?.status === 'True' ? Date.parse(workResult.lastTransitionTime) : undefined;
  const at = succeededAt(job) ?? recorded;
  return at === undefined ? undefined : { at, event: 'the work ended' };
}
