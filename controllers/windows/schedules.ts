import {
  type Client,
  type ScheduleDescription,
  ScheduleNotFoundError,
  type ScheduleOptions,
  ScheduleOverlapPolicy,
  ServiceError,
} from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import {
  CLUSTER_UID_MEMO,
  type ClusterScope,
  DECRYPTION_ERROR,
  WindowOverrideAnnotation,
} from '../../api/names.ts';
import { windowStaticSummaryOf } from '../../domain/maintenance/staticSummary.ts';
import { canonicalJson } from '../../domain/common/canonicalJson.ts';
import { digest } from '../../domain/common/revision.ts';
import type { ScheduleState } from '../../domain/windows/conditions.ts';
import { scheduleOf as openingsOf, stopOf, type WindowStop } from '../../domain/windows/overrides.ts';
import { cronExpressions, durationMs, exceptionsOf } from '../../domain/windows/schedule.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { Log } from '../../kube/log.ts';
import { keyDifference } from '../../temporal-config/currentKey.ts';
import { readableMemo } from '../../temporal-config/readableMemo.ts';
import { listSchedules } from '../../temporal-config/schedules.ts';
import type { TemporalAvailability } from '../temporalAvailability.ts';

interface Deps {
  temporal: Client;
  availability: TemporalAvailability;
  scope: ClusterScope;
  events: EventRecorder;
  log: Log;
  /** Temporal is considered unavailable if it does not answer within this time; 10 s unless given. */
  temporalTimeoutMs?: number;
}

/** Key in the memo of a Schedule's action: the digest of the window that the Schedule was created from. */
const digestKey = 'maintenanceWindowDigest';
/** The notes of a Schedule that was paused by this controller. */
const suspendNote = 'spec.suspend of the MaintenanceWindow';
const pauseNote = `annotation ${WindowOverrideAnnotation.Paused} of the MaintenanceWindow`;
const problemNote = 'condition Valid of the MaintenanceWindow';
const ownNotes = [suspendNote, pauseNote, problemNote];
const defaultTemporalTimeoutMs = 10_000;

type Handle = ReturnType<Client['schedule']['getHandle']>;

/**
 * The Schedules in Temporal that open the windows of this cluster, one per window. Schedules with another id belong to users or to other
 * clusters and stay untouched.
 */
export class Schedules {
  readonly #deps: Deps;
  /** Maps each window to its Schedule as Temporal described it after the last write of this process. */
  readonly #written = new Map<string, string>();
  /** Window -> workflow id of the run that its Schedule has started last. */
  readonly #started = new Map<string, string>();
  /** Window -> workflow id of such a run that has ended. */
  readonly #ended = new Map<string, string>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Creates or updates the Schedule of a window. The Schedule of a window that is not valid is paused. */
  reconcile(window: MaintenanceWindow, isValid: boolean): Promise<ScheduleState> {
    return this.#withTimeout(() => (isValid ? this.#reconcile(window) : this.#pause(window)));
  }

  /** Returns the workflow id of the run that the Schedule of the window has started last, until that is known to have ended. */
  startedWorkflowId(window: string): string | undefined {
    const started = this.#started.get(window);
    return started === this.#ended.get(window) ? undefined : started;
  }

  ended(window: string, workflowId: string): void {
    this.#ended.set(window, workflowId);
  }

  /** Returns undefined once the window has no Schedule any more. */
  async delete(window: string): Promise<ScheduleState | undefined> {
    return this.#withTimeout(() => this.#delete(window));
  }

  /** Returns the names of all windows with a Schedule, including deleted windows. Rejects while Temporal is unavailable. */
  async windowNames(): Promise<string[]> {
    const { temporal, scope } = this.#deps;
    const prefix = scope.names.windowId('');
    const names: string[] = [];
    for await (const { scheduleId } of listSchedules(temporal))
      if (scheduleId.startsWith(prefix)) names.push(scheduleId.slice(prefix.length));
    return names;
  }

