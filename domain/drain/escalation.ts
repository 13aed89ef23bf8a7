import type { DrainDeadline } from '../../api/drainDeadline.ts';
import type {
  DeadlineStepStatus,
  DrainDeadlineStatus,
  NodeMaintenance,
  NodeMaintenanceStatus,
} from '../../api/nodeMaintenance.ts';
import { compareNames } from '../common/names.ts';
import { oneLine } from '../common/text.ts';
import type { Pod } from '../../api/core.ts';
import { OWNER_ANNOTATION } from '../../api/names.ts';
import { podName } from '../common/pod.ts';

const unitMs: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1_000 };

/** Parses a duration such as `1h30m`. The schema admits no other text, for which this returns 0. */
export function durationMs(text: string): number {
  const parts = [...text.matchAll(/(\d+)([hms])/g)];
  return parts.reduce((total, [, number, unit]) => total + Number(number) * (unitMs[unit ?? ''] ?? 0), 0);
}

/**
 * Returns the deadline that is in effect, with the steps that are done; undefined without one, and until Drain has started. The time never moves
 * back: "a later, looser deadline does not relax an earlier one". Once the nodes were drained, it stays as it was. Two steps are the same if their action and their time before the deadline are equal.
 */
export function drainDeadlineOf(
  spec: DrainDeadline | undefined,
  status: Pick<NodeMaintenanceStatus, 'stageStatuses' | 'drainDeadline'> | undefined,
): DrainDeadlineStatus | undefined {
  const started = status?.stageStatuses.find(({ name }) => name === 'Drain')?.startTimestamp;
  if (spec === undefined || started === undefined) return undefined;
  const before = status?.drainDeadline;
  if (before?.drainedAt !== undefined) return before;
  const specified =
    spec.at === undefined ? Date.parse(started) + durationMs(spec.after ?? '') : Date.parse(spec.at);
  const timeMs = Math.min(specified, before === undefined ? specified : Date.parse(before.time));
  const steps = [
    ...spec.steps.map(({ before: lead, action }) => ({ leadMs: durationMs(lead), action })),
    { leadMs: 0, action: spec.onDeadline },
  ].map(({ leadMs, action }): DeadlineStepStatus => {
    const doneAt = before?.steps.find(
      (step) => step.action === action && leadOf(before, step) === leadMs,
    )?.doneAt;
    return { time: rfc3339(timeMs - leadMs), action, ...(doneAt !== undefined && { doneAt }) };
  });
  return { time: rfc3339(timeMs), steps };
}

function leadOf({ time }: DrainDeadlineStatus, step: DeadlineStepStatus): number {
  return Date.parse(time) - Date.parse(step.time);
}

/** Formats a time without fractions of a second, as metav1.Time does. */
function rfc3339(ms: number): string {
  return new Date(Math.floor(ms / 1_000) * 1_000).toISOString().replace('.000Z', 'Z');
}

/** The steps of an escalation that are due, and the time of the next one. */
export interface Escalation {
  /** Steps that are due, in the order of their times. */
  due: readonly DeadlineStepStatus[];
  /** Time of the next step in milliseconds since the epoch; undefined if none is left. */
  nextAtMs: number | undefined;
}

/** Returns what an escalation has to do now: nothing once the nodes were drained. */
export function escalationAt(deadline: DrainDeadlineStatus, nowMs: number): Escalation {
  const open =
    deadline.drainedAt === undefined ? deadline.steps.filter(({ doneAt }) => doneAt === undefined) : [];
  const due = open.filter(({ time }) => Date.parse(time) <= nowMs);
  const next = open.find(({ time }) => Date.parse(time) > nowMs);
  return { due, nextAtMs: next && Date.parse(next.time) };
}

/** Returns the time until the next step of a maintenance, 0 if one is due; undefined if none is left. */
export function nextStepInMs({ status }: Pick<NodeMaintenance, 'status'>, now: Date): number | undefined {
  if (status?.drainDeadline === undefined) return undefined;
  const { due, nextAtMs } = escalationAt(status.drainDeadline, now.getTime());
  if (due.length > 0) return 0;
  return nextAtMs && nextAtMs - now.getTime();
}

/** Returns the time until the deadline that is in effect, not positive once it has passed; undefined without one. */
export function deadlineInMs(
  { spec, status }: Pick<NodeMaintenance, 'spec' | 'status'>,
  now: Date,
): number | undefined {
  const deadline = drainDeadlineOf(spec.drainDeadline, status);
  return deadline && Date.parse(deadline.time) - now.getTime();
}

