import type { Condition } from '../../api/core.ts';
import type { ConditionFacts } from './conditions.ts';
import { oneLine } from './text.ts';

/** Condition of an object whose workflow makes no progress. The object has it only if that has happened. */
export const STALLED = 'Stalled';

/** The newest run of an object, as Temporal describes it. */
export interface ObservedRun {
  workflowId: string;
  runId: string;
  isOpen: boolean;
  /** It failed or timed out by itself. */
  hasFailed: boolean;
  /** When it was started: milliseconds since the epoch. */
  startedMs: number;
  /** Attempts of the workflow task that is pending; 0 if none is. */
  taskAttempts: number;
  /** Since when a workflow task waits for a worker: milliseconds since the epoch. Undefined if none does. */
  untakenSinceMs?: number | undefined;
  /** The activity in progress whose attempts have failed most often, with the latest error. Undefined if none has failed. */
  failingActivity?: FailingActivity | undefined;
}

interface FailingActivity {
  type: string;
  attempts: number;
  message: string;
  /** When the attempt in progress was started: milliseconds since the epoch. Undefined while the next one waits. */
  startedMs: number | undefined;
}

/** Why a run does not continue, as its history says. */
export interface RunProblem {
  message: string;
  /** Decides the remedy. */
  cause: ProblemCause;
}

export type ProblemCause =
  /** The namespace does not have a search attribute that the run sets: every other run would fail, too. */
  | 'SearchAttribute'
  /** A worker does not have the key of a payload. */
  | 'PayloadKey'
  | 'Other';

/** More than a worker that was killed in the middle of a task causes. */
const stalledAttempts = 3;

export type RunHealth = 'Working' | 'Unclear' | 'Failing';

/** Reports whether the workflow task of a run fails again and again. */
export function healthOf({ taskAttempts }: Pick<ObservedRun, 'taskAttempts'>): RunHealth {
  if (taskAttempts >= stalledAttempts) return 'Failing';
  return taskAttempts <= 1 ? 'Working' : 'Unclear';
}

export interface StalledInput {
  run: ObservedRun;
  problem: RunProblem;
  conditions: readonly Condition[];
  /** The object holds what a new run needs to continue. */
  isReplaceable: boolean;
  /** A run that has been stalled for so long is replaced; 0: never. */
  timeoutSeconds: number;
  nowMs: number;
}

/** Decision about a run whose workflow task fails again and again. */
export type StalledDecision =
  | { kind: 'Report'; facts: ConditionFacts }
  /** The condition is written before the run is terminated, so that the time starts again with the next run. */
  | { kind: 'Replace'; facts: ConditionFacts; reason: string };

export function decideStalled({
  run,
  problem,
  conditions,
  isReplaceable,
  timeoutSeconds,
  nowMs,
}: StalledInput): StalledDecision {
  const stalled = stalledCondition(conditions);
  const sinceMs = stalled === undefined ? nowMs : timeOr(stalled.lastTransitionTime, nowMs);
  const isReplaced = isReplaceable && timeoutSeconds > 0 && problem.cause !== 'SearchAttribute';
  const replacedAtMs = isReplaced ? sinceMs + timeoutSeconds * 1_000 : undefined;
  if (replacedAtMs !== undefined && nowMs >= replacedAtMs)
    return {
      kind: 'Replace',
      facts: notStalled('WorkflowReplaced', run.workflowId),
      // Without the problem, which may have been encrypted: Temporal stores reasons as they are.
      reason: 'its workflow task failed again and again, and a new run continues from the object',
    };
  const alternative = isReplaceable && problem.cause !== 'SearchAttribute';
  const remedy = `${remedies[problem.cause]}${alternative ? `, or ${terminate(run, replacedAtMs)}` : '.'}`;
  const message = `Workflow ${run.workflowId} cannot continue, because its workflow task fails again and again (${brief(problem)}). ${remedy}`;
  return { kind: 'Report', facts: { type: STALLED, status: 'True', reason: 'WorkflowTaskFailed', message } };
}

function timeOr(text: string, otherwiseMs: number): number {
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? otherwiseMs : ms;
}

const remedies: Readonly<Record<ProblemCause, string>> = {
  SearchAttribute:
    'Register the search attribute (npm run temporal-config -- apply): the run then continues within 10 minutes',
  PayloadKey: 'Give every worker the key: the run then continues within 10 minutes',
  Other: 'Roll back the workers to the version that ran the workflow before',
};

function terminate({ workflowId, runId }: ObservedRun, replacedAtMs: number | undefined): string {
  const remedy = `terminate the run, and a new one continues from the object: temporal workflow terminate --workflow-id ${workflowId} --run-id ${runId}`;
  return replacedAtMs === undefined
    ? remedy
    : `${remedy}. The worker terminates it at ${new Date(replacedAtMs).toISOString()}.`;
}

/** Runs that fail at once are started again with growing pauses, up to a minute: one that lasts longer works. */
const workingAfterMs = 90_000;

/** Workers take a task within seconds. After an outage, or in an upgrade, that may take longer. */
const untakenAfterMs = 180_000;
/** Activities are tried again with growing pauses of up to 15 s: these take about two minutes. */
const failingAttempts = 12;
/** An attempt that lasts longer does not fail as the earlier ones did. */
const workingAttemptMs = 30_000;

/**
 * Returns the condition of a run that waits for what only a person changes: no worker takes its workflow task, or an activity fails again and again.
 * Undefined for other runs. A new run would wait, too.
 */
