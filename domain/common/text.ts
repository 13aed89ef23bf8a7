import { escapeUnprintable } from '../../api/text.ts';

/** Truncates the text to `maxLength` UTF-16 units and marks the cut with an ellipsis. Never keeps half of a surrogate pair, which no URL can encode. */
export function cut(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  return `${text.slice(0, maxLength - 1).replace(/[\uD800-\uDBFF]$/, '')}…`;
}

/**
 * Returns text that another component or a user wrote as one line: printable, and truncated to `maxLength`. Everything that becomes part
 * of a message passes through here. Idempotent.
 */
export function oneLine(text: string, maxLength: number): string {
  // Limits the work for a text of megabytes. Some whitespace is collapsed.
  const start = text.slice(0, 4 * maxLength);
  return cut(escapeUnprintable(start.replaceAll(/\s+/g, ' ').trim()), maxLength);
}

const maxProblemsLength = 1_800;
const maxProblemLength = 600;

/**
 * Joins the problems of one input, of which it may have thousands, to one line of bounded length. The user corrects the first ones, and sees the
 * others then.
 */
export function joinedProblems(problems: readonly string[]): string {
  const shown: string[] = [];
  let length = 0;
  for (const problem of problems) {
    const line = oneLine(problem, maxProblemLength);
    length += line.length + 2;
    if (length > maxProblemsLength) break;
    shown.push(line);
  }
  const more = problems.length - shown.length;
  return [...shown, ...(more === 0 ? [] : [`and ${numbered(more, 'more problem')}`])].join('; ');
}

/** Returns the size of a JSON text in UTF-8. */
export function jsonBytes(value: unknown): number {
  let bytes = 0;
  for (const character of JSON.stringify(value) ?? '') {
    const code = character.codePointAt(0) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x1_0000 ? 3 : 4;
  }
  return bytes;
}

/** Formats a count with its noun, in the plural unless the count is 1: `1 pod`, `0 pods`. */
export function numbered(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** Returns the FNV-1a hash of a text in eight digits. It distinguishes versions, and is no protection against someone who constructs a collision. */
export function hashed(text: string): string {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, '0');
}
