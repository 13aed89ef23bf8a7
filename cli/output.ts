import { stringify } from 'yaml';

/** What a verb could not do, in one line for people: exit code 1. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
}

/** What cannot be meant, in one line for people: exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Results go to standard output, and nothing else does. */
export function say(text: string): void {
  console.log(text);
}

export function complain(text: string): void {
  console.error(shown(text, longestComplaint));
}

export type Structured = 'json' | 'yaml';

/** As kubectl prints lists: `{ "items": [...] }`. */
export function structured(items: readonly object[], format: Structured): string {
  return format === 'json' ? JSON.stringify({ items }, null, 4) : stringify({ items }).trimEnd();
}

/** As kubectl prints one object. */
export function structuredOne(object: object, format: Structured): string {
  return format === 'json' ? JSON.stringify(object, null, 4) : stringify(object).trimEnd();
}

export interface Column<T> {
  readonly title: string;
  /** Undefined is shown as kubectl does: `<none>`. */
  readonly cell: (row: T) => string | undefined;
}

export const gap = 3;

/** Aligned as kubectl does it. */
export function table<T>(columns: readonly Column<T>[], rows: readonly T[]): string {
  const cells = [
    columns.map(({ title }) => title),
    ...rows.map((row) => columns.map(({ cell }) => cellText(cell(row)))),
  ];
  const widths = columns.map((_, index) => Math.max(...cells.map((line) => line[index]?.length ?? 0)));
  return cells
    .map((line) => line.map((text, index) => text.padEnd((widths[index] ?? 0) + gap)).join(''))
    .map((line) => line.trimEnd())
    .join('\n');
}

export function cellText(text: string | undefined, longest = longestText): string {
  return text === undefined || text === '' ? '<none>' : shown(text, longest);
}

/** What could break a line, command a terminal, or hide: `\u001b` and the like. */
const invisible = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
const longestText = 300;
const longestComplaint = 3_000;

/** What somebody wrote into an object, as one line for a terminal: escaped, and cut where it is too long. */
export function shown(text: string, longest = longestText): string {
  const line = text.replaceAll(invisible, (one) => one.split('').map(escapeOf).join(''));
  return line.length <= longest ? line : `${line.slice(0, longest - 1)}…`;
}

function escapeOf(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;
const year = 365 * day;

/** As kubectl shows ages: `90s`, `5m30s`, `45m`, `3h15m`, `30h`, `3d4h`, `100d`. */
export function duration(ms: number): string {
  if (ms < 2 * minute) return `${Math.max(0, Math.floor(ms / second))}s`;
  if (ms < 10 * minute) return two(ms, [minute, 'm'], [second, 's']);
  if (ms < 3 * hour) return `${Math.floor(ms / minute)}m`;
  if (ms < 8 * hour) return two(ms, [hour, 'h'], [minute, 'm']);
  if (ms < 2 * day) return `${Math.floor(ms / hour)}h`;
  if (ms < 8 * day) return two(ms, [day, 'd'], [hour, 'h']);
  return ms < 2 * year ? `${Math.floor(ms / day)}d` : `${Math.floor(ms / year)}y`;
}

function two(ms: number, [large, a]: [number, string], [small, b]: [number, string]): string {
  const rest = Math.floor((ms % large) / small);
  return `${Math.floor(ms / large)}${a}${rest === 0 ? '' : `${rest}${b}`}`;
}

/** How long ago a time was, or `in 5m` for one to come; undefined for what is no time. */
export function age(time: string | undefined, now: number): string | undefined {
  const at = Date.parse(time ?? '');
  if (Number.isNaN(at)) return undefined;
  return at > now ? `in ${duration(at - now)}` : duration(now - at);
}
