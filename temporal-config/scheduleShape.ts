import {
  type CalendarSpecDescription,
  MONTHS,
  type Range,
  type ScheduleDescription,
  type ScheduleOptions,
  type ScheduleSpecDescription,
} from '@temporalio/client';
import type { CalendarEntry, DayOfWeek } from '../api/maintenanceWindow.ts';
import { cronExpressions, durationMs, exceptionsOf } from '../domain/windows/schedule.ts';
import { readableMemo } from './readableMemo.ts';
import type { ScheduleFile } from './scheduleFile.ts';

/**
 * A Schedule as a map from the fields of a file to text. Files and Temporal are compared in this form, and `diff` prints it. Settings
 * that a file cannot have, such as a jitter that a user set in Temporal, have a field too.
 */
export type Shape = Readonly<Record<string, string>>;

/** Marks the Schedules in Temporal that were created from a file. */
const ownedMemo = { managedBy: 'node-maintenance temporal-config' } as const;

export function isOwned({ memo }: { memo?: Record<string, unknown> | undefined }): boolean {
  return memo?.['managedBy'] === ownedMemo.managedBy;
}

const overlaps = { Skip: 'SKIP', BufferOne: 'BUFFER_ONE' } as const;

/** Returns the Schedule of a file as an argument of Temporal's client. */
export function optionsOf({ id, spec, policies, action, state }: ScheduleFile): ScheduleOptions {
  const { calendar, timeZone, exceptions } = spec;
  const schedule = { calendar, timeZone, exceptions, duration: '' };
  return {
    scheduleId: id,
    spec: {
      cronExpressions: cronExpressions(schedule),
      skip: exceptionsOf(schedule).map(({ year, month, day }) => ({
        year,
        month: MONTHS[month - 1] ?? 'JANUARY',
        dayOfMonth: day,
        hour: '*',
        minute: '*',
        second: '*',
      })),
      timezone: timeZone,
    },
    action: {
      type: 'startWorkflow',
      workflowType: action.workflowType,
      workflowId: action.workflowId,
      taskQueue: action.taskQueue,
      args: [action.input],
    },
    policies: { overlap: overlaps[policies.overlap], catchupWindow: durationMs(policies.catchupWindow) },
    state: { paused: state?.paused ?? false, note: 'Managed by temporal-config' },
    memo: readableMemo(ownedMemo),
  };
}

/** Returns the shape of a file; `state.paused` is missing unless the file sets it. */
export function normalizedScheduleOfFile({ spec, policies, action, state }: ScheduleFile): Shape {
  return present({
    'spec.calendar': spec.calendar.map(entryText).toSorted().join(', '),
    'spec.timeZone': spec.timeZone,
    'spec.exceptions': spec.exceptions?.toSorted().join(', '),
    'policies.overlap': policies.overlap,
    'policies.catchupWindow': durationText(durationMs(policies.catchupWindow)),
    'action.workflowType': action.workflowType,
    'action.workflowId': action.workflowId,
    'action.taskQueue': action.taskQueue,
    'action.input': json(action.input),
    'state.paused': state?.paused?.toString(),
  });
}

/** Returns the shape of a Schedule in Temporal. */
export function normalizedScheduleOf({ spec, action, policies, state }: ScheduleDescription): Shape {
  const { type: _, workflowType, workflowId, taskQueue, args = [], ...others } = action;
  const { typedSearchAttributes: _same, ...more } = others;
  const overlap = Object.entries(overlaps).find(([, name]) => name === policies.overlap)?.[0];
  return present({
    ...normalizedSpecOf(spec),
    'policies.overlap': overlap ?? policies.overlap,
    'policies.catchupWindow': durationText(policies.catchupWindow),
    'policies.pauseOnFailure': policies.pauseOnFailure ? 'true' : undefined,
    'action.workflowType': workflowType,
    'action.workflowId': workflowId,
    'action.taskQueue': taskQueue,
    'action.input': args.length === 1 ? json(args[0]) : json(args),
    ...Object.fromEntries(
      Object.entries(more).map(([name, value]) => [`action.${name}`, jsonUnlessEmpty(value)]),
    ),
    'state.paused': String(state.paused),
    'state.remainingActions': state.remainingActions?.toString(),
  });
}

function normalizedSpecOf({
  calendars = [],
  skip = [],
  timezone = 'UTC',
  ...more
}: ScheduleSpecDescription): Record<string, string | undefined> {
  return {
    'spec.calendar': calendars.map(calendarText).toSorted().join(', '),
    'spec.timeZone': timezone,
    'spec.exceptions': skip.map(skippedText).toSorted().join(', '),
    ...Object.fromEntries(
      Object.entries(more).map(([name, value]) => [`spec.${name}`, jsonUnlessEmpty(value)]),
    ),
  };
}

