import { cellText, type Column, gap } from './output.ts';
import { wrap } from './screen.ts';

interface Fit<T> {
  /** Of the table, in columns of the terminal. */
  readonly width: number;
  /** Titles of columns that are left out where there is little room, the first of them first. */
  readonly dispensable: readonly string[];
  /** What the last one is to have, if it needs so much, before another is left out. */
  readonly lastHas?: number;
  readonly rows: readonly T[];
}

/** Of the last one, however narrow the terminal is. */
const narrowest = 10;
const longest = 1_000;

/** A table as `table` makes it, whose last column goes on in lines below. The lines of each row, the titles first. */
export function fittedTable<T>(
  columns: readonly Column<T>[],
  { width, dispensable, lastHas = 30, rows }: Fit<T>,
): string[][] {
  for (let left = 0; ; left++) {
    const without = dispensable.slice(0, left);
    const kept = columns.filter(({ title }) => !without.includes(title));
    const cells = [
      kept.map(({ title }) => title),
      ...rows.map((row) => kept.map(({ cell }) => cellText(cell(row), longest))),
    ];
    const widths = kept.map((_, index) => Math.max(...cells.map((line) => line[index]?.length ?? 0)));
    const before = widths.slice(0, -1).reduce((sum, one) => sum + one + gap, 0);
    const wanted = Math.min(widths.at(-1) ?? 0, lastHas);
    if (before + wanted <= width || left === dispensable.length)
      return cells.map((line) => linesOf(line, widths, Math.max(narrowest, width - before)));
  }
}

function linesOf(cells: readonly string[], widths: readonly number[], room: number): string[] {
  const others = cells.slice(0, -1).map((text, index) => text.padEnd((widths[index] ?? 0) + gap));
  const start = others.join('');
  const [first = '', ...more] = wrap(cells.at(-1) ?? '', room);
  return [`${start}${first}`, ...more.map((text) => `${' '.repeat(start.length)}${text}`)];
}
