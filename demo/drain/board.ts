import type { NodeProgress, Progress, Share } from './progress.ts';
import { type Colors, line, type Piece } from '../../cli/screen.ts';

/** What the block of a terminal is drawn from. */
export interface Board {
  progress: Progress;
  /** Since the maintenance was declared. */
  seconds: number;
  /** What is said of the worker. */
  worker: string;
  link: string;
}

/** How a board is drawn. */
interface Style {
  colors: Colors;
  /** Columns of a bar. */
  bar: number;
  /** Columns of what stands before the bar of a tier. */
  title: number;
}

/** The block: where the maintenance stands, tier by tier and node by node. */
export function drawBoard(board: Board, colors: Colors, width: number): string[] {
  const { progress, seconds, worker, link } = board;
  const { bold, dim, cyan } = colors;
  const title = Math.max(...progress.tiers.map((_, index) => tierTitle(progress, index).length)) + 2;
  const style = { colors, title, bar: Math.min(24, Math.max(6, width - 66)) };
  const rows: Piece[][] = [
    [],
    [
      ['   NodeMaintenance rack-7 ', bold],
      [progress.stage, cyan],
      [`  ${seconds.toFixed(0)} s`, dim],
    ],
    ...progress.tiers.map((_, index) => tierRow(progress, index, style)),
    [],
    ...progress.nodes.map((node) => nodeRow(node, style)),
    ...blockedRows(progress, colors),
    [],
    [['   worker  ', dim], [worker]],
    [['   UI      ', dim], [link]],
  ];
  return rows.map((pieces) => line(pieces, width));
}

function tierRow(progress: Progress, index: number, style: Style): Piece[] {
  const tier = progress.tiers[index];
  if (tier === undefined) return [];
  const { green, bold, dim } = style.colors;
  const paint = isDone(tier) ? green : progress.tier === index + 1 ? bold : dim;
  return [
    [tierTitle(progress, index).padEnd(style.title), paint],
    ...bar(tier, style),
    [`  ${tier.gone}/${tier.total} pods left`],
  ];
}

function tierTitle({ tiers, tier: underWay }: Progress, index: number): string {
  const tier = tiers[index];
  if (tier === undefined) return '';
  const mark = isDone(tier) ? '✓' : underWay === index + 1 ? '▸' : ' ';
  return `   ${mark} ${index + 1}  ${tier.title}`;
}

function isDone({ gone, total }: Share): boolean {
  return gone === total;
}

function nodeRow(node: NodeProgress, style: Style): Piece[] {
  const counts = `${node.gone}/${node.total} gone, ${node.podsEvacuating} evacuating, ${node.podsPendingEvacuation} pending`;
  return [
    [`   ${node.title}  `, style.colors.bold],
    ...bar(node, style),
    [`  ${counts}`],
    [node.drainMessage === '' ? '' : `  ${node.drainMessage}`, style.colors.dim],
  ];
}

function bar({ gone, total }: Share, { bar: width, colors }: Style): Piece[] {
  const filled = total === 0 ? 0 : Math.round((gone / total) * width);
  return [
    ['█'.repeat(filled), colors.green],
    ['░'.repeat(width - filled), colors.dim],
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