/** Returns lines `- field: current` and `+ field: desired` in the order of the fields; ignores `state.paused` unless it is desired. */
export function difference(current: Shape, desired: Shape): string[] {
  const fields = [...new Set([...Object.keys(desired), ...Object.keys(current)])];
  return fields.flatMap((field) => {
    const [before, after] = [current[field], desired[field]];
    if (before === after || (field === 'state.paused' && after === undefined)) return [];
    return [
      ...(before === undefined ? [] : [`- ${field}: ${before}`]),
      ...(after === undefined ? [] : [`+ ${field}: ${after}`]),
    ];
  });
}

function present(fields: Record<string, string | undefined>): Shape {
  return Object.fromEntries(
    Object.entries(fields).filter((field): field is [string, string] => (field[1] ?? '') !== ''),
  );
}

const days: readonly DayOfWeek[] = [
  'Sunday',
  'Monday',
  'Tuesday',
  'Wednesday',
  'Thursday',
  'Friday',
  'Saturday',
];

/** Formats an entry as `{ time: 03:00, daysOfMonth: [28, 29], months: [12] }`. Equal times have equal texts. */
function entryText({ time, daysOfWeek, daysOfMonth, months, years }: CalendarEntry): string {
  const weekdays = numbers(daysOfWeek?.map((name) => days.indexOf(name)) ?? [], 7).map((day) => days[day]);
  const fields = present({
    time,
    daysOfWeek: weekdays.join(', '),
    daysOfMonth: numbers(daysOfMonth ?? [], 31).join(', '),
    months: numbers(months ?? [], 12).join(', '),
    years: numbers(years ?? [], Infinity).join(', '),
  });
  const parts = Object.entries(fields).map(
    ([name, value]) => `${name}: ${name === 'time' ? value : `[${value}]`}`,
  );
  return `{ ${parts.join(', ')} }`;
}

/** Returns the distinct values in ascending order; none if they are all possible values. */
function numbers(values: readonly number[], possibleCount: number): number[] {
  const distinct = [...new Set(values)].toSorted((a, b) => a - b);
  return distinct.length === possibleCount ? [] : distinct;
}

function calendarText(calendar: CalendarSpecDescription): string {
  const [seconds, minutes, hours] = [calendar.second, calendar.minute, calendar.hour].map((ranges) =>
    expanded(ranges),
  );
  if (seconds?.join() !== '0' || minutes?.length !== 1 || hours?.length !== 1) return json(calendar);
  const two = (value = 0) => String(value).padStart(2, '0');
  return entryText({
    time: `${two(hours[0])}:${two(minutes[0])}`,
    daysOfWeek: expanded(calendar.dayOfWeek.map(numbered(weekdayNames))).flatMap((day) => days[day] ?? []),
    daysOfMonth: expanded(calendar.dayOfMonth),
    months: expanded(calendar.month.map(numbered(MONTHS, 1))),
    years: expanded(calendar.year),
  });
}

function skippedText(calendar: CalendarSpecDescription): string {
  const fields = [calendar.year, calendar.month.map(numbered(MONTHS, 1)), calendar.dayOfMonth];
  const [year, month, day] = fields.map((ranges) => expanded(ranges));
  const isDate = year?.length === 1 && month?.length === 1 && day?.length === 1;
  const isWhole =
    [calendar.hour, calendar.minute].map((ranges) => expanded(ranges).length).join() === '24,60';
  if (!isDate || !isWhole) return json(calendar);
  return [year, month, day].map((one) => String(one[0]).padStart(2, '0')).join('-');
}

const weekdayNames = days.map((day) => day.toUpperCase());

/** Converts a range of names to a range of numbers. */
function numbered(names: readonly string[], first = 0): (range: Range<string>) => Range<number> {
  const numberOf = (name: string) => names.indexOf(name) + first;
  return ({ start, end, step }) => ({ start: numberOf(start), end: numberOf(end), step });
}

function expanded(ranges: readonly Range<number>[]): number[] {
  return ranges.flatMap(({ start, end, step }) =>
    Array.from({ length: Math.floor((end - start) / step) + 1 }, (_, index) => start + index * step),
  );
}

/** Formats a duration as `2h`, `90m` or `1h30m`, or in milliseconds if it is not a whole number of minutes. */
function durationText(ms: number): string {
  const minutes = ms / 60_000;
  if (!Number.isInteger(minutes)) return `${ms}ms`;
  const [hours, rest] = [Math.floor(minutes / 60), minutes % 60];
  return `${hours > 0 ? `${hours}h` : ''}${rest > 0 || hours === 0 ? `${rest}m` : ''}`;
}

/** Serializes with sorted keys, so that equal objects have equal texts. */
function json(value: unknown): string {
  const sorted = (_key: string, one: unknown) =>
    typeof one === 'object' && one !== null && !Array.isArray(one)
      ? Object.fromEntries(Object.entries(one).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : one;
  return JSON.stringify(value, sorted) ?? '';
}

/** Omits empty values, which Temporal returns for fields that were not set. */
function jsonUnlessEmpty(value: unknown): string | undefined {
  return isEmpty(value) ? undefined : json(value);
}

function isEmpty(value: unknown): boolean {
  if (typeof value !== 'object' || value === null)
    return [undefined, null, '', 0, false].includes(value as null);
  return Object.values(value).every(isEmpty);
}
