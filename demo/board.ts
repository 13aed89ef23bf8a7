import type { NodeProgress, Progress } from './progress.ts';
import { type Colors, line, type Piece } from './screen.ts';

/** What the block of a terminal is drawn from. */
export interface Board {
  progress: Progress;
  /** Since the maintenance was declared. */
  seconds: number;
  /** What is said of the worker. */
  worker: string;
  link: string;
}

/** Columns of a line's beginning and of a bar. */
const titleWidth = 40;
const widestBar = 24;

/** The block: where the maintenance stands, tier by tier and node by node. */
export function drawBoard(board: Board, colors: Colors, width: number): string[] {
  const { progress, seconds, worker, link } = board;
  const { bold, dim, cyan } = colors;
  const rows: Piece[][] = [
    [],
    [
      ['   NodeMaintenance rack-7 ', bold],
      [progress.stage, cyan],
      [`  ${seconds.toFixed(0)} s`, dim],
    ],
    ...progress.tiers.map((_, index) => tierRow(progress, index, colors)),
    [],
    ...progress.nodes.map((node) => nodeRow(node, colors)),
    ...blockedRows(progress, colors),
    [],
    [['   worker  ', dim], [worker]],
    [['   UI      ', dim], [link]],
  ];
  return rows.map((pieces) => line(pieces, width));
}

function tierRow({ tiers, tier: underWay = 0 }: Progress, index: number, colors: Colors): Piece[] {
  const tier = tiers[index];
  if (tier === undefined) return [];
  const isDone = tier.gone === tier.total;
  const isNow = index + 1 === underWay && !isDone;
  const paint = isDone ? colors.green : isNow ? colors.bold : colors.dim;
  const mark = isDone ? '✓' : isNow ? '▸' : ' ';
  const title = `   ${mark} ${index + 1}  ${tier.title}`;
  return [
    [title.padEnd(titleWidth), paint],
    ...bar(tier, colors),
    [`  ${tier.gone}/${tier.total} pods left`],
  ];
}

function nodeRow(node: NodeProgress, colors: Colors): Piece[] {
  const counts = `${node.gone}/${node.total} gone, ${node.podsEvacuating} evacuating, ${node.podsPendingEvacuation} pending`;
  return [
    [`   ${node.title}  `, colors.bold],
    ...bar(node, colors),
    [`  ${counts}`],
    [node.drainMessage === '' ? '' : `  ${node.drainMessage}`, colors.dim],
  ];
}

function bar({ gone, total }: { gone: number; total: number }, { green, dim }: Colors): Piece[] {
  const filled = total === 0 ? 0 : Math.round((gone / total) * widestBar);
  return [
    ['█'.repeat(filled), green],
    ['░'.repeat(widestBar - filled), dim],
  ];
}

function blockedRows({ blocked }: Progress, { yellow }: Colors): Piece[][] {
  return blocked.map(({ app, evacuations, message }) => [
    [`   ${evacuations} ${evacuations === 1 ? 'waits' : 'wait'}  ${app}: ${message}`, yellow],
  ]);
}

/** One line with the published status of every node, for where there is no block. */
export function statusLine({ tier, tiers, nodes }: Progress): string {
  const counts = nodes.map(
    (node) =>
      `${node.title}: ${node.gone}/${node.total} gone, ${node.podsEvacuating} evacuating, ${node.podsPendingEvacuation} pending`,
  );
  return [tier === undefined ? 'no tier' : `tier ${tier}/${tiers.length}`, ...counts].join('  ');
}