export function waitingRun(run: ObservedRun, nowMs: number): ConditionFacts | undefined {
  const { workflowId, untakenSinceMs = nowMs, failingActivity } = run;
  const status = { type: STALLED, status: 'True' } as const;
  if (nowMs - untakenSinceMs > untakenAfterMs)
    return {
      ...status,
      reason: 'WorkflowTaskNotPolled',
      message: `Workflow ${workflowId} waits since ${new Date(untakenSinceMs).toISOString()} for a worker that takes its task: check that workers poll its task queue with the version that Temporal routes it to (kubectl maintenance workers, temporal worker deployment list).`,
    };
  if (failingActivity === undefined || failingActivity.attempts < failingAttempts) return undefined;
  if (nowMs - (failingActivity.startedMs ?? nowMs) > workingAttemptMs) return undefined;
  return {
    ...status,
    reason: 'ActivityFailed',
    message: `Workflow ${workflowId} does not continue, because its activity ${failingActivity.type} fails again and again (${brief(failingActivity)}). It is tried again until it succeeds: remove the cause.`,
  };
}

/** Returns the condition that ends Stalled if the run works again; undefined if there is nothing to change. */
export function resolvedStalled(
  run: ObservedRun,
  conditions: readonly Condition[],
  nowMs: number,
): ConditionFacts | undefined {
  const condition = stalledCondition(conditions);
  if (condition === undefined || healthOf(run) !== 'Working') return undefined;
  if (condition.reason === 'WorkflowFailed' && nowMs - run.startedMs < workingAfterMs) return undefined;
  return notStalled('WorkflowContinues', run.workflowId);
}

const resolvedMessages = {
  WorkflowContinues: 'makes progress again.',
  WorkflowReplaced:
    'could not continue and was terminated: a new run continues from the state of the object.',
} as const;

/** Returns the condition of an object that has stalled before. */
export function notStalled(reason: keyof typeof resolvedMessages, workflowId: string): ConditionFacts {
  const message = `Workflow ${workflowId} ${resolvedMessages[reason]}`;
  return { type: STALLED, status: 'False', reason, message };
}

/** Returns the condition of an object whose runs fail soon after each start. `toEnd` says how a user ends the object's work. */
export function failingRuns(workflowId: string, problem: RunProblem, toEnd: string): ConditionFacts {
  const message = `Workflow ${workflowId} fails soon after each start (${brief(problem)}). It is started again with growing pauses, up to 60 s: remove the cause, or ${toEnd}.`;
  return { type: STALLED, status: 'True', reason: 'WorkflowFailed', message };
}

/** Returns true for a condition that a user should do something about. Stalled is the only one that is bad when it is True. */
export function needsAttention({ type, status }: Pick<Condition, 'type' | 'status'>): boolean {
  return type === STALLED ? status === 'True' : status !== 'True';
}

export function isStalled(conditions: readonly Condition[] | undefined): boolean {
  return stalledCondition(conditions) !== undefined;
}

/** Returns why the object has stalled, and the remedy. */
export function stalledMessage(conditions: readonly Condition[] | undefined): string | undefined {
  return stalledCondition(conditions)?.message;
}

/** Returns the condition Stalled if it is True. */
export function stalledCondition(conditions: readonly Condition[] = []): Condition | undefined {
  return conditions.find(({ type, status }) => type === STALLED && status === 'True');
}

const maxProblemLength = 400;

function brief({ message }: Pick<RunProblem, 'message'>): string {
  return oneLine(message, maxProblemLength);
}

/** A run that may be checked. */
export interface Checkable {
  name: string;
  /** Its object shows no progress. */
  isSuspect: boolean;
}

/** How often runs are checked, and how many in one pass. */
export interface CheckTiming {
  everyMs: number;
  /** Also the time between two passes. */
  suspectEveryMs: number;
  maxPerPass: number;
  /** How long a run is observed to wait before that is reported. */
  waitingMs: number;
}

const maxEveryMs = 60_000;
const maxSuspectEveryMs = 10_000;
const minEveryMs = 1_000;
/** Each check is a request to Temporal. */
const maxChecksPerSecond = 5;

/** Returns the timing for a setting of `timeoutSeconds`: a run is checked five times in that time, but at least every minute if there are few. */
export function checkTiming(timeoutSeconds: number): CheckTiming {
  const fifthMs = timeoutSeconds === 0 ? maxEveryMs : timeoutSeconds * 200;
  const everyMs = Math.min(Math.max(fifthMs, minEveryMs), maxEveryMs);
  const suspectEveryMs = Math.min(everyMs, maxSuspectEveryMs);
  return {
    everyMs,
    suspectEveryMs,
    maxPerPass: Math.ceil((suspectEveryMs / 1_000) * maxChecksPerSecond),
    waitingMs: maxEveryMs,
  };
}

/** Returns the names of the runs to check now, those first that were checked the longest time ago. `checkedMs`: name -> last check. */
export function dueChecks(
  runs: readonly Checkable[],
  checkedMs: ReadonlyMap<string, number>,
  { everyMs, suspectEveryMs, maxPerPass }: CheckTiming,
  nowMs: number,
): string[] {
  const lastOf = (name: string) => checkedMs.get(name) ?? 0;
  return runs
    .filter(({ name, isSuspect }) => nowMs - lastOf(name) >= (isSuspect ? suspectEveryMs : everyMs))
    .map(({ name }) => name)
    .toSorted((a, b) => lastOf(a) - lastOf(b) || (a < b ? -1 : 1))
    .slice(0, maxPerPass);
}
