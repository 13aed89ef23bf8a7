import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { type Colors, line, type Piece, wrap } from '../../cli/screen.ts';
import { type Actor, entriesText } from './cast.ts';
import { linesOf, type NodeLine } from './published.ts';

/** How tables are drawn. */
export interface TableStyle {
  colors: Colors;
  width: number;
  /** Whether a node of a maintenance is as the KEP has it; undefined where the KEP does not show it at this moment. */
  isRight?(maintenance: string, node: string): boolean | undefined;
}

/** A small table for each maintenance that exists: what is published of each of its nodes. */
export function drawTables(
  actors: readonly Actor[],
  maintenanceOf: (name: string) => Readonly<NodeMaintenance> | undefined,
  style: TableStyle,
): string[] {
  return actors.flatMap((actor) => {
    const maintenance = maintenanceOf(actor.name);
    return maintenance === undefined ? [] : drawTable(actor, maintenance, style);
  });
}

function drawTable(actor: Actor, maintenance: Readonly<NodeMaintenance>, style: TableStyle): string[] {
  const { bold, dim } = style.colors;
  const lines = linesOf(actor, maintenance);
  const targets = Math.max(...[titles, ...lines].map(({ drainTargets }) => drainTargets.length));
  const rows: Piece[][] = [
    [],
    [
      [`     ${actor.name} `, bold],
      [`${maintenance.spec.stage}: ${entriesText(actor.drainPlan)}`, dim],
    ],
    [['     '], [`${cells(titles, targets)}${titles.drainMessage}`, dim]],
    ...lines.flatMap((one) =>
      rowsOf(one, markOf(style, actor.name, one.node), { targets, width: style.width }),
    ),
  ];
  return rows.map((pieces) => line(pieces, style.width).trimEnd());
}

/** What is above the columns. */
const titles = {
  node: 'node',
  pending: 'pending',
  evacuating: 'evacuating',
  drainTargets: 'drainTargets',
  drainMessage: 'drainMessage',
} as const;

/** Columns that a message has, however narrow the screen is. */
const shortest = 12;

/** More than one where the message is too long for the screen: it must be read letter for letter. */
function rowsOf(
  one: NodeLine,
  mark: Piece,
  { targets, width }: { targets: number; width: number },
): Piece[][] {
  const first = cells(one, targets);
  const indent = mark[0].length + first.length;
  const [message = '', ...more] = wrap(one.drainMessage, Math.max(shortest, width - indent));
  return [[mark, [first + message]], ...more.map((words): Piece[] => [[' '.repeat(indent) + words]])];
}

/** What stands before the message, which comes last because it is the longest. */
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
