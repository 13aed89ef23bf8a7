import type { Condition, Job, Node } from '../api/core.ts';
import type { WindowWork } from '../api/maintenanceWindow.ts';
import { TURN_SUCCEEDED } from './turnVerdict.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { isTrue } from './conditions.ts';
import { closure, unreadiness } from './nodeBudget.ts';
import { wantedStage } from './stage.ts';

/** What becomes of turns that are under way: 'Finish' while the window is open, and after it as its spec says. */
export type TurnPolicy = 'Finish' | 'Hold' | 'Cancel';

export interface TurnSight {
  maintenance: Pick<NodeMaintenance, 'metadata' | 'spec' | 'status'>;
  /** Undefined when it is gone, or another has come under its name. */
  node: Node | undefined;
  work: WindowWork;
  /** The Job of this turn, as far as it has one. */
  job: Job | undefined;
  policy: TurnPolicy;
  readyTimeoutSeconds: number;
  /** Milliseconds. */
  now: number;
}

/** What is to be done next for the turn of one node. */
export type TurnStep =
  /** Nothing now; `message` says what it waits for. */
  | { kind: 'Wait'; message: string }
  | { kind: 'StartJob' }
  | { kind: 'DeleteJob' }
  /** Give the node back: the work is done. */
  | { kind: 'Complete' }
  /** Give the node back although the work is not done; the turn is to be had anew. */
  | { kind: 'Cancel' }
  /** The node has had its turn. */
  | { kind: 'Succeed' }
  /** The node stays as it is until a person has dealt with it. */
  | { kind: 'Fail'; reason: string; message: string }
  /** A failure that still stands. */
  | { kind: 'Failed'; reason: string; message: string; isOver: boolean }
  /** Nothing of the turn is left but its record, which is kept... */
  | { kind: 'Over'; at: number }
  /** ...or is in the way of another turn. */
  | { kind: 'Forget' };

/** Seconds that a Job may take beyond its timeout to end its pods, before it counts as one that never ends. */
const jobGrace = 60;

export function decideTurn(sight: TurnSight): TurnStep {
  const { maintenance, node } = sight;
  const { metadata, spec, status } = maintenance;
  const verdict = status?.conditions.find(({ type }) => type === TURN_SUCCEEDED);
  const isComplete = wantedStage(spec.stage, metadata.deletionTimestamp !== undefined) === 'Complete';
  const isOver = isComplete && isGivenBack(maintenance);
  if (verdict !== undefined) return judged(verdict, isOver, sight);
  if (node === undefined) return isComplete ? waitOr(isOver, { kind: 'Forget' }) : { kind: 'Cancel' };
  if (isComplete) return waitOr(isOver, returned(sight, node));
  return working(sight, node);
}

/** Whether Complete has done all of its work. */
function isGivenBack({ metadata, status }: TurnSight['maintenance']): boolean {
  const begun = status?.stageStatuses.some(({ name }) => name === 'Complete') ?? false;
  return begun && (metadata.finalizers ?? []).length === 0;
}

function waitOr(isOver: boolean, step: TurnStep): TurnStep {
  return isOver ? step : { kind: 'Wait', message: 'it is given back' };
}

function judged(
  { status, reason, message, lastTransitionTime }: Condition,
  isOver: boolean,
  sight: TurnSight,
): TurnStep {
  if (status === 'True') return waitOr(isOver, { kind: 'Over', at: Date.parse(lastTransitionTime) });
  if (reason === 'Cancelled') return cancelled(isOver, sight);
  return { kind: 'Failed', reason, message, isOver };
}

/** First its Job, then the node, then the record: a Job must not run on a node that takes pods again. */
function cancelled(isOver: boolean, { job, maintenance: { spec } }: TurnSight): TurnStep {
  if (isOver) return { kind: 'Forget' };
  if (job !== undefined) {
    return job.metadata.deletionTimestamp === undefined
      ? { kind: 'DeleteJob' }
      : { kind: 'Wait', message: 'the pods of its Job end' };
  }
  return spec.stage === 'Complete' ? { kind: 'Wait', message: 'it is given back' } : { kind: 'Complete' };
}

