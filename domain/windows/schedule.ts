import { Cron } from 'croner';
import type { CalendarEntry, DayOfWeek, WindowSchedule } from '../../api/maintenanceWindow.ts';

/**
 * The times at which windows open. Local times are matched as Temporal matches them: a local time that does not exist on a day, because
 * daylight saving time begins, never matches; a local time that occurs twice matches once.
 */

/** An instant, and the local time then, as if it were UTC. Both are in milliseconds since the epoch. */
interface Opening {
  at: number;
  local: number;
}

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** Converts a duration such as `1h30m` to milliseconds. */
export function durationMs(duration: string): number {
  const amount = (unit: string) => Number(new RegExp(`([0-9]+)${unit}`).exec(duration)?.[1] ?? 0);
  return amount('h') * hour + amount('m') * minute + amount('s') * second;
}

/** Returns the first time after `nowMs` at which a window opens, or undefined if it never opens or the schedule is invalid. */
export function nextOpening(schedule: WindowSchedule, nowMs: number): number | undefined {
  if (zoneProblem(schedule) !== undefined || patternProblems(schedule).length > 0) return undefined;
  return openingsAfter(schedule, nowMs, 1)[0]?.at;
}

/** Reports whether a window opens at exactly this time (milliseconds). */
export function opensAt(schedule: WindowSchedule, at: number): boolean {
  return nextOpening(schedule, at - 1) === at;
}

/**
 * Reports whether this is the second occurrence of an opening's local time, because daylight saving time ends. It opens no window,
 * although Temporal fires on both occurrences in zones west of UTC.
 */
export function isRepeatedOpening(schedule: WindowSchedule, at: number): boolean {
  if (zoneProblem(schedule) !== undefined) return false;
  const offsetAt = offsetsOf(schedule.timeZone);
  const first = instantOf(at + offsetAt(at), offsetAt);
  return first !== undefined && first < at && opensAt(schedule, first);
}

/** Returns the problems of a schedule as sentences that begin with the field. Empty if windows open. */
export function scheduleProblems(schedule: WindowSchedule, nowMs: number): string[] {
  const unreadable = [zoneProblem(schedule), ...patternProblems(schedule), ...exceptionProblems(schedule)];
  const found = unreadable.filter((problem) => problem !== undefined);
  if (found.length > 0) return found;
  // The last window may be open now.
  const since = nowMs - durationMs(schedule.duration);
  const problem = neverOpens(schedule, since) ?? overlapsItself(schedule, nowMs);
  return problem === undefined ? [] : [problem];
}

/** Describes a schedule in short, such as `0 2 * * 6` or `Sat,Sun 02:00`. */
export function describeSchedule({ cron, calendar = [] }: WindowSchedule): string {
  if (cron !== undefined) return cron;
  const [first, ...others] = calendar.map(describeEntry);
  return others.length === 0 ? (first ?? '') : `${first} and ${others.length} more`;
}

/** Returns cron expressions for Temporal and for the cron library: second, minute, hour, day of month, month, day of week, year. */
export function cronExpressions({ cron, calendar = [] }: WindowSchedule): string[] {
  if (cron !== undefined) return [`0 ${cron.trim().replaceAll(/\s+/g, ' ')} *`];
  return calendar.map(cronOf);
}

/** Returns the dates on which no window opens. */
export function exceptionsOf({ exceptions = [] }: WindowSchedule): {
  year: number;
  month: number;
  day: number;
}[] {
  return exceptions.map((text) => {
    const [year = 0, month = 0, dayOfMonth = 0] = text.split('-').map(Number);
    return { year, month, day: dayOfMonth };
  });
}

const dayNumbers: Record<DayOfWeek, number> = {
  Sunday: 0,
  Monday: 1,
  Tuesday: 2,
  Wednesday: 3,
  Thursday: 4,
  Friday: 5,
  Saturday: 6,
};

