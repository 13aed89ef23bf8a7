import { type Command, InvalidArgumentError, Option } from 'commander';
import { COMPONENT_LABEL, SYSTEM_NAMESPACE } from '../api/names.ts';
import { leaderOf, type ProcessSummary, processOf, type TemporalWorker } from '../domain/processSummary.ts';
import type { Kube } from '../kube/client.ts';
import { wordsOf } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import { withRemedy } from '../node-lease/remedy.ts';
import { type ClusterOptions, withCluster } from './cluster.ts';
import { age, type Column, complain, say, shown, type Structured, structured, table } from './output.ts';
import { type Polls, pollersOf } from './taskQueues.ts';

interface WorkersOptions extends ClusterOptions {
  readonly namespace: string;
  readonly output?: Structured;
}

/** `polls` is missing for what is no Temporal worker, or is gone, and where Temporal did not tell. */
type Row = ProcessSummary & { readonly polls?: Polls };

/** kubectl maintenance workers */
export function addWorkersVerb(program: Command): void {
  program
    .command('workers')
    .description(
      'show the processes of the installation: which live, which leads, and who asks Temporal for work',
    )
    .option('-n, --namespace <name>', 'of the installation', namespaceName, SYSTEM_NAMESPACE)
    .addOption(new Option('-o, --output <format>').choices(['json', 'yaml']))
    .action((_options, command: Command) => show(command.optsWithGlobals()));
}

function namespaceName(name: string): string {
  const isName = name.length <= 63 && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(name);
  if (!isName) throw new InvalidArgumentError('expected the name of a namespace');
  return name;
}

const remedy = 'bind the ClusterRole node-maintenance-operator';

async function show({ namespace, output, ...cluster }: WorkersOptions): Promise<void> {
  await withCluster(cluster, async (kube) => {
    const { processes, leader } = await withRemedy(installationOf(kube, namespace), remedy);
    if (leader !== undefined && !processes.some((one) => one.leader))
      complain(`warning: the control loops are led by ${shown(leader)}, which is none of these processes`);
    const rows = await withPolls(processes);
    if (output !== undefined) say(structured(rows, output));
    else if (rows.length === 0) complain(`No processes found in namespace ${namespace}.`);
    else say(table(columns(kube.now().getTime()), rows));
  });
}

interface Installation {
  readonly processes: readonly ProcessSummary[];
  /** Whom the Lease of the control loops names. */
  readonly leader: string | undefined;
}

async function installationOf(kube: Kube, namespace: string): Promise<Installation> {
  const [{ items }, election] = await Promise.all([
    kube.list(resources.leases, { namespace, labelSelector: COMPONENT_LABEL }),
    kube.get(resources.leases, { namespace, name: 'node-maintenance-controllers' }),
  ]);
  const now = kube.now();
  const leader = leaderOf(election, now);
  const processes = items
    .map((lease) => processOf(lease, leader, now))
    .toSorted((a, b) => orderOf(a).localeCompare(orderOf(b)));
  return { processes, leader };
}

function orderOf({ component, host, holder }: ProcessSummary): string {
  return [component, host, holder].join(' ');
}

/** Without Temporal the rest is told all the same. */
async function withPolls(processes: readonly ProcessSummary[]): Promise<Row[]> {
  try {
    const { pollsOf, problems } = await pollersOf(processes.flatMap((one) => asked(one) ?? []));
    for (const problem of problems) complain(`warning: ${problem}`);
    return processes.map((one) => {
      const worker = asked(one);
      const polls = worker && pollsOf(worker);
      return polls === undefined ? one : { ...one, polls };
    });
  } catch (error) {
    complain(`warning: ${wordsOf(error)}; TASK QUEUE is not known`);
    return [...processes];
  }
}

/** Who is gone polls no more, and its namespace may be gone too. */
function asked({ state, temporal }: ProcessSummary): TemporalWorker | undefined {
  return state === 'Expired' ? undefined : temporal;
}

/** As much of a holder as tells one from another. */
const shortHolder = 8;

function columns(now: number): Column<Row>[] {
  return [
    { title: 'COMPONENT', cell: ({ component }) => component },
    { title: 'HOST', cell: ({ host }) => host },
    {
      title: 'HOLDER',
      cell: ({ holder }) => holder.slice(holder.lastIndexOf('_') + 1).slice(0, shortHolder),
    },
    { title: 'STATE', cell: ({ state }) => state },
    { title: 'RENEWED', cell: ({ renewTime }) => age(renewTime, now) },
    { title: 'LEADER', cell: ({ leader }) => (leader ? 'yes' : 'no') },
    { title: 'TASK QUEUE', cell: (row) => polling(row, now) },
    { title: 'VERSION', cell: ({ version }) => version },
  ];
}

function polling(row: Row, now: number): string | undefined {
  const { polls } = row;
  const temporal = asked(row);
  if (temporal === undefined) return undefined;
  if (polls === undefined) return '<unknown>';
  const kinds = Object.entries(polls).map(([kind, at]) => `${kind} ${age(at as string, now)} ago`);
  return `${temporal.taskQueue}: ${kinds.length === 0 ? 'not polled' : kinds.join(', ')}`;
}