/** The maintenance is complete and the node schedulable: the turn ends when it takes pods again. */
function returned(sight: TurnSight, node: Node): TurnStep {
  const { maintenance, work, job } = sight;
  if (work.type === 'Job' && !hasCondition(job, 'Complete'))
    return {
      kind: 'Fail',
      reason: 'EndedEarly',
      message:
        'its NodeMaintenance was completed before its Job had succeeded: advance the turn if nothing is left to do, delete the NodeMaintenance to have it anew',
    };
  const because = closure(node);
  if (because === undefined) return { kind: 'Succeed' };
  const since = maintenance.status?.stageStatuses.find(({ name }) => name === 'Complete')?.startTimestamp;
  return readyInTime(sight, Date.parse(since ?? ''), because, 'after it was given back');
}

function readyInTime(
  { readyTimeoutSeconds, now }: TurnSight,
  since: number,
  because: string,
  when: string,
): TurnStep {
  if (!(now - since > readyTimeoutSeconds * 1_000)) return { kind: 'Wait', message: because };
  return {
    kind: 'Fail',
    reason: 'NodeNotReady',
    message: `${because} ${readyTimeoutSeconds} s ${when}: see to the node, then advance its turn`,
  };
}

function working(sight: TurnSight, node: Node): TurnStep {
  const { maintenance, work, job, policy } = sight;
  const isWorking = job !== undefined && !hasCondition(job, 'Complete') && !hasCondition(job, 'Failed');
  if (policy === 'Cancel' && !hasCondition(job, 'Complete')) return { kind: 'Cancel' };
  if (!isTrue(maintenance.status?.conditions, 'Drained') && job === undefined)
    return { kind: 'Wait', message: policy === 'Hold' ? 'its drain rests' : 'it is drained' };
  if (work.type === 'None')
    return { kind: 'Wait', message: 'it is drained; advance its turn when the work is done' };
  if (job === undefined)
    return policy === 'Hold' ? { kind: 'Wait', message: 'its work rests' } : { kind: 'StartJob' };
  if (isWorking) return whileItWorks(sight, job);
  return afterItWorked(sight, node, job);
}

function whileItWorks({ work, now }: TurnSight, job: Job): TurnStep {
  const seconds = work.job?.timeoutSeconds ?? 0;
  const began = Date.parse(job.status?.startTime ?? job.metadata.creationTimestamp ?? '');
  if (!(now - began > (seconds + jobGrace) * 1_000))
    return { kind: 'Wait', message: `Job ${job.metadata.name} works` };
  return {
    kind: 'Fail',
    reason: 'JobNeverEnded',
    message: `Job ${job.metadata.name} has not ended ${seconds + jobGrace} s after it began: see to its pods and to the node, then advance its turn`,
  };
}

function afterItWorked(sight: TurnSight, node: Node, job: Job): TurnStep {
  const failure = job.status?.conditions?.find(({ type, status }) => type === 'Failed' && status === 'True');
  if (failure !== undefined)
    return {
      kind: 'Fail',
      reason: 'JobFailed',
      message: `Job ${job.metadata.name} failed (${failure.reason || 'it does not say why'}): see its pods, then advance the turn, or set the NodeMaintenance to Complete and delete it to have it anew`,
    };
  // Not its readiness gates: their pods come back only when the node is given back.
  const because = unreadiness(node);
  if (because === undefined) return { kind: 'Complete' };
  const done = job.status?.conditions?.find(({ type }) => type === 'Complete');
  return readyInTime(sight, Date.parse(done?.lastTransitionTime ?? ''), because, 'after its work');
}

function hasCondition(job: Job | undefined, type: string): boolean {
  return isTrue(job?.status?.conditions, type);
}
