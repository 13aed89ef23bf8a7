import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { type Colors, line, type Piece, wrap } from '../../cli/terminal/screen.ts';
import { type KepMaintenance, entriesText } from './fixtures.ts';
import { linesOf, type NodeLine } from './published.ts';

/** Drawing options. */
export interface TableStyle {
  colors: Colors;
  width: number;
  /** Returns whether the status of a node equals the one in the KEP; undefined when the KEP does not show it. */
  isRight?(maintenance: string, node: string): boolean | undefined;
}

/** Draws a table with the node statuses of each existing maintenance. */
export function drawTables(
  kepMaintenances: readonly KepMaintenance[],
  maintenanceOf: (name: string) => Readonly<NodeMaintenance> | undefined,
  style: TableStyle,
): string[] {
  return kepMaintenances.flatMap((kepMaintenance) => {
    const maintenance = maintenanceOf(kepMaintenance.name);
    return maintenance === undefined ? [] : drawTable(kepMaintenance, maintenance, style);
  });
}

function drawTable(
  kepMaintenance: KepMaintenance,
  maintenance: Readonly<NodeMaintenance>,
  style: TableStyle,
): string[] {
  const { bold, dim } = style.colors;
  const lines = linesOf(kepMaintenance, maintenance);
  const targets = Math.max(...[titles, ...lines].map(({ drainTargets }) => drainTargets.length));
  const rows: Piece[][] = [
    [],
    [
      [`     ${kepMaintenance.name} `, bold],
      [`${maintenance.spec.stage}: ${entriesText(kepMaintenance.drainPlan)}`, dim],
    ],
    [['     '], [`${cells(titles, targets)}${titles.drainMessage}`, dim]],
    ...lines.flatMap((one) =>
      rowsOf(one, markOf(style, kepMaintenance.name, one.node), { targets, width: style.width }),
    ),
  ];
  return rows.map((pieces) => line(pieces, style.width).trimEnd());
}

/** Column titles. */
const titles = {
  node: 'node',
  pending: 'pending',
  evacuating: 'evacuating',
  drainTargets: 'drainTargets',
  drainMessage: 'drainMessage',
} as const;

/** Minimum width of a message in columns. */
const minMessageWidth = 12;

/** Returns several rows when the message is too long for the screen, because it must not be cut. */
function rowsOf(
  one: NodeLine,
  mark: Piece,
  { targets, width }: { targets: number; width: number },
): Piece[][] {
  const first = cells(one, targets);
  const indent = mark[0].length + first.length;
  const [message = '', ...more] = wrap(one.drainMessage, Math.max(minMessageWidth, width - indent));
  return [[mark, [first + message]], ...more.map((words): Piece[] => [[' '.repeat(indent) + words]])];
}

/** Returns the cells before the message, which is the last cell because it is the longest. */
function cells(row: NodeLine | typeof titles, targets: number): string {
  return [
    row.node.padEnd('three'.length),
    String(row.pending).padStart(titles.pending.length),
    String(row.evacuating).padStart(titles.evacuating.length),
    row.drainTargets.padEnd(targets),
    '',
  ].join('  ');
}

function markOf({ colors, isRight }: TableStyle, maintenance: string, node: string): Piece {
  const right = isRight?.(maintenance, node);
  if (right === undefined) return ['     '];
  return right ? ['   ✓ ', colors.green] : ['   ✗ ', colors.red];
}
