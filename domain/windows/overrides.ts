import type { MaintenanceWindow, WindowSchedule } from '../../api/maintenanceWindow.ts';
import { MAX_SKIPPED_DATES, WindowOverrideAnnotation } from '../../api/names.ts';
import { shown } from '../common/untrusted.ts';
import { oneLine } from '../common/text.ts';
import { opensAt, scheduleProblems } from './schedule.ts';

/**
 * Overrides that users set in annotations of a window, which no manifest in git owns (ADR 54): a pause, and openings that are skipped. Both only
 * add to the spec. An annotation with an invalid value still prevents openings.
 */

type Window = Pick<MaintenanceWindow, 'metadata' | 'spec'>;

const { Paused, SkippedDates } = WindowOverrideAnnotation;
const maxReasonLength = 256;

/** Returns the reason of the pause; undefined if no annotation pauses the window. */
export function pauseOf({ metadata }: Pick<Window, 'metadata'>): string | undefined {
  const value = metadata.annotations?.[Paused];
  return value === undefined ? undefined : oneLine(value, maxReasonLength) || 'no reason';
}

/** Why a request does not resume an open window. */
export function pausedByAnnotation(window: string): string {
  return `the window is paused by its annotation ${Paused}: run kubectl maintenance window resume ${window}`;
}

/** Reasons why a valid window does not open at its times. */
export interface WindowStop {
  /** `.spec.suspend` */
  suspend: boolean;
  /** Reason of the pause, if an annotation pauses the window. */
  paused: string | undefined;
}

/** Returns undefined if the window opens at its times. */
export function stopOf(window: Window): WindowStop | undefined {
  const { suspend } = window.spec;
  const paused = pauseOf(window);
  return suspend || paused !== undefined ? { suspend, paused } : undefined;
}

/** Returns the values between the commas of the annotation, in their order. Not all may be dates. */
export function skippedDates({ metadata }: Pick<Window, 'metadata'>): string[] {
  const value = metadata.annotations?.[SkippedDates];
  return value === undefined ? [] : value.split(',');
}

/** Returns the value of the annotation with another date. */
export function withSkippedDate(window: Pick<Window, 'metadata'>, date: string): string {
  return [...new Set([...skippedDates(window), date])].toSorted().join(',');
}

const dateForm = /^\d{4}-\d{2}-\d{2}$/;

/** Returns the schedule of the spec without the openings that the annotation skips. */
export function scheduleOf(window: Window): WindowSchedule {
  const { schedule } = window.spec;
  const dates = skippedDates(window).filter((date) => dateForm.test(date));
  if (dates.length === 0) return schedule;
  return { ...schedule, exceptions: [...new Set([...(schedule.exceptions ?? []), ...dates])] };
}

/** Returns why the window's own schedule does not open it at this time (milliseconds), as a verb with its object. */
export function skippedBecause(window: Window, at: number): string | undefined {
  const stop = stopOf(window);
  if (stop !== undefined) return stop.paused === undefined ? 'is suspended' : 'is paused';
  const everyDay = { ...window.spec.schedule, exceptions: [] };
  return opensAt(everyDay, at) && !opensAt(scheduleOf(window), at) ? 'skips this opening' : undefined;
}

/** Returns the problems of the schedule and of the skipped openings, as sentences that begin with the field. */
export function openingProblems(window: Window, nowMs: number): string[] {
  const field = `metadata.annotations[${SkippedDates}]`;
  const invalid = skippedDates(window).find((date) => !dateForm.test(date));
  if (invalid !== undefined)
    return [`${field}: expected dates such as 2026-12-24, separated by commas (got ${shown(invalid)})`];
  if (skippedDates(window).length > MAX_SKIPPED_DATES)
    return [`${field}: more than ${MAX_SKIPPED_DATES} dates: remove those in the past`];
  const own = scheduleProblems(window.spec.schedule, nowMs);
  if (own.length > 0 || skippedDates(window).length === 0) return own;
  const [problem] = scheduleProblems(scheduleOf(window), nowMs);
  return problem === undefined ? [] : [`${field}: a date does not exist, or no opening is left: remove one`];
}