  /** Returns errors of Temporal as a state: Rejected for an invalid Schedule, Unreadable for one whose key is missing, otherwise Unknown. */
  async #withTimeout<T>(call: () => Promise<T>): Promise<T | ScheduleState> {
    const { temporal, availability, temporalTimeoutMs = defaultTemporalTimeoutMs } = this.#deps;
    const outage = availability.outage();
    if (outage !== undefined) return { kind: 'Unknown', message: outage.reason };
    try {
      return await temporal.withDeadline(Date.now() + temporalTimeoutMs, call);
    } catch (error) {
      if (isDecryptionError(error)) return { kind: 'Unreadable', message: error.message };
      if (!(error instanceof ServiceError)) throw error;
      const message = error.cause instanceof Error ? error.cause.message : error.message;
      return { kind: isInvalidArgument(error) ? 'Rejected' : 'Unknown', message };
    }
  }

  async #reconcile(window: MaintenanceWindow): Promise<ScheduleState> {
    const { temporal, scope, log } = this.#deps;
    const { name } = window.metadata;
    const desired = scheduleOf(window, scope);
    const handle = temporal.schedule.getHandle(desired.scheduleId);
    const found = await handle.describe().catch(ignoreScheduleNotFound);
    const latest = found?.info.recentActions.at(-1);
    if (latest !== undefined) this.#started.set(name, latest.action.workflow.workflowId);
    if (found === undefined) {
      await temporal.schedule.create(desired);
      log.info('Schedule created', { window: name });
    } else if (await this.#isAsDesired(found, window)) {
      return reconcilePause(handle, found, window);
    } else {
      await this.#update(handle, desired, { window, found });
    }
    const current = await handle.describe();
    this.#written.set(name, fingerprintOf(current));
    return reconcilePause(handle, current, window);
  }

  async #isAsDesired(found: ScheduleDescription, window: MaintenanceWindow): Promise<boolean> {
    const { loadedDataConverter } = this.#deps.temporal.options;
    if (!isUpToDate(found, window) || !this.#isAsWritten(found, window)) return false;
    return (await keyDifference(found, loadedDataConverter)).length === 0;
  }

  /** Returns whether nobody has changed the Schedule since this process wrote it. */
  #isAsWritten(found: ScheduleDescription, { metadata: { name } }: MaintenanceWindow): boolean {
    return this.#written.get(name) === fingerprintOf(found);
  }

  async #update(
    handle: Handle,
    { spec, action, policies }: ScheduleOptions,
    { window, found }: { window: MaintenanceWindow; found: ScheduleDescription },
  ): Promise<void> {
    const { events, log } = this.#deps;
    const { name } = window.metadata;
    await handle.update(({ state: { remainingActions: _limited, ...state }, ...previous }) => ({
      ...previous,
      state,
      spec,
      action,
      ...(policies && { policies }),
    }));
    log.info('Schedule updated', { window: name });
    // The window has not changed since this process wrote the Schedule, so that someone has edited it in Temporal.
    const isEdited = this.#written.has(name) && !this.#isAsWritten(found, window);
    if (isUpToDate(found, window) && isEdited) events.record(window, repaired);
  }

  /** Keeps the pause of a user, if there is one. */
  async #pause({ metadata }: MaintenanceWindow): Promise<ScheduleState> {
    const { temporal, scope, log } = this.#deps;
    const handle = temporal.schedule.getHandle(scope.names.windowId(metadata.name));
    const found = await handle.describe().catch(ignoreScheduleNotFound);
    if (found !== undefined && !found.state.paused) {
      await handle.pause(problemNote);
      log.info('Schedule paused', { window: metadata.name });
    }
    return { kind: 'InvalidSpec' };
  }

  async #delete(window: string): Promise<undefined> {
    const { temporal, scope, log } = this.#deps;
    this.#written.delete(window);
    this.#started.delete(window);
    this.#ended.delete(window);
    const handle = temporal.schedule.getHandle(scope.names.windowId(window));
    const found = await handle.describe().catch(ignoreScheduleNotFound);
    if (found === undefined || !isOwned(found, scope)) return;
    await handle.delete().catch(ignoreScheduleNotFound);
    log.info('Schedule deleted', { window });
  }
}

