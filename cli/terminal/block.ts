import type { Screen } from './screen.ts';
import { truncate, wrap } from './width.ts';

/** A line of a block. It is truncated before it is colored because color codes have no width. */
export interface Line {
  readonly text: string;
  readonly paint?: Paint;
}

type Paint = ((text: string) => string) | undefined;

const indent = '  ';
/** Minimum width of sentences, however narrow the terminal is. */
const minWidth = 20;

export function indented(line: string): string {
  return `${indent}${line}`;
}

/** Returns the number of lines that a redrawn block can have. */
export function maxLines(screen: Pick<Screen, 'height'>): number {
  return Math.max(2, screen.height() - 1);
}

/** Wraps a sentence at `width` columns and indents the following lines. */
export function wrapped(text: string, width: number, paint?: Paint): Line[] {
  const [first = '', ...more] = wrap(text, Math.max(minWidth, width - indent.length));
  return [first, ...more.map(indented)].map((part) => ({ text: part, paint }));
}

/** Truncates lines at the right and the block at the bottom: a block that is larger than the terminal cannot be redrawn. */
export function fitToScreen(screen: Pick<Screen, 'width' | 'height'>, lines: readonly Line[]): string[] {
  const width = screen.width();
  const room = maxLines(screen);
  const drawn = lines.map(({ text, paint = (same: string) => same }) => paint(truncate(text, width)));
  if (drawn.length <= room) return drawn;
  const rest = drawn.length - room + 1;
  return [...drawn.slice(0, room - 1), `… ${rest} more lines: enlarge the terminal`];
}

/** Returns at most this number of lines, followed by the number of omitted lines. */
export function limitLines(max: number, lines: readonly Line[], noun: string): Line[] {
  const rest = lines.length - max;
  return rest <= 0 ? [...lines] : [...lines.slice(0, max), { text: indented(`… ${rest} more ${noun}`) }];
}
