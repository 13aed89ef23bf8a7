import {
  type CalendarSpecDescription,
  MONTHS,
  type Range,
  type ScheduleDescription,
  type ScheduleOptions,
  type ScheduleSpecDescription,
} from '@temporalio/client';
import type { CalendarEntry, DayOfWeek } from '../api/maintenanceWindow.ts';
import { cronExpressions, durationMs, exceptionsOf } from '../domain/windowSchedule.ts';
import type { ScheduleFile } from './scheduleFile.ts';

/**
 * A Schedule as field -> text, in the words of a file: what a file wants and what Temporal has are compared in this form, and
 * people see how they differ. What a file has no word for, such as a jitter that somebody set, has a field too.
 */
export type Shape = Readonly<Record<string, string>>;

/** By which a Schedule in Temporal is known to come from a file. */
const ownedMemo = { managedBy: 'node-maintenance temporal-config' } as const;

export function isOwned({ memo }: { memo?: Record<string, unknown> | undefined }): boolean {
  return memo?.['managedBy'] === ownedMemo.managedBy;
}

const overlaps = { Skip: 'SKIP', BufferOne: 'BUFFER_ONE' } as const;

/** What Temporal is told. */
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
    state: { paused: state?.paused ?? false, note: 'Kept by temporal-config' },
    memo: ownedMemo,
  };
}

/** What the file wants; `state.paused` only if it says so. */
export function shapeOfFile({ spec, policies, action, state }: ScheduleFile): Shape {
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

/** What Temporal has. */
export function shapeOfSchedule({ spec, action, policies, state }: ScheduleDescription): Shape {
  const { type: _, workflowType, workflowId, taskQueue, args = [], ...others } = action;
  const { typedSearchAttributes: _same, ...more } = others;
  const overlap = Object.entries(overlaps).find(([, name]) => name === policies.overlap)?.[0];
  return present({
    ...shapeOfSpec(spec),
    'policies.overlap': overlap ?? policies.overlap,
    'policies.catchupWindow': durationText(policies.catchupWindow),
    'policies.pauseOnFailure': policies.pauseOnFailure ? 'true' : undefined,
    'action.workflowType': workflowType,
    'action.workflowId': workflowId,
    'action.taskQueue': taskQueue,
    'action.input': args.length === 1 ? json(args[0]) : json(args),
    ...Object.fromEntries(
      Object.entries(more).map(([name, value]) => [`action.${name}`, unlessEmpty(value)]),
    ),
    'state.paused': String(state.paused),
    'state.remainingActions': state.remainingActions?.toString(),
  });
}

function shapeOfSpec({
  calendars = [],
  skip = [],
  timezone = 'UTC',
  ...more
}: ScheduleSpecDescription): Record<string, string | undefined> {
  return {
    'spec.calendar': calendars.map(calendarText).toSorted().join(', '),
    'spec.timeZone': timezone,
    'spec.exceptions': skip.map(skippedText).toSorted().join(', '),
    ...Object.fromEntries(Object.entries(more).map(([name, value]) => [`spec.${name}`, unlessEmpty(value)])),
  };
}

/** `- field: seen` and `+ field: wanted`, in the order of the fields; `state.paused` only where it is wanted. */
export function difference(seen: Shape, wanted: Shape): string[] {
  const fields = [...new Set([...Object.keys(wanted), ...Object.keys(seen)])];
  return fields.flatMap((field) => {
    const [before, after] = [seen[field], wanted[field]];
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

/** `{ time: 03:00, daysOfMonth: [28, 29], months: [12] }`, with the same text for the same times. */
function entryText({ time, daysOfWeek, daysOfMonth, months, years }: CalendarEntry): string {
  const weekdays = numbers(daysOfWeek?.map((name) => days.indexOf(name)) ?? [], 7).map((day) => days[day]);
  const fields = present({
    time,
    daysOfWeek: weekdays.join(', '),
    daysOfMonth: numbers(daysOfMonth ?? [], 31).join(', '),
    months: numbers(months ?? [], 12).join(', '),
    years: numbers(years ?? [], Infinity).join(', '),
  });
  const words = Object.entries(fields).map(
    ([name, value]) => `${name}: ${name === 'time' ? value : `[${value}]`}`,
  );
  return `{ ${words.join(', ')} }`;
}

/** Sorted, each once; none when they are all that there are. */
function numbers(values: readonly number[], all: number): number[] {
  const distinct = [...new Set(values)].toSorted((a, b) => a - b);
  return distinct.length === all ? [] : distinct;
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

/** A range of names as one of numbers. */
function numbered(names: readonly string[], first = 0): (range: Range<string>) => Range<number> {
  const numberOf = (name: string) => names.indexOf(name) + first;
  return ({ start, end, step }) => ({ start: numberOf(start), end: numberOf(end), step });
}

function expanded(ranges: readonly Range<number>[]): number[] {
  return ranges.flatMap(({ start, end, step }) =>
    Array.from({ length: Math.floor((end - start) / step) + 1 }, (_, index) => start + index * step),
  );
}

/** `2h`, `90m`, `1h30m`, or milliseconds for what is no whole minute. */
function durationText(ms: number): string {
  const minutes = ms / 60_000;
  if (!Number.isInteger(minutes)) return `${ms}ms`;
  const [hours, rest] = [Math.floor(minutes / 60), minutes % 60];
  return `${hours > 0 ? `${hours}h` : ''}${rest > 0 || hours === 0 ? `${rest}m` : ''}`;
}

/** Keys in order: the same object gives the same text. */
function json(value: unknown): string {
  const sorted = (_key: string, one: unknown) =>
    typeof one === 'object' && one !== null && !Array.isArray(one)
      ? Object.fromEntries(Object.entries(one).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : one;
  return JSON.stringify(value, sorted) ?? '';
}

/** Temporal fills in what nobody has set. */
function unlessEmpty(value: unknown): string | undefined {
  return isEmpty(value) ? undefined : json(value);
}

function isEmpty(value: unknown): boolean {
  if (typeof value !== 'object' || value === null)
    return [undefined, null, '', 0, false].includes(value as null);
  return Object.values(value).every(isEmpty);
}
