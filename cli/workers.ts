import { type Command, InvalidArgumentError, Option } from 'commander';
import { COMPONENT_LABEL, SYSTEM_NAMESPACE } from '../api/names.ts';
import { type ProcessSummary, processOf } from '../domain/processSummary.ts';
import type { Kube } from '../kube/client.ts';
import { wordsOf } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import { withRemedy } from '../node-lease/remedy.ts';
import { type ClusterOptions, withCluster } from './cluster.ts';
import { age, type Column, complain, say, type Structured, structured, table } from './output.ts';
import { type Polls, pollersOf } from './taskQueues.ts';

interface WorkersOptions extends ClusterOptions {
  readonly namespace: string;
  readonly output?: Structured;
}

/** `polls` is missing for what is no Temporal worker, and where Temporal did not answer. */
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
    const processes = await withRemedy(processesOf(kube, namespace), remedy);
    const rows = await withPolls(processes);
    if (output !== undefined) say(structured(rows, output));
    else if (rows.length === 0) complain(`No processes found in namespace ${namespace}.`);
    else say(table(columns(kube.now().getTime()), rows));
  });
}

async function processesOf(kube: Kube, namespace: string): Promise<ProcessSummary[]> {
  const [{ items }, election] = await Promise.all([
    kube.list(resources.leases, { namespace, labelSelector: COMPONENT_LABEL }),
    kube.get(resources.leases, { namespace, name: 'node-maintenance-controllers' }),
  ]);
  const now = kube.now();
  return items
    .map((lease) => processOf(lease, election, now))
    .toSorted((a, b) => orderOf(a).localeCompare(orderOf(b)));
}

function orderOf({ component, host, holder }: ProcessSummary): string {
  return [component, host, holder].join(' ');
}

/** Without Temporal the rest is told all the same. */
async function withPolls(processes: readonly ProcessSummary[]): Promise<Row[]> {
  try {
    const pollsOf = await pollersOf(processes.flatMap(({ temporal }) => temporal ?? []));
    return processes.map((one) => {
      const polls = one.temporal && pollsOf(one.temporal);
      return polls === undefined ? one : { ...one, polls };
    });
  } catch (error) {
    complain(`warning: ${wordsOf(error)}; TASK QUEUE is not known`);
    return [...processes];
  }
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

function polling({ temporal, polls }: Row, now: number): string | undefined {
  if (temporal === undefined) return undefined;
  if (polls === undefined) return '<unknown>';
  const kinds = Object.entries(polls).map(([kind, at]) => `${kind} ${age(at as string, now)} ago`);
  return `${temporal.taskQueue}: ${kinds.length === 0 ? 'not polled' : kinds.join(', ')}`;
}
