import { type Command, Option } from 'commander';
import type { ProcessSummary, TemporalWorker } from '../../domain/leases/processSummary.ts';
import { errorMessage } from '../../kube/errors.ts';
import { withRemedy } from '../../node-lease/remedy.ts';
import { type ClusterOptions, withCluster } from '../cluster.ts';
import { installationOf } from '../installation.ts';
import { namespaceOption } from '../options.ts';
import { age, ago, formatList, print, printError, escapeForTerminal, type Structured } from '../output.ts';
import { type Column, table } from '../terminal/table.ts';
import { type Polls, pollersOf } from './taskQueues.ts';

interface WorkersOptions extends ClusterOptions {
  readonly namespace: string;
  readonly output?: Structured;
}

/** `polls` is undefined if the process is not a Temporal worker, its Lease has expired, or Temporal is unavailable. */
type Row = ProcessSummary & { readonly polls?: Polls };

/** kubectl maintenance workers */
export function addWorkersVerb(program: Command): void {
  program
    .command('workers')
    .description('list the processes of the installation: state, leader and polled task queues')
    .addOption(namespaceOption())
    .addOption(new Option('-o, --output <format>').choices(['json', 'yaml']))
    .action((_options, command: Command) => show(command.optsWithGlobals()));
}

const remedy = 'bind the ClusterRole node-maintenance-view';

async function show({ namespace, output, ...cluster }: WorkersOptions): Promise<void> {
  await withCluster(cluster, async (kube) => {
    const { processes, leader } = await withRemedy(installationOf(kube, namespace), remedy);
    if (leader !== undefined && !processes.some((one) => one.leader))
      printError(
        `warning: the leader of the controllers, ${escapeForTerminal(leader)}, publishes no identity Lease: it runs with --identity-leases false, or is of another release`,
      );
    const rows = await withPolls(processes);
    if (output !== undefined) print(formatList(rows, output));
    else if (rows.length === 0) printError(noProcesses(namespace));
    else print(table(columns(kube.now().getTime()), rows));
  });
}

function noProcesses(namespace: string): string {
  return `No process publishes an identity Lease in namespace ${namespace}: none runs for it, or all run with --identity-leases false.`;
}

/** Adds the polls; without Temporal the other columns are printed. */
async function withPolls(processes: readonly ProcessSummary[]): Promise<Row[]> {
  try {
    const { pollsOf, problems } = await pollersOf(processes.flatMap((one) => temporalOf(one) ?? []));
    for (const problem of problems) printError(`warning: ${problem}`);
    return processes.map((one) => {
      const worker = temporalOf(one);
      const polls = worker && pollsOf(worker);
      return polls === undefined ? one : { ...one, polls };
    });
  } catch (error) {
    printError(`warning: ${errorMessage(error)}; TASK QUEUE is unknown`);
    return [...processes];
  }
}

/** An expired process does not poll, and its namespace may not exist any more. */
function temporalOf({ state, temporal }: ProcessSummary): TemporalWorker | undefined {
  return state === 'Expired' ? undefined : temporal;
}

/** Printed prefix length of the unique part of a holder. */
const holderPrefixLength = 8;

function columns(now: number): Column<Row>[] {
  return [
    { title: 'COMPONENT', cell: ({ component }) => component },
    { title: 'HOST', cell: ({ host }) => host },
    {
      title: 'HOLDER',
      cell: ({ holder }) => holder.slice(holder.lastIndexOf('_') + 1).slice(0, holderPrefixLength),
    },
    { title: 'STATE', cell: ({ state }) => state },
    { title: 'RENEWED', cell: ({ renewTime }) => age(earlier(renewTime, now), now) },
    { title: 'LEADER', cell: ({ leader }) => (leader ? 'yes' : 'no') },
    { title: 'TASK QUEUE', cell: (row) => polling(row, now) },
    { title: 'VERSION', cell: ({ version }) => version },
  ];
}

/** The clock of Temporal, or of the process, may be ahead of that of the apiserver. */
function earlier(time: string | undefined, now: number): string | undefined {
  return Date.parse(time ?? '') > now ? new Date(now).toISOString() : time;
}

function polling(row: Row, now: number): string | undefined {
  const { polls } = row;
  const temporal = temporalOf(row);
  if (temporal === undefined) return undefined;
  if (polls === undefined) return '<unknown>';
  const { workflow, activity, longRunning } = polls;
  const kinds = Object.entries({ workflow, activity }).flatMap(([kind, at]) =>
    at === undefined ? [] : [`${kind} ${ago(earlier(at, now), now)}`],
  );
  if (kinds.length === 0) return `${temporal.taskQueue}: not polled`;
  const missing = longRunning === undefined ? ['long-running not polled'] : [];
  return `${temporal.taskQueue}: ${[...kinds, ...missing].join(', ')}`;
}
