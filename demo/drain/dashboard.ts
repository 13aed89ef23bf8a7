import { tierText } from '../../domain/drain/tiers.ts';
import type { NodeProgress, Progress, Share } from './progress.ts';
import { tierCount } from './workloads.ts';
import { type Colors, line, type Piece } from '../../cli/terminal/screen.ts';

/** The data of the dashboard, which is a block of a terminal that is redrawn. */
export interface Dashboard {
  progress: Progress;
  /** Time since the maintenance was created. */
  seconds: number;
  /** State of the worker. */
  worker: string;
  link: string;
}

/** Drawing options. */
interface Style {
  colors: Colors;
  /** Width of a progress bar in columns. */
  bar: number;
  /** Width of the title of a tier in columns. */
  title: number;
}

/** Draws the progress of the maintenance by tier and by node. */
export function drawDashboard(dashboard: Dashboard, colors: Colors, width: number): string[] {
  const { progress, seconds, worker, link } = dashboard;
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
    [`  ${tier.gone}/${tier.total} pods evacuated`],
  ];
}

function tierTitle({ tiers, tier: inProgress }: Progress, index: number): string {
  const tier = tiers[index];
  if (tier === undefined) return '';
  const mark = isDone(tier) ? '✓' : inProgress === index + 1 ? '▸' : ' ';
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
    [`   ${evacuations} ${evacuations === 1 ? 'pod waits' : 'pods wait'}  ${app}: ${message}`, yellow],
  ]);
}

/** Returns one line with the status of every node, for output to a pipe. */
export function statusLine({ tier, nodes }: Progress): string {
  const counts = nodes.map(
    (node) =>
      `${node.title}: ${node.gone}/${node.total} gone, ${node.podsEvacuating} evacuating, ${node.podsPendingEvacuation} pending`,
  );
  return [tier === undefined ? 'no tier' : tierText({ number: tier, total: tierCount }), ...counts].join(
    '  ',
  );
}
