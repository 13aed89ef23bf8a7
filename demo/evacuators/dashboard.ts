import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { type Colors, line, type Piece } from '../../cli/terminal/screen.ts';
import { maintenanceName, node, spareNodes } from './fixtures.ts';
import { records, recordsIn } from './migration.ts';

/** The state of one application, as the API shows it. */
export interface ApplicationState {
  name: string;
  pods: readonly PodState[];
  /** Messages of its Evacuations, without duplicates. */
  messages: readonly Message[];
}

export interface PodState {
  /** The node that the pod runs on or, while it is gated, that it was created for. */
  node: string;
  state: 'ready' | 'not ready' | 'gated';
}

export interface Message {
  /** The active evacuator; undefined when the pod is evicted. */
  evacuatorClass: string | undefined;
  text: string;
  /** Time at which the evacuator expects the pod to be gone (RFC 3339). */
  expectedFinish: string | undefined;
}

/** Returns the message with the time of day at which the evacuation is expected to finish. */
export function messageText({ text, expectedFinish }: Message): string {
  if (expectedFinish === undefined) return text;
  return `${text} (expected finish ${new Date(expectedFinish).toTimeString().slice(0, 8)})`;
}

/** The data of the dashboard, which is a block of a terminal that is redrawn. */
export interface Dashboard {
  maintenance: Readonly<NodeMaintenance> | undefined;
  applications: readonly ApplicationState[];
  /** Time since the maintenance was created. */
  seconds: number;
}

const nodes = [node, ...spareNodes];
const dots = { ready: '●', 'not ready': '○', gated: '◌' } as const;
/** Widths in columns. */
const title = 12;
const cell = 10;
const bar = 24;

/** Draws the nodes of the pods and the messages of the Evacuations of each application. */
export function drawDashboard(
  { maintenance, applications, seconds }: Dashboard,
  colors: Colors,
  width: number,
): string[] {
  const { bold, cyan, dim } = colors;
  const status = maintenance?.status?.nodeStatuses.find(({ nodeRef }) => nodeRef.name === node);
  const rows: Piece[][] = [
    [],
    [
      [`   NodeMaintenance ${maintenanceName} `, bold],
      [maintenance?.spec.stage ?? '', cyan],
      [`  ${seconds.toFixed(0)} s  ${status?.drainMessage ?? ''}`, dim],
    ],
    [['   '.padEnd(title + 3)], ...nodes.map((name): Piece => [name.padEnd(cell), dim])],
    ...applications.flatMap((application) => applicationRows(application, colors)),
    [['   ● ready  ○ not ready  ◌ scheduling gated', dim]],
  ];
  return rows.map((pieces) => line(pieces, width).trimEnd());
}

function applicationRows({ name, pods, messages }: ApplicationState, colors: Colors): Piece[][] {
  const cells = nodes.map((where): Piece => {
    const here = pods.filter((pod) => pod.node === where).map(({ state }) => dots[state]);
    return [here.join('').padEnd(cell), colors.green];
  });
  return [
    [[`   ${name.padEnd(title)}`, colors.bold], ...cells],
    ...messages.map((message) => messageRow(message, colors)),
  ];
}

function messageRow(message: Message, colors: Colors): Piece[] {
  const { evacuatorClass } = message;
  const copied = recordsIn(message.text);
  const filled = Math.round(((copied ?? 0) / records) * bar);
  return [
    [' '.repeat(title + 3)],
    ...(copied === undefined
      ? []
      : [
          ['█'.repeat(filled), colors.green] as const,
          [`${'░'.repeat(bar - filled)}  `, colors.dim] as const,
        ]),
    [messageText(message), evacuatorClass === undefined ? colors.yellow : colors.reset],
    [evacuatorClass === undefined ? '' : `  ${evacuatorClass}`, colors.cyan],
  ];
}
