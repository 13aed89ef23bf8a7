import { code, fitRows, plain, runLink, section, table, utc } from '../common/markdown.ts';
import { type TemporalNames, WINDOW_LABEL } from '../../api/names.ts';
import type { WindowNode } from './windowState.ts';

/** The state of an open window as its workflow knows it. */
export interface WindowDetails {
  name: string;
  /** RFC 3339. No further node starts after `end`. */
  start: string;
  end: string;
  ended: boolean;
  cancelled: boolean;
  paused: boolean;
  approved: boolean;
  approvedNodes: readonly string[];
  /** Undefined until the first activity reports it. */
  state?: {
    revision: string;
    nodes: number;
    done: number;
    inProgress: readonly WindowNode[];
    failed: readonly WindowNode[];
    remaining: number;
    waiting?: { reason: string; message: string };
  };
}

type State = NonNullable<WindowDetails['state']>;

const maxRows = 20;
const maxMessageLength = 600;

/** Renders the current details of an open window for the Temporal UI: its state, its nodes, and the effect of each signal. Markdown. */
export function renderWindowDetails(window: WindowDetails, names: TemporalNames): string {
  const { state } = window;
  return fitRows(maxRows, (rows) => [
    `### ${headline(window)}`,
    '',
    ...facts(window),
    ...section('Nodes', nodeLines(window, names, rows)),
    ...section('Available actions', signalLines(window)),
    ...section('See also', references(window, state)),
  ]);
}

function headline(window: WindowDetails): string {
  const { ended, cancelled, paused, state, end } = window;
  if (cancelled) return 'Cancelled: nodes are being uncordoned';
  if (ended) return 'Ended: no more nodes are started';
  if (awaitsApproval(window)) return 'Waiting for approval';
  if (paused) return 'Paused: no more nodes are started';
  if (state?.waiting?.reason === 'TooManyFailures') return 'Stopped: too many nodes have failed';
  return `Open until ${utc(end)}`;
}

function awaitsApproval({ state }: WindowDetails): boolean {
  return state?.waiting?.reason === 'ApprovalNeeded';
}

function facts(window: WindowDetails): string[] {
  const { name, start, end, state, approved, approvedNodes } = window;
  const rows = [
    ['MaintenanceWindow', code(name)],
    ['Open', `${utc(start)} to ${utc(end)}`],
    ['Now', activity(window)],
    ['Nodes', state === undefined ? 'not counted yet' : counts(state)],
    ...(approved ? [['Approved', 'the whole window']] : []),
    ...(!approved && approvedNodes.length > 0 ? [['Approved', nodeNames(approvedNodes)]] : []),
  ];
  return rows.map(([label, text]) => `- **${label}:** ${text}`);
}

function activity({ cancelled, paused, state }: WindowDetails): string {
  if (cancelled) return 'uncordoning nodes whose work is not done';
  if (state?.waiting !== undefined) return plain(state.waiting.message, maxMessageLength);
  return paused ? 'nodes in progress continue, and no more nodes are started' : 'maintaining nodes';
}

function counts({ nodes, done, inProgress, failed, remaining }: State): string {
  const failures = failed.length === 0 ? '' : `, **${failed.length} failed**`;
  return `${done} of ${nodes} nodes done, ${inProgress.length} in progress${failures}, ${remaining} remaining`;
}

function nodeNames(nodes: readonly string[]): string {
  const names = nodes.slice(0, maxRows).map(code).join(', ');
  return nodes.length > maxRows ? `${names} and ${nodes.length - maxRows} more` : names;
}

/** Lists failed nodes first, because they require action. */
function nodeLines({ state }: WindowDetails, names: TemporalNames, limit: number): string[] {
  if (state === undefined) return [];
  const nodes = [
    ...state.failed.map((node) => [node, '**failed**'] as const),
    ...state.inProgress.map((node) => [node, 'in progress'] as const),
  ];
  const rows = nodes
    .slice(0, limit)
    .map(([{ node, maintenance }, text]) => [
      code(node),
      text,
      runLink(maintenance, names.maintenanceId(maintenance)),
    ]);
  const more = nodes.length - rows.length;
  return [
    ...table(['Node', 'State', 'NodeMaintenance'], rows),
    ...(more === 0 ? [] : ['', `and ${more} more nodes`]),
  ];
}

/** A signal that has an effect in the current state. */
type Signal = readonly [name: string, input: string, effect: string];

const none = 'none';

function signalLines(window: WindowDetails): string[] {
  const rows = availableSignals(window).map(([name, input, effect]) => [code(name), input, effect]);
  return rows.length === 0
    ? ['None: the window ends by itself.']
    : table(['Signal', 'Input', 'Effect'], rows);
}

function availableSignals(window: WindowDetails): Signal[] {
  const { ended, cancelled, paused, state } = window;
  if (cancelled) return [];
  return [
    ...(ended ? [] : approveSignals(window)),
    ...advanceSignals(state),
    ...(ended ? [] : [pauseOrResume(paused)]),
    ['cancel', none, 'ends the window and uncordons the nodes whose work is not done'],
  ];
}

function approveSignals(window: WindowDetails): Signal[] {
  if (!awaitsApproval(window)) return [];
  const remaining = window.state?.remaining ?? 0;
  const all = remaining === 1 ? 'the remaining node' : `all ${remaining} remaining nodes`;
  return [
    ['approve', none, `approves ${all}; the limits of the window and of the cluster still apply`],
    [
      'approve',
      code('{"nodes": ["NODE", "NODE"]}'),
      'approves these nodes, if the window requires approval per node',
    ],
  ];
}

function advanceSignals(state: State | undefined): Signal[] {
  const [failed] = state?.failed ?? [];
  const [inProgress] = state?.inProgress ?? [];
  const input = ({ node }: WindowNode) => code(JSON.stringify({ node }));
  return [
    ...(failed === undefined
      ? []
      : [['advance', input(failed), 'resolves the failure and uncordons the node'] as const]),
    ...(inProgress === undefined
      ? []
      : [
          [
            'advance',
            input(inProgress),
            'marks the work as done and uncordons the node when it is ready',
          ] as const,
        ]),
  ];
}

function pauseOrResume(paused: boolean): Signal {
  return paused
    ? ['resume', none, 'starts further nodes']
    : ['pause', none, 'starts no more nodes; nodes in progress continue'];
}

function references({ name }: WindowDetails, state: State | undefined): string[] {
  const failures = `- ${code(`kubectl get mw ${name} -o jsonpath='{.status.progress.failures}'`)} shows why nodes failed`;
  return [
    `- ${code(`kubectl get nm -l ${WINDOW_LABEL}=${name}`)} lists the NodeMaintenances`,
    ...((state?.failed ?? []).length === 0 ? [] : [failures]),
    '- *Request Cancellation* has the effect of `cancel`. After *Terminate*, a new run finishes the nodes in progress',
  ];
}
