import { code, fitted, plain, runLink, section, table, utc } from './markdown.ts';

/** The turn of a node, with the name of its NodeMaintenance. */
interface PagedTurn {
  node: string;
  maintenance: string;
}

/** An open window as its run knows it. */
export interface PagedWindow {
  name: string;
  /** RFC 3339; `end` is when no further node begins. */
  start: string;
  end: string;
  ended: boolean;
  cancelled: boolean;
  paused: boolean;
  approved: boolean;
  approvedNodes: readonly string[];
  /** Missing until the nodes were counted. */
  state?: {
    revision: string;
    nodes: number;
    done: number;
    underWay: readonly PagedTurn[];
    failed: readonly PagedTurn[];
    remaining: number;
    waiting?: { reason: string; message: string };
  };
}

type State = NonNullable<PagedWindow['state']>;

const rowsShown = 20;
/** Of the ids of maintenances' runs, as api/names.ts has it. */
const runPrefix = 'node-maintenance-';

/** The page that the Temporal UI shows for an open window: where it stands, whom it waits for, and what a message would do. Markdown. */
export function windowPage(window: PagedWindow): string {
  const { state } = window;
  return fitted(rowsShown, (rows) => [
    `### ${headline(window)}`,
    '',
    ...facts(window),
    ...section('Turns', turnLines(window, rows)),
    ...section('What you can do now', orders(window)),
    ...section('See also', elsewhere(window, state)),
  ]);
}

function headline(window: PagedWindow): string {
  const { ended, cancelled, paused, state, end } = window;
  if (cancelled) return 'Cancelled: the window ends, nodes are given back';
  if (ended) return 'Over: no further node begins';
  if (awaitsApproval(window)) return 'Waiting for approval';
  if (paused) return 'Paused: no further node begins';
  if (state?.waiting?.reason === 'TooManyFailures') return 'Stopped: too many turns have failed';
  return `Open until ${utc(end)}`;
}

function awaitsApproval({ state }: PagedWindow): boolean {
  return state?.waiting?.reason === 'ApprovalNeeded';
}

function facts(window: PagedWindow): string[] {
  const { name, start, end, state, approved, approvedNodes } = window;
  const rows = [
    ['MaintenanceWindow', code(name)],
    ['Open', `${utc(start)} to ${utc(end)}`],
    ['Now', now(window)],
    ['Nodes', state === undefined ? 'not counted yet' : counts(state)],
    ...(approved ? [['Approved', 'the whole window']] : []),
    ...(!approved && approvedNodes.length > 0 ? [['Approved', named(approvedNodes)]] : []),
  ];
  return rows.map(([label, text]) => `- **${label}:** ${text}`);
}

function now({ cancelled, paused, state }: PagedWindow): string {
  if (cancelled) return 'nodes whose work is not done are given back';
  if (state?.waiting !== undefined) return plain(state.waiting.message, 600);
  return paused ? 'turns under way go on, and no further one begins' : 'nodes have their turn';
}

function counts({ nodes, done, underWay, failed, remaining }: State): string {
  const failures = failed.length === 0 ? '' : `, **${failed.length} failed**`;
  return `${done} of ${nodes} done, ${underWay.length} under way${failures}, ${remaining} left`;
}

function named(nodes: readonly string[]): string {
  const shown = nodes.slice(0, rowsShown).map(code).join(', ');
  return nodes.length > rowsShown ? `${shown} and ${nodes.length - rowsShown} more` : shown;
}

/** Failed ones first: they wait for somebody. */
function turnLines({ state }: PagedWindow, shown: number): string[] {
  if (state === undefined) return [];
  const turns = [
    ...state.failed.map((turn) => [turn, '**failed**'] as const),
    ...state.underWay.map((turn) => [turn, 'under way'] as const),
  ];
  const rows = turns
    .slice(0, shown)
    .map(([{ node, maintenance }, how]) => [
      code(node),
      how,
      runLink(maintenance, `${runPrefix}${maintenance}`),
    ]);
  const more = turns.length - rows.length;
  return [
    ...table(['Node', 'Turn', 'NodeMaintenance'], rows),
    ...(more === 0 ? [] : ['', `and ${more} more turns`]),
  ];
}

/** Name, input, and what it would do in this very state. */
type Order = readonly [name: string, input: string, effect: string];

const none = 'none';

function orders(window: PagedWindow): string[] {
  const possible = ordersIn(window).map(([name, input, effect]) => [code(name), input, effect]);
  if (possible.length === 0) return ['Nothing: the window ends by itself.'];
  return table(['Signal', 'Input', 'What it does now'], possible);
}

function ordersIn(window: PagedWindow): Order[] {
  const { ended, cancelled, paused, state } = window;
  if (cancelled) return [];
  return [
    ...(ended ? [] : approvals(window)),
    ...turnOrders(state),
    ...(ended ? [] : [pauseOrResume(paused)]),
    ['cancel', none, 'ends the window, and gives back the nodes whose work is not done'],
  ];
}

function approvals(window: PagedWindow): Order[] {
  const { state } = window;
  if (!awaitsApproval(window)) return [];
  const remaining = state?.remaining ?? 0;
  return [
    [
      'approve',
      none,
      `lets all ${remaining} nodes that are left have their turn, as many at once as the rules allow`,
    ],
    [
      'approve',
      code('{"nodes": ["NODE", "NODE"]}'),
      'lets these nodes have their turn, where each is approved by itself',
    ],
  ];
}

function turnOrders(state: State | undefined): Order[] {
  const [failed] = state?.failed ?? [];
  const [underWay] = state?.underWay ?? [];
  const input = ({ node }: PagedTurn) => code(JSON.stringify({ node }));
  return [
    ...(failed === undefined
      ? []
      : [['advance', input(failed), 'ends the turn that failed, and gives the node back'] as const]),
    ...(underWay === undefined
      ? []
      : [
          [
            'advance',
            input(underWay),
            'the work on the node is done, or need not be done: gives it back',
          ] as const,
        ]),
  ];
}

function pauseOrResume(paused: boolean): Order {
  return paused
    ? ['resume', none, 'lets further nodes begin']
    : ['pause', none, 'lets no further node begin; turns under way go on'];
}

function elsewhere({ name }: PagedWindow, state: State | undefined): string[] {
  const failures = `- ${code(`kubectl get mw ${name} -o jsonpath='{.status.progress.failures}'`)} says why turns failed`;
  return [
    `- ${code(`kubectl get nm -l nodemaintenance.k8s.io/window=${name}`)} lists the turns`,
    ...((state?.failed ?? []).length === 0 ? [] : [failures]),
    '- *Request Cancellation* does what `cancel` does. After *Terminate* a new run sees the turns under way through',
  ];
}
