import { type Screen, wrap } from './screen.ts';

/** A line of a block; it is painted after it was cut, because color codes have no width. */
export interface Line {
  readonly text: string;
  readonly paint?: Paint;
}

type Paint = ((text: string) => string) | undefined;

const indent = '  ';
/** Columns for sentences, however narrow the terminal is. */
const narrowest = 20;

export function indented(line: string): string {
  return `${indent}${line}`;
}

/** Lines of a block that can be drawn anew. */
export function roomIn(screen: Pick<Screen, 'height'>): number {
  return Math.max(2, screen.height() - 1);
}

/** A sentence of at most `width` columns, which goes on below, indented. */
export function wrapped(text: string, width: number, paint?: Paint): Line[] {
  const [first = '', ...more] = wrap(text, Math.max(narrowest, width - indent.length));
  return [first, ...more.map(indented)].map((part) => ({ text: part, paint }));
}

/** Cut at the right and at the bottom: a block that is larger than the terminal could not be drawn anew. */
export function drawnOn(screen: Pick<Screen, 'width' | 'height'>, lines: readonly Line[]): string[] {
  const width = screen.width();
  const room = roomIn(screen);
  const drawn = lines.map(({ text, paint = (same: string) => same }) =>
    paint(text.length <= width ? text : `${text.slice(0, width - 1)}…`),
  );
  if (drawn.length <= room) return drawn;
  const rest = drawn.length - room + 1;
  return [...drawn.slice(0, room - 1), `… ${rest} more lines: make the terminal higher`];
}

/** So many lines at most, and how many there are more. */
export function atMost(most: number, lines: readonly Line[], noun: string): Line[] {
  const rest = lines.length - most;
  return rest <= 0 ? [...lines] : [...lines.slice(0, most), { text: indented(`… ${rest} more ${noun}`) }];
}
