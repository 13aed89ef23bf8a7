import type { NodeMaintenanceStage } from '../api/nodeMaintenance.ts';
import { listed } from '../domain/names.ts';
import { stagesAfter } from '../domain/stage.ts';
import type { Run } from './run.ts';

const doing: Record<NodeMaintenanceStage, string> = {
  Idle: 'Planned. Nothing is touched.',
  Cordon: 'The nodes are kept unschedulable.',
  Drain: 'Pods are evacuated tier by tier.',
  Complete: 'The nodes are given back.',
};

/** The page that the Temporal UI shows for a maintenance (Markdown). */
export function describeRun(run: Run): string {
  const next = stagesAfter(run.stage)[0];
  const rows = [
    ['Stage', run.paused ? `**${run.stage}**, paused` : `**${run.stage}**`],
    [
      'Now',
      run.drained && run.stage === 'Drain' ? 'Drained: the nodes are ready for work.' : doing[run.stage],
    ],
    ['Drain plan', `entry ${Math.min(run.position + 1, run.planLength)} of ${run.planLength}`],
    ['Nodes', `${run.nodes.length}: ${listed(run.nodes) || 'none matches'}`],
  ];
  const table = ['| | |', '|---|---|', ...rows.map((row) => `| ${row.join(' | ')} |`)];
  const help =
    next === undefined
      ? 'Final.'
      : `\`advance\` goes on to **${next}**; \`cancel\` gives the nodes back at once.`;
  return [`### NodeMaintenance ${run.name}`, '', ...table, '', help].join('\n');
}