/** Reports whether the deadline that is in effect has passed. One that was met has no effect on what the drain waits for later. */
export function isPastDeadline(
  { spec, status }: Pick<NodeMaintenance, 'spec' | 'status'>,
  now: Date,
): boolean {
  const deadline = drainDeadlineOf(spec.drainDeadline, status);
  if (deadline === undefined || now.getTime() < Date.parse(deadline.time)) return false;
  const { drainedAt } = deadline;
  return drainedAt === undefined || Date.parse(drainedAt) >= Date.parse(deadline.time);
}

/** Says what happens to pods that are left at a deadline that has not passed. */
export function deadlineEffect(deletes: boolean): string {
  return deletes
    ? 'pods that are left are deleted one grace period earlier'
    : 'pods that are left are reported';
}

/** Formats the deadline that is in effect and its next step; undefined without one, and once the nodes were drained. */
export function deadlineText({ spec, status }: Pick<NodeMaintenance, 'spec' | 'status'>): string | undefined {
  const deadline = status?.drainDeadline;
  if (deadline === undefined || deadline.drainedAt !== undefined) return undefined;
  const next = deadline.steps.find(({ doneAt }) => doneAt === undefined);
  const isOver = next === undefined || next.action !== 'Notify';
  const what = deadlineEffect(deletesOnDeadline({ spec }));
  return `${deadline.time}: ${what}${isOver ? '' : `; the next notification is due at ${next.time}`}`;
}

/** Marks these steps as done. A step that is done stays as it is. */
export function withStepsDone(
  deadline: DrainDeadlineStatus,
  done: readonly DeadlineStepStatus[],
  now: string,
): DrainDeadlineStatus {
  const isDone = (step: DeadlineStepStatus) =>
    done.some(({ time, action }) => time === step.time && action === step.action);
  return {
    ...deadline,
    steps: deadline.steps.map((step) =>
      step.doneAt === undefined && isDone(step) ? { ...step, doneAt: now } : step,
    ),
  };
}

/** Identifies a step whose time moves with the deadline, such as `Notify-3600`: what it does, and how many seconds before the deadline. */
function stepId(deadline: DrainDeadlineStatus, step: DeadlineStepStatus): string {
  return `${step.action}-${leadOf(deadline, step) / 1_000}`;
}

/** The steps that are done, for the history. */
export interface StepsDone {
  /** Steps that were not recorded before, such as `Notify 2024-04-22T21:40:32Z`. */
  done: string[];
  /** Identifies all of them. */
  recorded: string[];
}

/** Returns the steps that are done. `recorded` identifies those that the history has: a worker may die between a step and its record. */
export function stepsDone(
  deadline: DrainDeadlineStatus | undefined,
  recorded: readonly string[] = [],
): StepsDone {
  if (deadline === undefined) return { done: [], recorded: [] };
  const done = deadline.steps.filter(({ doneAt }) => doneAt !== undefined);
  return {
    done: done
      .filter((step) => !recorded.includes(stepId(deadline, step)))
      .map(({ action, time }) => `${action} ${time}`),
    recorded: done.map((step) => stepId(deadline, step)),
  };
}

/** Returns true if what is left at the deadline is deleted. Only the spec says so: what users write there is authorized. */
export function deletesOnDeadline({ spec }: Pick<NodeMaintenance, 'spec'>): boolean {
  return spec.drainDeadline?.onDeadline === 'Delete';
}

/** The pods of one owner that are left: their number, and the names of the first ones. */
export interface PodOwner {
  owner: string;
  pods: { count: number; names: string[] };
}

const maxOwners = 20;
const maxNames = 3;
const maxOwnerLength = 253;

/**
 * Returns the owners that the annotations of the pods name, those with the most pods first. Every user who may write a pod may write the annotation: it is
 * text to show, of a limited length.
 */
export function ownersOf(pods: readonly Pod[]): PodOwner[] {
  const named = pods.flatMap((pod) => {
    const owner = ownerOf(pod);
    return owner === undefined ? [] : [{ owner, pod: podName(pod) }];
  });
  return [...Map.groupBy(named, ({ owner }) => owner)]
    .map(([owner, own]) => ({
      owner,
      pods: {
        count: own.length,
        names: own
          .map(({ pod }) => pod)
          .toSorted(compareNames)
          .slice(0, maxNames),
      },
    }))
    .toSorted((a, b) => b.pods.count - a.pods.count || compareNames(a.owner, b.owner))
    .slice(0, maxOwners);
}

function ownerOf({ metadata }: Pod): string | undefined {
  return oneLine(metadata.annotations?.[OWNER_ANNOTATION] ?? '', maxOwnerLength) || undefined;
}