const repaired = {
  type: 'Warning',
  reason: 'ScheduleRepaired',
  message:
    'The Schedule of the window was edited in Temporal and has been reset: edit the MaintenanceWindow, or create a Schedule with another id.',
} as const;

/** Identifies the fields of a Schedule that come from its window. Temporal returns the entries of a memo in random order. */
function fingerprintOf({ spec, action, policies, state: { remainingActions } }: ScheduleDescription): string {
  return canonicalJson([spec, action, policies, remainingActions ?? null]);
}

/** Pauses or unpauses the Schedule. A pause that a user has set stays. */
async function reconcilePause(
  handle: Handle,
  { state: { paused, note = '' } }: ScheduleDescription,
  window: MaintenanceWindow,
): Promise<ScheduleState> {
  const stop = stopOf(window);
  if (stop !== undefined) {
    if (!paused) await handle.pause(noteOf(stop));
    return { kind: 'Suspended', stop };
  }
  if (!paused) return { kind: 'UpToDate' };
  if (!ownNotes.includes(note)) return { kind: 'PausedInTemporal', note };
  await handle.unpause('The MaintenanceWindow is scheduled again');
  return { kind: 'UpToDate' };
}

function noteOf({ paused }: WindowStop): string {
  return paused === undefined ? suspendNote : pauseNote;
}

function ignoreScheduleNotFound(error: unknown): undefined {
  if (!(error instanceof ScheduleNotFoundError)) throw error;
}

const invalidArgument = 3;

function isDecryptionError(error: unknown): error is ApplicationFailure {
  return error instanceof ApplicationFailure && error.type === DECRYPTION_ERROR;
}

function isInvalidArgument({ cause }: ServiceError): boolean {
  return (cause as { code?: number } | undefined)?.code === invalidArgument;
}

/** Builds the Schedule of a window. */
function scheduleOf(window: MaintenanceWindow, scope: ClusterScope): ScheduleOptions {
  const { name } = window.metadata;
  const schedule = openingsOf(window);
  const stop = stopOf(window);
  const summary = windowStaticSummaryOf(window, scope);
  return {
    scheduleId: scope.names.windowId(name),
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
      workflowId: scope.names.windowId(name),
      taskQueue: scope.names.taskQueue,
      args: [{ name }],
      ...summary,
      memo: readableMemo({ ...summary.memo, [digestKey]: digestOf(window) }),
    },
    policies: {
      // If a run continues beyond its end, the next ones start right after it. Those whose end has passed end at once: a policy that keeps only the
      // first of them would skip the opening that is due.
      overlap: ScheduleOverlapPolicy.BUFFER_ALL,
      // A window that opens late, after an outage, still ends on time: it need not open after its end.
      catchupWindow: durationMs(schedule.duration),
    },
    state: {
      paused: stop !== undefined,
      note: stop === undefined ? `Managed by MaintenanceWindow ${name}` : noteOf(stop),
    },
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

/** Returns a digest of the fields of a window that its Schedule depends on. */
function digestOf(window: MaintenanceWindow): string {
  const { metadata, spec } = window;
  return digest(JSON.stringify([metadata.uid, openingsOf(window), spec.template.reason ?? '']));
}

/** Reports whether the controller of this cluster created the Schedule. */
function isOwned({ action }: ScheduleDescription, { uid }: ClusterScope): boolean {
  if (action.type !== 'startWorkflow') return false;
  return action.memo?.[digestKey] !== undefined && action.memo[CLUSTER_UID_MEMO] === uid;
}

function isUpToDate({ action }: ScheduleDescription, window: MaintenanceWindow): boolean {
  return action.type === 'startWorkflow' && action.memo?.[digestKey] === digestOf(window);
}