function cronOf({ time, daysOfWeek, daysOfMonth, months, years }: CalendarEntry): string {
  const [hours, minutes] = time.split(':').map(Number);
  const list = (values: readonly number[] | undefined) => values?.join(',') ?? '*';
  const days = daysOfWeek?.map((name) => dayNumbers[name]);
  return `0 ${minutes} ${hours} ${list(daysOfMonth)} ${list(months)} ${list(days)} ${list(years)}`;
}

function describeEntry({ time, daysOfWeek, daysOfMonth, months, years }: CalendarEntry): string {
  const names = daysOfWeek?.map((name) => name.slice(0, 3)).join(',');
  const days = daysOfMonth && `on day ${daysOfMonth.join(',')}`;
  const inMonths = months && `of month ${months.join(',')}`;
  return [names, time, days, inMonths, years?.join(',')].filter((part) => part !== undefined).join(' ');
}

// Temporal reads time zones by another library: names that only this runtime accepts, such as offsets, are rejected.
const zoneName = /^[A-Za-z_]+(\/[A-Za-z0-9_+-]+)*$/;

function zoneProblem({ timeZone }: WindowSchedule): string | undefined {
  const remedy = 'use an IANA time zone such as Europe/Berlin or UTC';
  try {
    const known = new Intl.DateTimeFormat('en-US', { timeZone }).resolvedOptions().timeZone;
    if (!zoneName.test(timeZone))
      return `schedule.timeZone: "${timeZone}" is not a time zone name: ${remedy}`;
    if (known !== timeZone && known.toLowerCase() === timeZone.toLowerCase())
      return `schedule.timeZone: "${timeZone}" must be spelled ${known}`;
    return undefined;
  } catch {
    return `schedule.timeZone: unknown time zone "${timeZone}": ${remedy}`;
  }
}

/** The syntax that Temporal and the cron library interpret in the same way. */
const fieldForms = [
  /^[0-9*,/-]+$/,
  /^[0-9*,/-]+$/,
  /^[0-9*,/-]+$/,
  /^([0-9*,/-]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)+$/i,
  /^([0-9*,/-]|mon|tue|wed|thu|fri|sat|sun)+$/i,
];
const fieldNames = ['minute', 'hour', 'day of month', 'month', 'day of week'];

function patternProblems(schedule: WindowSchedule): string[] {
  const { cron } = schedule;
  if (cron === undefined) return [];
  const fields = cron.trim().split(/\s+/);
  const wrong = fields.findIndex((field, index) => fieldForms[index]?.test(field) !== true);
  if (wrong >= 0)
    return [
      `schedule.cron: "${fields[wrong]}" is not a valid ${fieldNames[wrong] ?? 'field'}: use numbers, names, "*", ",", "-" and "/"`,
    ];
  try {
    localPatterns(schedule);
    return [];
  } catch (error) {
    return [`schedule.cron: ${error instanceof Error ? error.message : String(error)}`];
  }
}

function exceptionProblems(schedule: WindowSchedule): string[] {
  return exceptionsOf(schedule).flatMap(({ year, month, day: dayOfMonth }, index) => {
    const date = new Date(Date.UTC(year, month - 1, dayOfMonth));
    if (date.getUTCMonth() === month - 1 && date.getUTCDate() === dayOfMonth) return [];
    return [
      `schedule.exceptions[${index}]: ${schedule.exceptions?.[index]} does not exist: correct the date`,
    ];
  });
}

function neverOpens(schedule: WindowSchedule, nowMs: number): string | undefined {
  if (openingsAfter(schedule, nowMs, 1).length > 0) return undefined;
  const everyDay = { ...schedule, exceptions: [] };
  if (exceptionsOf(schedule).length > 0 && openingsAfter(everyDay, nowMs, 1).length > 0)
    return 'schedule.exceptions: the window never opens because of its exceptions: remove one';
  const inLocalTime = { ...everyDay, timeZone: 'UTC' };
  const [skipped] = openingsAfter(inLocalTime, nowMs + offsetsOf(schedule.timeZone)(nowMs), 1);
  if (skipped !== undefined)
    return `schedule: ${localText(skipped.local)} does not exist in ${schedule.timeZone}, because daylight saving time begins in this hour: choose a time outside of it`;
  if (openingsAfter(inLocalTime, 0, 1).length > 0)
    return 'schedule: all times are in the past: set a later year, or remove the years';
  return 'schedule: the date never occurs, such as 30 February: correct day and month';
}

