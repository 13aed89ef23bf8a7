import type { TurnSummary, WindowSummary } from '../domain/windowSummary.ts';
import { atMost, indented, type Line, roomIn, wrapped } from './block.ts';
import { fittedTable } from './fittedTable.ts';
import type { Screen } from './screen.ts';
import { type Look, turnColumns, windowColumns, windowText } from './windowsView.ts';

type Paper = Pick<Screen, 'width' | 'height' | 'colors'>;

/** All windows, a row each; where there is little room, those first that somebody may have to see to. */
export function windowsBlock(found: readonly WindowSummary[], look: Look, paper: Paper): Line[] {
  const rowsOf = (rows: readonly WindowSummary[]) => {
    const dispensable = ['OPENS', 'NEXT', 'LEFT', 'OPEN UNTIL'];
    const table = fittedTable(windowColumns(look), { rows, dispensable, width: paper.width() });
    return painted(table, paper, (index) => isPressing(rows[index]));
  };
  const whole = rowsOf(found).flat();
  const room = roomIn(paper);
  return whole.length <= room ? whole : rowsThatFit(rowsOf(byConcern(found)), room, 'windows');
}

/** One window and its turns; where there is little room, what somebody may have to see to. */
export function windowBlock(summary: WindowSummary, look: Look, paper: Paper): Line[] {
  const { bold, yellow, red } = paper.colors;
  const width = paper.width();
  const { headline, times, progress, waiting, problems } = windowText(summary, look);
  const inside = (text: string, paint?: Line['paint']) =>
    wrapped(text, width - indented('').length, paint).map((line) => ({ ...line, text: indented(line.text) }));
  const head = wrapped(headline, width, bold);
  const remarks = [
    ...waiting.flatMap((text) => inside(text, yellow)),
    ...problems.flatMap((text) => inside(text, red)),
  ];
  const whole = [
    ...head,
    ...times.flatMap((text) => inside(text)),
    ...inside(progress),
    ...remarks,
    ...turnRows(summary.turns, look, paper).flat(),
  ];
  const room = roomIn(paper);
  if (whole.length <= room) return whole;
  const most = Math.max(2, Math.floor(room / 2) - head.length - 1);
  const above = [...head, ...inside(progress), ...atMost(most, remarks, 'lines of remarks')];
  const pressing = summary.turns.toSorted((a, b) => urgency[b.outcome] - urgency[a.outcome]);
  return [
    ...above,
    ...rowsThatFit(turnRows(pressing, look, paper, { lastHas: longest }), room - above.length, 'turns'),
  ];
}

const urgency: Record<TurnSummary['outcome'], number> = { Failed: 2, UnderWay: 1, Succeeded: 0 };

/** Of a turn's message: the other columns make way for it where lines are few. */
const longest = 1_000;

function turnRows(
  turns: readonly TurnSummary[],
  look: Look,
  paper: Paper,
  given: { lastHas?: number } = {},
): Line[][] {
  if (turns.length === 0) return [];
  const width = paper.width() - indented('').length;
  const dispensable = ['NODEMAINTENANCE', 'STAGE', 'FOR'];
  const table = fittedTable(turnColumns(look), { rows: turns, dispensable, width, ...given });
  return painted(table, paper, (index) => turns[index]?.outcome === 'Failed').map((row) =>
    row.map((line) => ({ ...line, text: indented(line.text) })),
  );
}

/** Titles are dim; what somebody should see to is red. */
function painted(
  [titles = [], ...rows]: readonly (readonly string[])[],
  { colors }: Paper,
  isRed: (index: number) => boolean,
): Line[][] {
  return [
    titles.map((text) => ({ text, paint: colors.dim })),
    ...rows.map((row, index) => row.map((text) => ({ text, paint: isRed(index) ? colors.red : undefined }))),
  ];
}

/** As many rows as there is room for, titles first, and how many there are more. */
function rowsThatFit([titles = [], ...rows]: readonly Line[][], room: number, noun: string): Line[] {
  const lines = [...titles];
  let shown = 0;
  for (const row of rows) {
    const fits = lines.length + row.length < room;
    // The first is shown in part rather than not at all.
    if (!fits && shown > 0) break;
    lines.push(...(fits ? row : beginning(row, room - 1 - lines.length)));
    shown += 1;
  }
  const rest = rows.length - shown;
  return rest === 0 ? lines : [...lines, { text: indented(`… ${rest} more ${noun}`) }];
}

function beginning(row: readonly Line[], most: number): Line[] {
  const part = row.slice(0, Math.max(1, most));
  return part.map((line, index) => (index < part.length - 1 ? line : { ...line, text: `${line.text}…` }));
}

function isPressing(window: WindowSummary | undefined): boolean {
  return (window?.progress?.failed ?? 0) > 0;
}

function byConcern(found: readonly WindowSummary[]): WindowSummary[] {
  const concern = (window: WindowSummary) => {
    if (isPressing(window)) return 3;
    if (window.awaitsApproval || window.problems.length > 0) return 2;
    return window.open === undefined ? 0 : 1;
  };
  return found.toSorted((a, b) => concern(b) - concern(a));
}
