import {
  type Client,
  type ScheduleDescription,
  ScheduleNotFoundError,
  type ScheduleOptions,
  ScheduleOverlapPolicy,
  ServiceError,
} from '@temporalio/client';
import type { MaintenanceWindow } from '../api/maintenanceWindow.ts';
import { TASK_QUEUE, windowWorkflowIdOf } from '../api/names.ts';
import { windowIntroductionOf } from '../domain/introduction.ts';
import { digest } from '../domain/revision.ts';
import type { ScheduleState } from '../domain/windowConditions.ts';
import { cronExpressions, durationMs, exceptionsOf } from '../domain/windowSchedule.ts';
import type { EventRecorder } from '../kube/events.ts';
import type { Log } from '../kube/log.ts';

interface Deps {
  temporal: Client;
  events: EventRecorder;
  log: Log;
}

/** By which a Schedule is known to be as its window says; in the memo of its action. */
const digestKey = 'maintenanceWindowDigest';
/** Why a Schedule is paused, when we paused it. */
const suspendNote = 'spec.suspend of the MaintenanceWindow';
const problemNote = 'condition Valid of the MaintenanceWindow';
const ownNotes = [suspendNote, problemNote];
/** For so long Temporal is asked before it counts as one that does not answer. Milliseconds. */
const patience = 10_000;

type Handle = ReturnType<Client['schedule']['getHandle']>;

/**
 * The Schedules in Temporal that open windows: one for each, kept as its window says. Those that people made by hand, with another
 * id, are theirs.
 */
export class Schedules {
  readonly #deps: Deps;
  /** By window: the Schedule as Temporal described it after it was written here. */
  readonly #written = new Map<string, string>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Makes the Schedule what its window says. One of a window that has problems opens none. */
  keep(window: MaintenanceWindow, isValid: boolean): Promise<ScheduleState> {
    return this.#answered(() => (isValid ? this.#keep(window) : this.#pause(window)));
  }

  /** Resolves with nothing when the window of that name has none any more. */
  async drop(window: string): Promise<ScheduleState | undefined> {
    return this.#answered(() => this.#drop(window));
  }

  /** The names of all windows that have one, or had one and are gone; rejects when Temporal does not answer. */
  async windows(): Promise<string[]> {
    const { temporal } = this.#deps;
    const prefix = windowWorkflowIdOf('');
    const names: string[] = [];
    for await (const { scheduleId } of temporal.schedule.list())
      if (scheduleId.startsWith(prefix)) names.push(scheduleId.slice(prefix.length));
    return names;
  }

  /** What `ask` resolves with, or what Temporal finds wrong with it, or that it does not answer. */
  async #answered<T>(ask: () => Promise<T>): Promise<T | ScheduleState> {
    try {
      return await this.#deps.temporal.withDeadline(Date.now() + patience, ask);
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      const message = error.cause instanceof Error ? error.cause.message : error.message;
      return { kind: isInvalidArgument(error) ? 'Refused' : 'Unknown', message };
    }
  }

  async #keep(window: MaintenanceWindow): Promise<ScheduleState> {
    const { temporal, events, log } = this.#deps;
    const { name } = window.metadata;
    const wanted = scheduleOf(window);
    const handle = temporal.schedule.getHandle(wanted.scheduleId);
    const found = await handle.describe().catch(unlessNotFound);
    if (found === undefined) {
      await temporal.schedule.create(wanted);
      log.info('Schedule created', { window: name });
    } else if (!isAsWanted(found, window) || this.#written.get(name) !== textOf(found)) {
      const { spec, action, policies } = wanted;
      await handle.update(({ state: { remainingActions: _limited, ...state }, ...previous }) => ({
        ...previous,
        state,
        spec,
        action,
        ...(policies && { policies }),
      }));
      log.info('Schedule changed', { window: name });
      // Otherwise it is as somebody made it in Temporal.
      if (isAsWanted(found, window) && this.#written.has(name)) events.record(window, repaired);
    } else return keepPaused(handle, found, window);
    const now = await handle.describe();
    this.#written.set(name, textOf(now));
    return keepPaused(handle, now, window);
  }

  /** It stays, with the pause that a person may have given it. */
  async #pause({ metadata }: MaintenanceWindow): Promise<ScheduleState> {
    const { temporal, log } = this.#deps;
    const handle = temporal.schedule.getHandle(windowWorkflowIdOf(metadata.name));
    const found = await handle.describe().catch(unlessNotFound);
    if (found !== undefined && !found.state.paused) {
      await handle.pause(problemNote);
      log.info('Schedule paused', { window: metadata.name });
    }
    return { kind: 'NotValid' };
  }

  async #drop(window: string): Promise<undefined> {
    const { temporal, log } = this.#deps;
    this.#written.delete(window);
    const handle = temporal.schedule.getHandle(windowWorkflowIdOf(window));
    const found = await handle.describe().catch(unlessNotFound);
    if (found === undefined || !isOurs(found)) return;
    await handle.delete().catch(unlessNotFound);
    log.info('Schedule deleted', { window });
  }
}