/** The number of openings that are checked for overlaps: two years of daily openings. */
const maxCheckedOpenings = 731;

/** Compares local times, so that the short day of a year is no reason to reject a window of 24 hours. */
function overlapsItself(schedule: WindowSchedule, nowMs: number): string | undefined {
  const length = durationMs(schedule.duration);
  const openings = openingsAfter(schedule, nowMs, maxCheckedOpenings);
  for (const [index, { local }] of openings.entries()) {
    const next = openings[index + 1];
    if (next === undefined || next.local - local >= length) continue;
    return `schedule.duration: ${schedule.duration} is longer than the ${Math.round((next.local - local) / minute)} minutes between the openings at ${localText(local)} and ${localText(next.local)}: shorten it, or reduce the number of openings`;
  }
  return undefined;
}

function localText(local: number): string {
  return new Date(local).toISOString().slice(0, 16).replace('T', ' ');
}

/** Parses the patterns of a schedule, as patterns of local times. Throws if one is invalid. */
function localPatterns(schedule: WindowSchedule): Cron[] {
  // An offset, because the library takes ten times as long with a time zone.
  return cronExpressions(schedule).map(
    (expression) => new Cron(expression, { paused: true, utcOffset: 0, domAndDow: true }),
  );
}

/** Returns the next openings after `nowMs`, at most `count`, in order and without duplicates. */
function openingsAfter(schedule: WindowSchedule, nowMs: number, count: number): Opening[] {
  const offsetAt = offsetsOf(schedule.timeZone);
  const skipped = new Set(schedule.exceptions);
  const openings: Opening[] = [];
  // Not later than any local time after `nowMs`: clocks may be set back within a day.
  let local: number | undefined = nowMs + Math.min(offsetAt(nowMs), offsetAt(nowMs + day));
  const nextLocal = localTimes(localPatterns(schedule), local);
  while (openings.length < count) {
    local = nextLocal(local);
    if (local === undefined) break;
    if (skipped.has(new Date(local).toISOString().slice(0, 10))) {
      local = local - (local % day) + day - second;
      continue;
    }
    const at = instantOf(local, offsetAt);
    if (at !== undefined && at > nowMs) openings.push({ at, local });
  }
  return openings;
}

/** Returns a function that returns the next local time after its argument, which must not decrease from call to call. */
function localTimes(patterns: readonly Cron[], start: number): (after: number) => number | undefined {
  const nextOf = (pattern: Cron, after: number) => pattern.nextRun(new Date(after))?.getTime() ?? Infinity;
  const next = patterns.map((pattern) => ({ pattern, at: nextOf(pattern, start) }));
  return (after) => {
    for (const one of next) if (one.at <= after) one.at = nextOf(one.pattern, after);
    const first = Math.min(...next.map(({ at }) => at));
    return first === Infinity ? undefined : first;
  };
}

/** Returns the offset of a time zone from UTC at an instant, in milliseconds. */
type OffsetAt = (instant: number) => number;

/**
 * Returns the instant of a local time, or undefined if the local time does not exist. If it occurs twice, returns the occurrence that
 * Temporal uses: Temporal tries the offset that the zone has when UTC reaches this time, which is the second occurrence in zones east
 * of UTC and the first in zones west of it.
 */
function instantOf(local: number, offsetAt: OffsetAt): number | undefined {
  for (const around of [local, local - day, local + day]) {
    const at = local - offsetAt(around);
    if (at + offsetAt(at) === local) return at;
  }
  return undefined;
}

function offsetsOf(timeZone: string): OffsetAt {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
  return (instant) => {
    const parts = new Map(format.formatToParts(instant).map(({ type, value }) => [type, Number(value)]));
    const part = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? 0;
    const local = Date.UTC(
      part('year'),
      part('month') - 1,
      part('day'),
      part('hour'),
      part('minute'),
      part('second'),
    );
    return local - Math.floor(instant / 1_000) * 1_000;
  };
}
