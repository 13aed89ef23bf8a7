import type { Command } from 'commander';
import type { TemporalNames } from '../../api/names.ts';
import { type ClusterOptions, withCluster } from '../cluster.ts';
import { claimedNames } from '../clusterClaim.ts';
import { maintenanceName } from './maintenances.ts';
import type { HistoryRow } from './historyRows.ts';
import { outputOption } from '../options.ts';
import { formatList, print, CommandError, type Structured } from '../output.ts';
import { type Column, table } from '../terminal/table.ts';
import { connectTemporal, type Temporal } from '../temporal.ts';
import { isNameOfWindow, windowName } from '../windowName.ts';

/** kubectl maintenance history */
export function addHistoryVerb(program: Command): void {
  program
    .command('history')
    .description(
      'show the history of a maintenance or a window: who did what, as long as Temporal retains it',
    )
    .argument(
      '<name>',
      'name of a NodeMaintenance, or mw/NAME for a MaintenanceWindow; deleted objects are supported',
      parseSubject,
    )
    .addOption(outputOption())
    .action((subject: Subject, _options, command: Command) => show(subject, command.optsWithGlobals()));
}

/** The object of the history. */
interface Subject {
  readonly title: string;
  /** Returns the query for its runs. */
  readonly queryOf: (names: TemporalNames) => string;
}

function parseSubject(text: string): Subject {
  if (isNameOfWindow(text)) {
    const name = windowName(text);
    // A Schedule appends the time to the workflow ids of its runs.
    const queryOf = ({ taskQueue }: TemporalNames) =>
      `WorkflowType = "maintenanceWindow" AND NodeMaintenanceName = ${JSON.stringify(name)} AND TaskQueue = "${taskQueue}"`;
    return { title: `MaintenanceWindow "${name}"`, queryOf };
  }
  const name = maintenanceName(text);
  return {
    title: `NodeMaintenance "${name}"`,
    queryOf: ({ maintenanceId }) => `WorkflowId = ${JSON.stringify(maintenanceId(name))}`,
  };
}

async function show(
  subject: Subject,
  { output, ...cluster }: { output?: Structured } & ClusterOptions,
): Promise<void> {
  const temporal = await connectTemporal();
  try {
    const names = await withCluster(cluster, (kube) => claimedNames(kube, temporal));
    const rows = await rowsOfAllRuns(temporal, subject, names);
    print(output === undefined ? table(columns, rows) : formatList(rows, output));
  } finally {
    await temporal.connection.close();
  }
}

/** Reads all runs: continued as new, restarted after a termination, one per opening of a window, and of previous objects of the same name. */
async function rowsOfAllRuns(
  { client, namespace, address }: Temporal,
  { title, queryOf }: Subject,
  names: TemporalNames,
): Promise<HistoryRow[]> {
  // Imports the payload decoder, which no other command needs.
  const { rowsOf } = await import('./historyRows.ts');
  const runs: { workflowId: string; runId: string; startTime: Date }[] = [];
  for await (const run of client.workflow.list({ query: queryOf(names) })) runs.push(run);
  if (runs.length === 0)
    throw new CommandError(
      `namespace ${namespace} of Temporal at ${address} has no run of ${title}, or its retention has expired: check the name, TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE`,
    );
  const rows: HistoryRow[] = [];
  for (const { workflowId, runId } of runs.toSorted((a, b) => Number(a.startTime) - Number(b.startTime)))
    rows.push(...rowsOf(await client.workflow.getHandle(workflowId, runId).fetchHistory()));
  return rows;
}

const columns: Column<HistoryRow>[] = [
  // Truncated to seconds; -o json prints the full precision.
  { title: 'TIME', cell: ({ time }) => time.replace(/\.\d+Z$/, 'Z') },
  { title: 'WHO', cell: ({ who }) => who ?? '<unknown>' },
  { title: 'WHAT', cell: ({ what }) => what },
];
