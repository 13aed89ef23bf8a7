import { escapeForTerminal } from '../output.ts';
import { displayWidth, padTo, wrap } from './width.ts';

export interface Column<T> {
  readonly title: string;
  /** Undefined is printed as `<none>`, as in kubectl. */
  readonly cell: (row: T) => string | undefined;
}

const gap = 3;
const maxCellLength = 300;
const maxWrappedCellLength = 1_000;
/** Minimum width of the last column, however narrow the terminal is. */
const minLastColumnWidth = 10;

/** Prints a table in the format of kubectl. */
export function table<T>(columns: readonly Column<T>[], rows: readonly T[]): string {
  const { cells, widths } = layOut(columns, rows, maxCellLength);
  return cells.map((row) => paddedRow(row, widths).trimEnd()).join('\n');
}

interface Fit<T> {
  /** Width of the table in terminal columns. */
  readonly width: number;
  /** Titles of columns that are omitted if the table is too wide, in this order. */
  readonly dispensable: readonly string[];
  /** Width that the last column gets, if it needs it, before another column is omitted. */
  readonly lastColumnWidth?: number;
  readonly rows: readonly T[];
}

/** Prints a table that fits the width and wraps the last column. Returns the lines of each row, starting with the titles. */
export function fittedTable<T>(
  columns: readonly Column<T>[],
  { width, dispensable, lastColumnWidth = 30, rows }: Fit<T>,
): string[][] {
  for (let omitted = 0; ; omitted++) {
    const hidden = dispensable.slice(0, omitted);
    const kept = columns.filter(({ title }) => !hidden.includes(title));
    const { cells, widths } = layOut(kept, rows, maxWrappedCellLength);
    const indent = widths.slice(0, -1).reduce((sum, one) => sum + one + gap, 0);
    const wanted = Math.min(widths.at(-1) ?? 0, lastColumnWidth);
    if (indent + wanted <= width || omitted === dispensable.length)
      return cells.map((row) => wrappedRow(row, widths, Math.max(minLastColumnWidth, width - indent)));
  }
}

/** Returns the texts of all cells, titles first, and the width of each column. */
function layOut<T>(columns: readonly Column<T>[], rows: readonly T[], maxLength: number) {
  const cells = [
    columns.map(({ title }) => title),
    ...rows.map((row) => columns.map(({ cell }) => cellText(cell(row), maxLength))),
  ];
  // There may be more rows than a call has room for arguments.
  const widths = columns.map((_, index) =>
    cells.reduce((widest, row) => Math.max(widest, displayWidth(row[index] ?? '')), 0),
  );
  return { cells, widths };
}

function cellText(text: string | undefined, maxLength: number): string {
  return text === undefined || text === '' ? '<none>' : escapeForTerminal(text, maxLength);
}

function paddedRow(cells: readonly string[], widths: readonly number[]): string {
  return cells.map((text, index) => padTo(text, (widths[index] ?? 0) + gap)).join('');
}

function wrappedRow(cells: readonly string[], widths: readonly number[], lastWidth: number): string[] {
  const start = paddedRow(cells.slice(0, -1), widths);
  const [first = '', ...more] = wrap(cells.at(-1) ?? '', lastWidth);
  return [`${start}${first}`, ...more.map((text) => `${' '.repeat(displayWidth(start))}${text}`)];
}
