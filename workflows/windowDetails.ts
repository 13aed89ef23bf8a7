import { listed } from '../domain/names.ts';
import type { WindowRun } from './windowRun.ts';

/** The page that the Temporal UI shows for an open window (Markdown). */
export function describeWindow(run: WindowRun): string {
  const { name, start, end, state } = run;
  const rows = [
    ['Open', `${start} to ${end}${run.ended ? ', over' : ''}`],
    ['Now', doing(run)],
    ['Nodes', state === undefined ? 'not counted yet' : `${state.done} of ${state.nodes} done`],
    ['Under way', listed((state?.underWay ?? []).map(({ node }) => node)) || 'none'],
    ['Failed', listed(state?.failed ?? []) || 'none'],
  ];
  const table = ['| | |', '|---|---|', ...rows.map((row) => `| ${row.join(' | ')} |`)];
  return [`### MaintenanceWindow ${name}`, '', ...table, '', ...help(run)].join('\n');
}

function doing({ cancelled, paused, state }: WindowRun): string {
  if (cancelled) return '**Cancelled**: nodes are given back.';
  if (state?.waiting !== undefined) return state.waiting.message;
  return paused ? 'Paused.' : 'Nodes have their turn.';
}

function help({ state, paused }: WindowRun): string[] {
  const awaited = state?.waiting?.reason === 'ApprovalNeeded';
  return [
    ...(awaited ? ['`approve` lets nodes begin: all, or those that it names.', ''] : []),
    paused ? '`resume` lets further nodes begin.' : '`pause` lets no further node begin.',
    '',
    '`advance` with a node ends its turn; `cancel` ends the window and gives nodes back.',
  ];
}
