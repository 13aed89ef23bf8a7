import { Document, Scalar, visit } from 'yaml';
import { escapeUnprintable } from '../api/text.ts';
import { cut } from '../domain/common/text.ts';

/** A command that failed or was rejected, with a one-line message: exit code 1. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
}

/** Invalid arguments, with a one-line message: exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Prints a result. Only results go to standard output. */
export function print(text: string): void {
  console.log(escapeLines(text));
}

export function printError(text: string): void {
  console.error(escapeForTerminal(text, maxErrorLength));
}

/** Prints what is wrong with arguments, which it repeats. */
export function writeUsageError(text: string): void {
  process.stderr.write(`${cut(escapeEachLine(text.trimEnd().slice(0, maxErrorLength)), maxErrorLength)}\n`);
}

export type Structured = 'json' | 'yaml';

/** Formats a list like kubectl: `{ "items": [...] }`. */
export function formatList(items: readonly object[], format: Structured): string {
  return formatObject({ items }, format);
}

/** Formats one object like kubectl. Unprintable characters are escaped in the notation of the format, so that no value changes. */
export function formatObject(object: object, format: Structured): string {
  return escapeEachLine(format === 'json' ? JSON.stringify(object, null, 4) : yamlOf(object));
}

/** Formats an object as YAML, in which only text in double quotes may contain escapes, and a character beyond 16 bits has one of its own. */
function yamlOf(object: object): string {
  // Other readers of YAML, kubectl's among them, take `yes` or `22:00` without quotes for other types.
  const document = new Document(object, { compat: 'yaml-1.1' });
  visit(document, {
    Scalar(_, scalar) {
      const { value } = scalar;
      if (typeof value === 'string' && escapeEachLine(value) !== value) scalar.type = Scalar.QUOTE_DOUBLE;
    },
  });
  const text = document.toString().replace(/\n$/, '');
  return text.replaceAll(/[\u{10000}-\u{10ffff}]/gu, (one) =>
    escapeUnprintable(one) === one ? one : `\\U${one.codePointAt(0)?.toString(16).padStart(8, '0')}`,
  );
}

function escapeEachLine(text: string): string {
  return text.split('\n').map(escapeUnprintable).join('\n');
}

/** Escapes what may not reach a terminal: everything unprintable except the ends of lines, tabs between columns, and colors. */
export function escapeLines(text: string): string {
  return text
    .split(printed)
    .map((part, index) => (index % 2 === 1 ? part : escapeUnprintable(part)))
    .join('');
}

const escapeCharacter = String.fromCodePoint(0x1b);
/** Ends of lines, tabs, and the sequences with which picocolors sets bold, dim and the colors of text. */
const printed = new RegExp(`(\\n|\\t|${escapeCharacter}\\[(?:0|1|2|22|39|3[0-7]|9[0-7])m)`);

const maxTextLength = 300;
const maxErrorLength = 3_000;

/** Returns text of an object as one line for a terminal: escaped, and truncated if it is too long. */
export function escapeForTerminal(text: string, maxLength = maxTextLength): string {
  return cut(escapeUnprintable(text.slice(0, maxLength + 1)), maxLength);
}

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;
const year = 365 * day;

/** Formats a duration like the ages of kubectl: `90s`, `5m30s`, `45m`, `3h15m`, `30h`, `3d4h`, `100d`. */
export function duration(ms: number): string {
  if (ms < 2 * minute) return `${Math.max(0, Math.floor(ms / second))}s`;
  if (ms < 10 * minute) return twoUnits(ms, [minute, 'm'], [second, 's']);
  if (ms < 3 * hour) return `${Math.floor(ms / minute)}m`;
  if (ms < 8 * hour) return twoUnits(ms, [hour, 'h'], [minute, 'm']);
  if (ms < 2 * day) return `${Math.floor(ms / hour)}h`;
  if (ms < 8 * day) return twoUnits(ms, [day, 'd'], [hour, 'h']);
  return ms < 2 * year ? `${Math.floor(ms / day)}d` : `${Math.floor(ms / year)}y`;
}

function twoUnits(ms: number, [large, a]: [number, string], [small, b]: [number, string]): string {
  const rest = Math.floor((ms % large) / small);
  return `${Math.floor(ms / large)}${a}${rest === 0 ? '' : `${rest}${b}`}`;
}

/** Formats when something was: `5m ago`, or `in 5m` for a future time; undefined if it is not a time. */
export function ago(time: string | undefined, now: number): string | undefined {
  const text = age(time, now);
  return text === undefined || text.startsWith('in ') ? text : `${text} ago`;
}

/** Formats the age of a time, or `in 5m` for a future time; undefined if it is not a time. */
export function age(time: string | undefined, now: number): string | undefined {
  const at = Date.parse(time ?? '');
  if (Number.isNaN(at)) return undefined;
  return at > now ? `in ${duration(at - now)}` : duration(now - at);
}
