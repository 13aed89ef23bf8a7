import { Cron } from 'croner';
import type { CalendarEntry, DayOfWeek, WindowSchedule } from '../api/maintenanceWindow.ts';

/**
 * When windows open. Times of the clock are matched as they are written, as Temporal matches them: a time that a zone's clocks
 * skip is none, and one that they show twice is one of the two.
 */

/** An instant, and what the clocks of the zone show then, as if it were UTC. Both in milliseconds. */
interface Opening {
  at: number;
  shown: number;
}

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** `1h30m` in milliseconds. */
export function durationMs(duration: string): number {
  const amount = (unit: string) => Number(new RegExp(`([0-9]+)${unit}`).exec(duration)?.[1] ?? 0);
  return amount('h') * hour + amount('m') * minute + amount('s') * second;
}

/** The first time after `now` (milliseconds) at which a window opens; undefined when none ever does, or the schedule has problems. */
export function nextOpening(schedule: WindowSchedule, now: number): number | undefined {
  if (zoneProblem(schedule) !== undefined || patternProblems(schedule).length > 0) return undefined;
  return openingsAfter(schedule, now, 1)[0]?.at;
}

/** Whether a window of the schedule opens at exactly this time (milliseconds). */
export function opensAt(schedule: WindowSchedule, at: number): boolean {
  return nextOpening(schedule, at - 1) === at;
}

/** Whether the clocks show an opening once more, which opens no window; west of Greenwich Temporal fires on both. */
export function showsAgain(schedule: WindowSchedule, at: number): boolean {
  if (zoneProblem(schedule) !== undefined) return false;
  const offsetAt = clockOf(schedule.timeZone);
  const first = instantOf(at + offsetAt(at), offsetAt);
  return first !== undefined && first < at && opensAt(schedule, first);
}

/** What is wrong with a schedule, in sentences that begin with the field; empty when windows open. */
export function scheduleProblems(schedule: WindowSchedule, now: number): string[] {
  const unreadable = [zoneProblem(schedule), ...patternProblems(schedule), ...exceptionProblems(schedule)];
  const found = unreadable.filter((problem) => problem !== undefined);
  if (found.length > 0) return found;
  // The last of all may be open now.
  const since = now - durationMs(schedule.duration);
  const [problem] = [neverOpens(schedule, since), overlapsItself(schedule, now)].filter(
    (one) => one !== undefined,
  );
  return problem === undefined ? [] : [problem];
}

/** The schedule in short: `0 2 * * 6` or `Sat,Sun 02:00`. */
export function describeSchedule({ cron, calendar = [] }: WindowSchedule): string {
  if (cron !== undefined) return cron;
  const [first, ...others] = calendar.map(describeEntry);
  return others.length === 0 ? (first ?? '') : `${first} and ${others.length} more`;
}

/** What Temporal, and the library that computes openings, read: seconds, minutes, hours, days, months, days of the week, years. */
export function cronExpressions({ cron, calendar = [] }: WindowSchedule): string[] {
  if (cron !== undefined) return [`0 ${cron.trim().replaceAll(/\s+/g, ' ')} *`];
  return calendar.map(cronOf);
}

/** Dates on which no window opens. */
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
  const days = daysOfMonth && `on ${daysOfMonth.join(',')}.`;
  const inMonths = months && `in ${months.join(',')}`;
  return [names, time, days, inMonths, years?.join(',')].filter((part) => part !== undefined).join(' ');
}

// Names of zones that only this program's data would take are refused: Temporal reads them by another program.
const zoneName = /^[A-Za-z_]+(\/[A-Za-z0-9_+-]+)*$/;

function zoneProblem({ timeZone }: WindowSchedule): string | undefined {
  const remedy = 'use an IANA time zone such as Europe/Berlin or UTC';
  try {
    const known = new Intl.DateTimeFormat('en-US', { timeZone }).resolvedOptions().timeZone;
    if (!zoneName.test(timeZone))
      return `schedule.timeZone: "${timeZone}" is no name of a time zone: ${remedy}`;
    if (known !== timeZone && known.toLowerCase() === timeZone.toLowerCase())
      return `schedule.timeZone: "${timeZone}" must be written ${known}`;
    return undefined;
  } catch {
    return `schedule.timeZone: there is no time zone "${timeZone}": ${remedy}`;
  }
}

