import { type Colors, type Piece, line } from '../cli/terminal/screen.ts';
import { padTo, wrap } from '../cli/terminal/width.ts';

/** One verified fact. */
export interface Row {
  fact: string;
  expected: string;
  actual: string;
  holds: boolean;
}

export interface Section {
  title: string;
  rows: readonly Row[];
}

/** Limits of the width of a table, in columns. A narrower screen shows a list. */
const maxWidth = 130;
const minTableWidth = 84;
const margin = 3;
const mark = 2;

/** Draws the facts as a table, or as a list on a narrow screen. */
export function drawVerification(sections: readonly Section[], colors: Colors, width: number): string[] {
  const draw = width < minTableWidth ? drawItem : drawRow;
  const room = Math.min(width, maxWidth);
  return [
    ...(width < minTableWidth ? [] : [header(colors, room)]),
    ...sections.flatMap(({ title, rows }) => [
      '',
      ' '.repeat(margin) + colors.bold(title),
      ...rows.flatMap((row) => draw(row, colors, room)),
    ]),
  ];
}

function header({ dim }: Colors, width: number): string {
  const [fact, expected] = columns(width);
  return dim(
    `${' '.repeat(margin + mark)}${padTo('fact', fact + 2)}${padTo('expected', expected + 2)}actual`.trimEnd(),
  );
}

/** Returns the widths of the three columns. */
function columns(width: number): [number, number, number] {
  const room = width - margin - mark - 4;
  const fact = Math.floor(room * 0.4);
  const expected = Math.floor((room - fact) / 2);
  return [fact, expected, room - fact - expected];
}

function drawRow(row: Row, colors: Colors, width: number): string[] {
  const [fact, expected, actual] = columns(width);
  const cells = [wrap(row.fact, fact), wrap(row.expected, expected), wrap(row.actual, actual)] as const;
  const height = Math.max(...cells.map((lines) => lines.length));
  return Array.from({ length: height }, (_, index) => {
    const first: Piece = index === 0 ? markOf(row, colors) : [' '.repeat(mark)];
    const pieces: Piece[] = [
      [' '.repeat(margin)],
      first,
      [padTo(cells[0][index] ?? '', fact + 2)],
      [padTo(cells[1][index] ?? '', expected + 2), colors.dim],
      [cells[2][index] ?? '', row.holds ? colors.green : colors.red],
    ];
    return line(pieces, width).trimEnd();
  });
}

function drawItem(row: Row, colors: Colors, width: number): string[] {
  const room = Math.max(10, width - 6);
  const { dim, green, red } = colors;
  const [first = '', ...more] = wrap(row.fact, room);
  const [text, paint = (same: string) => same] = markOf(row, colors);
  return [
    ` ${paint(text)}${first}`,
    ...more.map((words) => `   ${words}`),
    ...wrap(`expected ${row.expected}`, room).map((words) => dim(`     ${words}`)),
    ...wrap(`actual   ${row.actual}`, room).map((words) => (row.holds ? green : red)(`     ${words}`)),
  ];
}

function markOf({ holds }: Row, { green, red }: Colors): Piece {
  return holds ? ['✓ ', green] : ['✗ ', red];
}
