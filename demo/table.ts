import { type Colors, type Piece, line, wrap } from '../cli/screen.ts';

/** One asserted fact. */
export interface Row {
  fact: string;
  expected: string;
  seen: string;
  holds: boolean;
}

export interface Section {
  title: string;
  rows: readonly Row[];
}

/** The widest table that is comfortable to read, and the narrowest that has columns. Columns of the screen. */
const widest = 130;
const narrowest = 84;
const margin = 3;
const mark = 2;

/** The proof as a table; on a narrow screen, as a list. */
export function drawProof(sections: readonly Section[], colors: Colors, width: number): string[] {
  const draw = width < narrowest ? drawItem : drawRow;
  const room = Math.min(width, widest);
  return [
    ...(width < narrowest ? [] : [header(colors, room)]),
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
    `${' '.repeat(margin + mark)}${'fact'.padEnd(fact + 2)}${'expected'.padEnd(expected + 2)}seen`.trimEnd(),
  );
}

/** Widths of the three columns. */
function columns(width: number): [number, number, number] {
  const room = width - margin - mark - 4;
  const fact = Math.floor(room * 0.4);
  const expected = Math.floor((room - fact) / 2);
  return [fact, expected, room - fact - expected];
}

function drawRow(row: Row, colors: Colors, width: number): string[] {
  const [fact, expected, seen] = columns(width);
  const cells = [wrap(row.fact, fact), wrap(row.expected, expected), wrap(row.seen, seen)] as const;
  const height = Math.max(...cells.map((lines) => lines.length));
  return Array.from({ length: height }, (_, index) => {
    const first: Piece = index === 0 ? markOf(row, colors) : [' '.repeat(mark)];
    const pieces: Piece[] = [
      [' '.repeat(margin)],
      first,
      [(cells[0][index] ?? '').padEnd(fact + 2)],
      [(cells[1][index] ?? '').padEnd(expected + 2), colors.dim],
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
    ...wrap(`seen     ${row.seen}`, room).map((words) => (row.holds ? green : red)(`     ${words}`)),
  ];
}

function markOf({ holds }: Row, { green, red }: Colors): Piece {
  return holds ? ['✓ ', green] : ['✗ ', red];
}
