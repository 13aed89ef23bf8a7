import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { type Colors, line, type Piece } from '../../cli/screen.ts';
import { maintenanceName, node, spareNodes } from './cast.ts';
import { records, recordsIn } from './migration.ts';

/** One application, as the API shows it. */
export interface TenantState {
  name: string;
  pods: readonly PodState[];
  /** What its Evacuations say, each once. */
  messages: readonly Message[];
}

export interface PodState {
  /** Where it runs, or is made for. */
  node: string;
  state: 'ready' | 'not ready' | 'held';
}

export interface Message {
  /** Of the active evacuator; undefined when it is the eviction API's turn. */
  evacuatorClass: string | undefined;
  text: string;
  /** Of the evacuator: when the pod is to be gone, RFC 3339. */
  expectedFinish: string | undefined;
}

/** With the time of day at which it is expected to be over. */
export function messageText({ text, expectedFinish }: Message): string {
  if (expectedFinish === undefined) return text;
  return `${text} (expected finish ${new Date(expectedFinish).toTimeString().slice(0, 8)})`;
}

/** What the block of a terminal is drawn from. */
export interface Board {
  maintenance: Readonly<NodeMaintenance> | undefined;
  tenants: readonly TenantState[];
  /** Since the maintenance was declared. */
  seconds: number;
}

const nodes = [node, ...spareNodes];
const dots = { ready: '●', 'not ready': '○', held: '◌' } as const;
/** Columns. */
const title = 12;
const cell = 10;
const bar = 24;

/** The block: for each application where its pods are, and who says what about their leaving. */
export function drawBoard({ maintenance, tenants, seconds }: Board, colors: Colors, width: number): string[] {
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
    ...tenants.flatMap((tenant) => tenantRows(tenant, colors)),
    [['   ● ready  ○ not ready  ◌ held by a scheduling gate', dim]],
  ];
  return rows.map((pieces) => line(pieces, width).trimEnd());
}

function tenantRows({ name, pods, messages }: TenantState, colors: Colors): Piece[][] {
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