const repaired = {
  type: 'Warning',
  reason: 'ScheduleRepaired',
  message:
    'Somebody edited the Schedule of the window in Temporal: it was set back. Edit the MaintenanceWindow, or make a Schedule with another id.',
} as const;

/** What a Schedule takes from its window, as Temporal has it. */
function textOf({ spec, action, policies, state: { remainingActions } }: ScheduleDescription): string {
  return JSON.stringify([spec, action, policies, remainingActions ?? null]);
}

async function keepPaused(
  handle: Handle,
  { state: { paused, note = '' } }: ScheduleDescription,
  { spec }: MaintenanceWindow,
): Promise<ScheduleState> {
  if (spec.suspend) {
    if (!paused) await handle.pause(suspendNote);
    return { kind: 'Suspended' };
  }
  if (!paused) return { kind: 'AsWanted' };
  if (!ownNotes.includes(note)) return { kind: 'PausedInTemporal', note };
  await handle.unpause('The MaintenanceWindow opens again');
  return { kind: 'AsWanted' };
}

function unlessNotFound(error: unknown): undefined {
  if (!(error instanceof ScheduleNotFoundError)) throw error;
}

const invalidArgument = 3;

function isInvalidArgument({ cause }: ServiceError): boolean {
  return (cause as { code?: number } | undefined)?.code === invalidArgument;
}

/** The Schedule of a window, as it is created. */
function scheduleOf(window: MaintenanceWindow): ScheduleOptions {
  const { name } = window.metadata;
  const { schedule, suspend } = window.spec;
  const introduction = windowIntroductionOf(window);
  return {
    scheduleId: windowWorkflowIdOf(name),
    spec: {
      cronExpressions: cronExpressions(schedule),
      skip: exceptionsOf(schedule).map(({ year, month, day }) => ({
        year,
        month: months[month - 1] ?? 'JANUARY',
        dayOfMonth: day,
        hour: '*',
        minute: '*',
        second: '*',
      })),
      timezone: schedule.timeZone,
    },
    action: {
      type: 'startWorkflow',
      workflowType: 'maintenanceWindow',
      workflowId: windowWorkflowIdOf(name),
      taskQueue: TASK_QUEUE,
      args: [{ name }],
      ...introduction,
      memo: { ...introduction.memo, [digestKey]: digestOf(window) },
    },
    policies: {
      // One that lasts beyond its end is followed by the next at once, which ends at its own time.
      overlap: ScheduleOverlapPolicy.BUFFER_ONE,
      // Opened late, after an outage, a window still ends at its time: later than that there is nothing to catch up with.
      catchupWindow: durationMs(schedule.duration),
    },
    state: { paused: suspend, note: suspend ? suspendNote : `Kept by MaintenanceWindow ${name}` },
  };
}

const months = [
  'JANUARY',
  'FEBRUARY',
  'MARCH',
  'APRIL',
  'MAY',
  'JUNE',
  'JULY',
  'AUGUST',
  'SEPTEMBER',
  'OCTOBER',
  'NOVEMBER',
  'DECEMBER',
] as const;

/** Of all that a Schedule takes from its window. */
function digestOf({ metadata, spec }: MaintenanceWindow): string {
  return digest(JSON.stringify([metadata.uid, spec.schedule, spec.template.reason ?? '']));
}

/** Not one that a person made. */
function isOurs({ action }: ScheduleDescription): boolean {
  return action.type === 'startWorkflow' && action.memo?.[digestKey] !== undefined;
}

function isAsWanted({ action }: ScheduleDescription, window: MaintenanceWindow): boolean {
  return action.type === 'startWorkflow' && action.memo?.[digestKey] === digestOf(window);
}