/** What both readers of these fields understand in the same way. */
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
      `schedule.cron: "${fields[wrong]}" is no ${fieldNames[wrong] ?? 'field'}: use numbers, names, "*", ",", "-" and "/"`,
    ];
  try {
    clockTimes(schedule);
    return [];
  } catch (error) {
    return [`schedule.cron: ${error instanceof Error ? error.message : String(error)}`];
  }
}

function exceptionProblems(schedule: WindowSchedule): string[] {
  return exceptionsOf(schedule).flatMap(({ year, month, day: dayOfMonth }, index) => {
    const date = new Date(Date.UTC(year, month - 1, dayOfMonth));
    if (date.getUTCMonth() === month - 1 && date.getUTCDate() === dayOfMonth) return [];
    return [`schedule.exceptions[${index}]: there is no ${schedule.exceptions?.[index]}: correct the date`];
  });
}

function neverOpens(schedule: WindowSchedule, now: number): string | undefined {
  if (openingsAfter(schedule, now, 1).length > 0) return undefined;
  const everyDay = { ...schedule, exceptions: [] };
  if (openingsAfter(everyDay, now, 1).length > 0)
    return 'schedule.exceptions: they leave no date on which the window opens: remove one';
  if (openingsAfter(everyDay, 0, 1).length > 0)
    return 'schedule: all of its times are in the past: give a later year, or none';
  return 'schedule: no such date exists, such as 30 February: correct day and month';
}

/** Openings that are looked at for overlaps: two years of daily ones. */
const openingsLookedAt = 731;

/** By what the clocks show, so that the short day of a year is no reason to refuse a window of 24 hours. */
function overlapsItself(schedule: WindowSchedule, now: number): string | undefined {
  const length = durationMs(schedule.duration);
  const openings = openingsAfter(schedule, now, openingsLookedAt);
  for (const [index, { shown }] of openings.entries()) {
    const next = openings[index + 1];
    if (next === undefined || next.shown - shown >= length) continue;
    return `schedule.duration: ${schedule.duration} is longer than the ${Math.round((next.shown - shown) / minute)} minutes between the windows of ${clockText(shown)} and ${clockText(next.shown)}: shorten it, or open fewer windows`;
  }
  return undefined;
}

function clockText(shown: number): string {
  return new Date(shown).toISOString().slice(0, 16).replace('T', ' ');
}

/** The patterns of a schedule, as calendars without a time zone. Throws when one cannot be read. */
function clockTimes(schedule: WindowSchedule): Cron[] {
  return cronExpressions(schedule).map(
    (expression) => new Cron(expression, { paused: true, timezone: 'UTC', domAndDow: true }),
  );
}

/** The next openings after `now`, at most `count`, in order and each once. */
function openingsAfter(schedule: WindowSchedule, now: number, count: number): Opening[] {
  const offsetAt = clockOf(schedule.timeZone);
  const skipped = new Set(schedule.exceptions);
  const patterns = clockTimes(schedule);
  const openings: Opening[] = [];
  // Before any time that the clocks could show after `now`.
  let shown: number | undefined = now + offsetAt(now) - day;
  while (openings.length < count) {
    shown = nextShown(patterns, shown);
    if (shown === undefined) break;
    if (skipped.has(new Date(shown).toISOString().slice(0, 10))) {
      shown = shown - (shown % day) + day - second;
      continue;
    }
    const at = instantOf(shown, offsetAt);
    if (at !== undefined && at > now) openings.push({ at, shown });
  }
  return openings;
}

function nextShown(patterns: readonly Cron[], after: number): number | undefined {
  const times = patterns.flatMap((pattern) => pattern.nextRun(new Date(after))?.getTime() ?? []);
  return times.length === 0 ? undefined : Math.min(...times);
}

/** Milliseconds by which the clocks of a zone are ahead of UTC at an instant. */
type OffsetAt = (instant: number) => number;

/**
 * The instant at which the clocks show this; undefined when they skip it. Of two, the one that Temporal takes: it tries the offset
 * that the zone has when UTC shows this, which is the second of the two east of Greenwich, and the first west of it.
 */
function instantOf(shown: number, offsetAt: OffsetAt): number | undefined {
  const candidates = [shown, shown - day, shown + day].map((around) => shown - offsetAt(around));
  return candidates.find((at) => at + offsetAt(at) === shown);
}

function clockOf(timeZone: string): OffsetAt {
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
    const shown = Date.UTC(
      part('year'),
      part('month') - 1,
      part('day'),
      part('hour'),
      part('minute'),
      part('second'),
    );
    return shown - Math.floor(instant / 1_000) * 1_000;
  };
}
