import type { Condition, Job, Node } from '../api/core.ts';
import type { WindowWork } from '../api/maintenanceWindow.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { type ConditionFacts, isTrue } from './conditions.ts';
import { gatesClosed, obstacle, unreadiness } from './nodeBudget.ts';
import { isGivenBack, stageOf } from './stage.ts';
import { verdictOn, WORK_SUCCEEDED, workBegun, workSucceeded } from './turnVerdict.ts';

/** What becomes of turns that are under way: 'Finish' while the window is open, and after it as its spec says. */
export type TurnPolicy = 'Finish' | 'Hold' | 'Cancel';

export interface TurnSight {
  maintenance: Pick<NodeMaintenance, 'metadata' | 'spec' | 'status'>;
  /** Undefined when it is gone, or another has come under its name. */
  node: Node | undefined;
  /** What the turn was begun for, whatever its window says by now. */
  work: WindowWork['type'];
  /** What is to be done to nodes has changed since. */
  isOutdated: boolean;
  /** The node was made anew under its name since the turn began. */
  isReplaced?: boolean;
  /** The Job of this turn, as far as it has one. */
  job: Job | undefined;
  /** When the kubelet of the node last said that it lives, as far as it was asked for. Milliseconds. */
  heardAt?: number | undefined;
  /** A readiness gate of the node is closed, and it has no taint for that yet. */
  isLeftOpen?: boolean;
  /** Since when the turn was seen to wait for its node; undefined at first sight. Milliseconds. */
  awaitedSince?: number | undefined;
  policy: TurnPolicy;
  readyTimeoutSeconds: number;
  /** Milliseconds. */
  now: number;
}

/** What is to be done next for the turn of one node. */
export type TurnStep =
  /** Nothing now; `message` says what it waits for. */
  | { kind: 'Wait'; message: string }
  /** The same, but for no longer than `readyTimeoutSeconds`. */
  | { kind: 'AwaitNode'; message: string }
  | { kind: 'StartJob' }
  /** Write down what its Job has come to, before that is acted on. */
  | { kind: 'NoteWork'; facts: ConditionFacts }
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

/** Seconds that a Job may take beyond its timeout, and the time that it gives its pods to end, before it counts as one that never ends. */
const jobGrace = 60;

export function decideTurn(sight: TurnSight): TurnStep {
  const { maintenance, node } = sight;
  const verdict = verdictOn(maintenance);
  const isComplete = stageOf(maintenance) === 'Complete';
  const isOver = isGivenBack(maintenance);
  // Whoever completed it: nothing works on a node that takes pods again.
  if (isComplete && isUnfinished(sight.job) && !isBeingDeleted(sight.job)) return { kind: 'DeleteJob' };
  const isAdvanced = verdict?.status === 'Unknown';
  if (verdict !== undefined && !isAdvanced) return judged(verdict, isOver, sight);
  if (node === undefined) return isComplete ? waitOr(isOver, { kind: 'Forget' }) : withoutNode(sight);
  if (isComplete) return waitOr(isOver, returned(sight, node, isAdvanced ? undefined : undone(sight)));
  return isAdvanced ? advanced(sight, node, verdict) : working(sight, node);
}

/** A Job that makes its node anew would do so for ever, if each new node had its turn at once. */
function withoutNode({ isReplaced = false, job, maintenance }: TurnSight): TurnStep {
  const hasBegun = job !== undefined || workOf(maintenance) !== undefined;
  if (!isReplaced || !hasBegun) return { kind: 'Cancel' };
  return {
    kind: 'Fail',
    reason: 'NodeReplaced',
    message: `the node was made anew while its Job worked on it: see to the node, then delete the NodeMaintenance; the new node has its turn anew`,
  };
}

function waitOr(isOver: boolean, step: TurnStep): TurnStep {
  return isOver ? step : { kind: 'Wait', message: 'it is given back' };
}

function judged(
  { status, reason, message, lastTransitionTime }: Condition,
  isOver: boolean,
  sight: TurnSight,
): TurnStep {
  // A person who has dealt with a failure may give back a node that is not ready.
  if (status === 'True' && stageOf(sight.maintenance) !== 'Complete') return { kind: 'Complete' };
  if (status === 'True') return waitOr(isOver, { kind: 'Over', at: Date.parse(lastTransitionTime) });
  if (reason === 'Cancelled') return cancelled(isOver, sight);
  return { kind: 'Failed', reason, message, isOver };
}

