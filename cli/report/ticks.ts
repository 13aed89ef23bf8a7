import type { Span } from '../../domain/report/report.ts';

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

const steps = [
  ...[1, 2, 5, 10, 15, 30].map((count) => count * second),
  ...[1, 2, 5, 10, 15, 30].map((count) => count * minute),
  ...[1, 2, 3, 6, 12].map((count) => count * hour),
  ...[1, 2, 7, 14, 28, 91, 365].map((count) => count * day),
];

export interface Ticks {
  readonly times: readonly number[];
  readonly format: (atMs: number) => string;
}

/** Chooses at most `max` round times of the time zone. */
export function ticksOf({ fromMs, toMs }: Span, max: number, timeZone: string): Ticks {
  const step = steps.find((one) => (toMs - fromMs) / one <= max) ?? toMs - fromMs;
  const offset = offsetMs(fromMs, timeZone);
  const first = Math.ceil((fromMs + offset) / step) * step - offset;
  const times = [];
  for (let at = first; at <= toMs && times.length <= max; at += step) times.push(at);
  return { times, format: formatOf(step, toMs - fromMs, timeZone) };
}

function formatOf(step: number, lengthMs: number, timeZone: string): Ticks['format'] {
  const date = formatter({ day: 'numeric', month: 'short' }, timeZone);
  if (step >= day) return date;
  const time = formatter(
    { hour: '2-digit', minute: '2-digit', ...(step < minute && { second: '2-digit' }) },
    timeZone,
  );
  return lengthMs > day ? (atMs) => `${time(atMs)}\n${date(atMs)}` : time;
}

/** Formats a time like `2026-11-23 04:08:15`. */
export function timeText(atMs: number, timeZone: string): string {
  const parts = partsOf(atMs, timeZone);
  return `${parts['year']}-${parts['month']}-${parts['day']} ${parts['hour']}:${parts['minute']}:${parts['second']}`;
}

function formatter(options: Intl.DateTimeFormatOptions, timeZone: string): (atMs: number) => string {
  const format = new Intl.DateTimeFormat('en-GB', { ...options, timeZone, hourCycle: 'h23' });
  return (atMs) => format.format(atMs);
}

/** Returns how far the local time is ahead of UTC. */
function offsetMs(atMs: number, timeZone: string): number {
  const local = Date.parse(`${timeText(atMs, timeZone).replace(' ', 'T')}Z`);
  return Math.round((local - atMs) / minute) * minute;
}

function partsOf(atMs: number, timeZone: string): Record<string, string> {
  const format = new Intl.DateTimeFormat('en-GB', {
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
    timeZone,
  });
  return Object.fromEntries(format.formatToParts(atMs).map(({ type, value }) => [type, value]));
}
