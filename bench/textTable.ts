import type { Spread } from './statistics.ts';

/** Renders rows as lines of text with aligned columns, indented by two spaces. */
export function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    `  ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')}`.trimEnd(),
  );
}

/** Renders rows as a table in Markdown. */
export function markdownTable(rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  const [titles = [], ...others] = rows;
  return [line(titles), `|${titles.map(() => '---|').join('')}`, ...others.map(line)];
}

/** Returns `3.87 (3.84..3.91)`: the median of several runs, and their range. The unit follows each number that stands alone. */
export function spreadText(spread: Spread | undefined, digits: number, unit = ''): string {
  if (spread === undefined) return '-';
  const [median, min, max] = [spread.median, spread.min, spread.max].map((number) => number.toFixed(digits));
  return min === max ? `${median}${unit}` : `${median}${unit} (${min}..${max})`;
}
