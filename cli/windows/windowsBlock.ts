import type { WindowNodeSummary, WindowSummary } from '../../domain/windows/summary.ts';
import { indented, type Line, limitLines, maxLines, wrapped } from '../terminal/block.ts';
import type { Screen } from '../terminal/screen.ts';
import { fittedTable } from '../terminal/table.ts';
import { nodeColumns, type Viewer, windowColumns, windowText } from './windowsView.ts';

type Viewport = Pick<Screen, 'width' | 'height' | 'colors'>;

/** Formats all windows as a table. If the table is too high, windows that require action come first. */
export function windowsBlock(
  summaries: readonly WindowSummary[],
  viewer: Viewer,
  viewport: Viewport,
): Line[] {
  const rowsOf = (rows: readonly WindowSummary[]) => {
    const dispensable = ['OPENS', 'NEXT', 'REMAINING', 'OPEN UNTIL'];
    const table = fittedTable(windowColumns(viewer), { rows, dispensable, width: viewport.width() });
    return paintRows(table, viewport, (index) => hasFailedNodes(rows[index]));
  };
  const lines = rowsOf(summaries).flat();
  const max = maxLines(viewport);
  return lines.length <= max ? lines : limitRows(rowsOf(byUrgency(summaries)), max, 'windows');
}

/** Formats one window and its nodes. If the block is too high, nodes that require action come first. */
export function windowBlock(summary: WindowSummary, viewer: Viewer, viewport: Viewport): Line[] {
  const { head, times, progress, remarks } = sectionsOf(summary, viewer, viewport);
  const nodes = nodeRows(summary.nodes, viewer, viewport).flat();
  const lines = [...head, ...times, ...progress, ...remarks, ...nodes];
  const max = maxLines(viewport);
  if (lines.length <= max) return lines;
  const maxRemarks = Math.max(2, Math.floor(max / 2) - head.length - 1);
  const above = [...head, ...progress, ...limitLines(maxRemarks, remarks, 'lines of remarks')];
  const urgentFirst = summary.nodes.toSorted((a, b) => urgency[b.state] - urgency[a.state]);
  const rows = nodeRows(urgentFirst, viewer, viewport, { lastColumnWidth: maxMessageLength });
  return [...above, ...limitRows(rows, max - above.length, 'nodes')];
}

function sectionsOf(summary: WindowSummary, viewer: Viewer, viewport: Viewport) {
  const { bold, yellow, red } = viewport.colors;
  const width = viewport.width();
  const { headline, times, progress, waiting, problems } = windowText(summary, viewer);
  const indentedLines = (text: string, paint?: Line['paint']) =>
    wrapped(text, width - indented('').length, paint).map((line) => ({ ...line, text: indented(line.text) }));
  return {
    head: wrapped(headline, width, bold),
    times: times.flatMap((text) => indentedLines(text)),
    progress: indentedLines(progress),
    remarks: [
      ...waiting.flatMap((text) => indentedLines(text, yellow)),
      ...problems.flatMap((text) => indentedLines(text, red)),
    ],
  };
}

const urgency: Record<WindowNodeSummary['state'], number> = { Failed: 2, InProgress: 1, Succeeded: 0 };

/** Omits other columns before it wraps messages, in a block that is too high. */
const maxMessageLength = 1_000;

function nodeRows(
  nodes: readonly WindowNodeSummary[],
  viewer: Viewer,
  viewport: Viewport,
  fit: { lastColumnWidth?: number } = {},
): Line[][] {
  if (nodes.length === 0) return [];
  const width = viewport.width() - indented('').length;
  const dispensable = ['NODEMAINTENANCE', 'STAGE', 'FOR'];
  const table = fittedTable(nodeColumns(viewer), { rows: nodes, dispensable, width, ...fit });
  return paintRows(table, viewport, (index) => nodes[index]?.state === 'Failed').map((row) =>
    row.map((line) => ({ ...line, text: indented(line.text) })),
  );
}

/** Dims the titles, and colors rows that require action red. */
function paintRows(
  [titles = [], ...rows]: readonly (readonly string[])[],
  { colors }: Viewport,
  isRed: (index: number) => boolean,
): Line[][] {
  return [
    titles.map((text) => ({ text, paint: colors.dim })),
    ...rows.map((row, index) => row.map((text) => ({ text, paint: isRed(index) ? colors.red : undefined }))),
  ];
}

/** Returns as many rows as fit, after the titles, followed by the number of omitted rows. */
function limitRows([titles = [], ...rows]: readonly Line[][], max: number, noun: string): Line[] {
  const lines = [...titles];
  let count = 0;
  for (const row of rows) {
    const fits = lines.length + row.length < max;
    // The first row is truncated rather than omitted.
    if (!fits && count > 0) break;
    lines.push(...(fits ? row : truncatedRow(row, max - 1 - lines.length)));
    count += 1;
  }
  const omitted = rows.length - count;
  return omitted === 0 ? lines : [...lines, { text: indented(`… ${omitted} more ${noun}`) }];
}

function truncatedRow(row: readonly Line[], max: number): Line[] {
  const part = row.slice(0, Math.max(1, max));
  return part.map((line, index) => (index < part.length - 1 ? line : { ...line, text: `${line.text}…` }));
}

function hasFailedNodes(window: WindowSummary | undefined): boolean {
  return (window?.progress?.failed ?? 0) > 0;
}

function byUrgency(summaries: readonly WindowSummary[]): WindowSummary[] {
  const urgencyOf = (window: WindowSummary) => {
    if (hasFailedNodes(window)) return 3;
    if (window.awaitsApproval || window.problems.length > 0) return 2;
    return window.open === undefined ? 0 : 1;
  };
  return summaries.toSorted((a, b) => urgencyOf(b) - urgencyOf(a));
}