/** First its Job, then the node, then the record: a Job must not run on a node that takes pods again. */
function cancelled(isOver: boolean, { job, maintenance: { spec }, now }: TurnSight): TurnStep {
  if (isOver) return { kind: 'Forget' };
  if (job !== undefined) {
    const { deletionTimestamp } = job.metadata;
    return deletionTimestamp === undefined
      ? { kind: 'DeleteJob' }
      : whileItIsDeleted(job, deletionTimestamp, now);
  }
  return spec.stage === 'Complete' ? { kind: 'Wait', message: 'it is given back' } : { kind: 'Complete' };
}

/** Seconds that the pods of a Job may take to end. */
function timeToEnd({ template }: Job['spec']): number {
  return jobGrace + (template.spec?.terminationGracePeriodSeconds ?? 0);
}

/** On a node that is gone nobody ends its pods. */
function whileItIsDeleted({ metadata, spec }: Job, since: string, now: number): TurnStep {
  const seconds = timeToEnd(spec);
  if (!(now - Date.parse(since) > seconds * 1_000))
    return { kind: 'Wait', message: 'the pods of its Job end' };
  return {
    kind: 'Fail',
    reason: 'JobNeverEnded',
    message: `the pods of Job ${metadata.name} have not ended ${seconds} s after it was deleted: see to them and to the node, then advance its turn`,
  };
}

/** The maintenance is complete and the node schedulable: the turn ends when it takes pods again. */
function returned(sight: TurnSight, node: Node, missing: string | undefined): TurnStep {
  const { maintenance } = sight;
  if (missing !== undefined)
    return {
      kind: 'Fail',
      reason: 'EndedEarly',
      message: `its NodeMaintenance was completed before ${missing}: advance the turn if nothing is left to do, delete the NodeMaintenance to have it anew`,
    };
  const because = obstacle(node) ?? (sight.isLeftOpen === true ? gatesClosed : undefined);
  if (because === undefined) return { kind: 'Succeed' };
  const since = maintenance.status?.stageStatuses.find(({ name }) => name === 'Complete')?.startTimestamp;
  return readyInTime(sight, Date.parse(since ?? ''), because, 'after it was given back');
}

/** What was still to come when a person completed the maintenance. */
function undone({ maintenance: { status }, work, job }: TurnSight): string | undefined {
  if (work === 'Job' && isTrue(status?.conditions, WORK_SUCCEEDED)) return undefined;
  if (work === 'Job') return hasCondition(job, 'Complete') ? undefined : 'its Job had succeeded';
  return isTrue(status?.conditions, 'Drained') ? undefined : 'the node was drained';
}

function readyInTime(
  { readyTimeoutSeconds, now, awaitedSince = now }: TurnSight,
  since: number,
  because: string,
  when: string,
): TurnStep {
  // The time in which nobody looked does not count: the node may have been back, and have only just gone again.
  const waited = now - Math.max(since, awaitedSince);
  if (!(waited > readyTimeoutSeconds * 1_000)) return { kind: 'AwaitNode', message: because };
  return {
    kind: 'Fail',
    reason: 'NodeNotReady',
    message: `${because} ${readyTimeoutSeconds} s ${when}: see to the node, then advance its turn`,
  };
}

function working(sight: TurnSight, node: Node): TurnStep {
  const { maintenance, job, policy } = sight;
  const note = workOf(maintenance);
  const done = workDone(sight);
  if (note?.status === 'True' && done !== undefined) return whenReady(sight, node, done);
  // One that has failed stays as it is, for a person to look at.
  if (policy === 'Cancel' && (job === undefined || isUnfinished(job))) return { kind: 'Cancel' };
  if (job !== undefined) return noteDue(note, job) ?? whileItWorks(sight, job);
  return note === undefined ? beforeItsWork(sight) : jobDeleted;
}

/** Whoever advanced it may have restarted the node just before. */
function advanced(sight: TurnSight, node: Node, order: Condition): TurnStep {
  const { job } = sight;
  // The order was given before there was a Job, and says nothing of it.
  if (job !== undefined && endOfWork(job) === undefined) return whileItWorks(sight, job);
  return whenReady(sight, node, advancedAt(order));
}

function beforeItsWork({ maintenance, work, policy, isOutdated }: TurnSight): TurnStep {
  // The Job that it was begun for is no more to be had.
  if (work === 'Job' && isOutdated) return { kind: 'Cancel' };
  if (!isTrue(maintenance.status?.conditions, 'Drained'))
    return { kind: 'Wait', message: policy === 'Hold' ? 'its drain rests' : 'it is drained' };
  if (work === 'None')
    return { kind: 'Wait', message: 'it is drained; advance its turn when the work is done' };
  return policy === 'Hold' ? { kind: 'Wait', message: 'its work rests' } : { kind: 'StartJob' };
}

