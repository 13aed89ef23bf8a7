import type { Command } from 'commander';
import { workflowIdOf } from '../api/names.ts';
import { maintenanceName } from './maintenances.ts';
import type { HistoryRow } from './historyRows.ts';
import { outputOption } from './options.ts';
import { type Column, Refusal, say, type Structured, structured, table } from './output.ts';
import { connectTemporal, type Temporal } from './temporal.ts';
import { isNameOfWindow, windowName } from './windowObjects.ts';

/** kubectl maintenance history */
export function addHistoryVerb(program: Command): void {
  program
    .command('history')
    .description('show who did what to a maintenance or a window, for as long as Temporal keeps it')
    .argument('<name>', 'of a NodeMaintenance, or mw/NAME of a MaintenanceWindow; it may be gone', subject)
    .addOption(outputOption())
    .action((of: Subject, _options, command: Command) => show(of, command.optsWithGlobals()));
}

/** What it is the history of, and which runs of Temporal are its. */
interface Subject {
  readonly title: string;
  readonly query: string;
}

function subject(text: string): Subject {
  if (isNameOfWindow(text)) {
    const name = windowName(text);
    // A Schedule adds the time to the ids of its runs.
    const query = `WorkflowType = "maintenanceWindow" AND NodeMaintenanceName = ${JSON.stringify(name)}`;
    return { title: `MaintenanceWindow "${name}"`, query };
  }
  const name = maintenanceName(text);
  return {
    title: `NodeMaintenance "${name}"`,
    query: `WorkflowId = ${JSON.stringify(workflowIdOf(name))}`,
  };
}

async function show(of: Subject, { output }: { output?: Structured }): Promise<void> {
  const temporal = await connectTemporal();
  try {
    const rows = await rowsOfAllRuns(temporal, of);
    say(output === undefined ? table(columns, rows) : structured(rows, output));
  } finally {
    await temporal.connection.close();
  }
}

/** There may be several runs: continued as new, started anew after one was terminated, each time that a window opened, and of namesakes. */
async function rowsOfAllRuns(
  { client, namespace, address }: Temporal,
  { title, query }: Subject,
): Promise<HistoryRow[]> {
  // It brings what decodes payloads, which no other verb needs.
  const { rowsOf } = await import('./historyRows.ts');
  const runs: { workflowId: string; runId: string; startTime: Date }[] = [];
  for await (const run of client.workflow.list({ query })) runs.push(run);
  if (runs.length === 0)
    throw new Refusal(
      `namespace ${namespace} of Temporal at ${address} has no run of ${title}, or keeps it no longer: check the name, TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE`,
    );
  const rows: HistoryRow[] = [];
  for (const { workflowId, runId } of runs.toSorted((a, b) => Number(a.startTime) - Number(b.startTime)))
    rows.push(...rowsOf(await client.workflow.getHandle(workflowId, runId).fetchHistory()));
  return rows;
}

const columns: Column<HistoryRow>[] = [
  // Whole seconds are enough for people; -o json has all of it.
  { title: 'TIME', cell: ({ time }) => time.replace(/\.\d+Z$/, 'Z') },
  { title: 'WHO', cell: ({ who }) => who ?? '<unknown>' },
  { title: 'WHAT', cell: ({ what }) => what },
];