/** What is known of the work, whatever has become of its Job. */
function workOf({ status }: TurnSight['maintenance']): Condition | undefined {
  return status?.conditions.find(({ type }) => type === WORK_SUCCEEDED);
}

function timeOf({ lastTransitionTime }: Condition): number {
  return Date.parse(lastTransitionTime);
}

function noteDue(note: Condition | undefined, job: Job): TurnStep | undefined {
  if (endOfWork(job) !== undefined) return { kind: 'NoteWork', facts: workSucceeded(job.metadata.name) };
  return note === undefined ? { kind: 'NoteWork', facts: workBegun(job.metadata.name) } : undefined;
}

/** Whoever deleted it did not want it to run: it does not begin anew by itself. */
const jobDeleted: TurnStep = {
  kind: 'Fail',
  reason: 'JobDeleted',
  message:
    'its Job was deleted before it had succeeded: advance the turn if nothing is left to do, or set the NodeMaintenance to Complete and delete it to have it anew',
};

function whileItWorks({ now }: TurnSight, job: Job): TurnStep {
  const failure = job.status?.conditions?.find(({ type, status }) => type === 'Failed' && status === 'True');
  if (failure !== undefined)
    return {
      kind: 'Fail',
      reason: 'JobFailed',
      message: `Job ${job.metadata.name} failed (${failure.reason || 'it does not say why'}): see its pods, then advance the turn, or set the NodeMaintenance to Complete and delete it to have it anew`,
    };
  const seconds = (job.spec.activeDeadlineSeconds ?? 0) + timeToEnd(job.spec);
  const began = Date.parse(job.status?.startTime ?? job.metadata.creationTimestamp ?? '');
  if (!(now - began > seconds * 1_000)) return { kind: 'Wait', message: `Job ${job.metadata.name} works` };
  return {
    kind: 'Fail',
    reason: 'JobNeverEnded',
    message: `Job ${job.metadata.name} has not ended ${seconds} s after it began: see to its pods and to the node, then advance its turn`,
  };
}

/** When nothing was left to do on a node (milliseconds), in words that follow "since". */
interface Done {
  at: number;
  what: string;
}

/** From when on the node of a turn is to be heard before it is given back; undefined while there is work to do, or it is given back. */
export function doneWith({ maintenance, job }: Pick<TurnSight, 'maintenance' | 'job'>): Done | undefined {
  if (stageOf(maintenance) === 'Complete') return undefined;
  const verdict = verdictOn(maintenance);
  if (verdict === undefined) return workDone({ maintenance, job });
  return verdict.status === 'Unknown' ? advancedAt(verdict) : undefined;
}

function advancedAt(order: Condition): Done {
  return { at: timeOf(order), what: 'it was advanced' };
}

function workDone({ maintenance, job }: Pick<TurnSight, 'maintenance' | 'job'>): Done | undefined {
  const note = workOf(maintenance);
  const at = endOfWork(job) ?? (note?.status === 'True' ? timeOf(note) : undefined);
  return at === undefined ? undefined : { at, what: 'its work' };
}

function whenReady(sight: TurnSight, node: Node, done: Done): TurnStep {
  const because = absence(node, sight.heardAt, done);
  if (because === undefined) return { kind: 'Complete' };
  return readyInTime(sight, done.at, because, `after ${done.what}`);
}

/**
 * Why a node is not to be given back yet, in words that follow "because"; undefined when it is ready, and has been heard since then:
 * that it is down is known only after a while. Not its readiness gates: their pods come back only when the node is given back.
 */
function absence(node: Node, heardAt: number | undefined, { at, what }: Done): string | undefined {
  const isSilent = heardAt !== undefined && heardAt <= at;
  return unreadiness(node) ?? (isSilent ? `its kubelet has not been heard since ${what}` : undefined);
}

function endOfWork(job: Job | undefined): number | undefined {
  const done = job?.status?.conditions?.find(({ type, status }) => type === 'Complete' && status === 'True');
  return done && Date.parse(done.lastTransitionTime);
}

/** Whether a Job may still have pods that run. */
export function isUnfinished(job: Job | undefined): job is Job {
  return job !== undefined && !hasCondition(job, 'Complete') && !hasCondition(job, 'Failed');
}

function isBeingDeleted({ metadata }: Job): boolean {
  return metadata.deletionTimestamp !== undefined;
}

function hasCondition(job: Job | undefined, type: string): boolean {
  return isTrue(job?.status?.conditions, type);
}
