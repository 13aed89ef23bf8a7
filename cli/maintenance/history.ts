import type { History } from '@temporalio/common/lib/proto-utils.js';
import type { Command } from 'commander';
import type { KubeObject } from '../../api/core.ts';
import { MAINTENANCE_WINDOW, NODE_MAINTENANCE, type TemporalNames } from '../../api/names.ts';
import type { Kube } from '../../kube/client.ts';
import { isKubeError } from '../../kube/errors.ts';
import { type KubeEvent, type Resource, resources } from '../../kube/resources.ts';
import { retentionSecondsOf } from '../../temporal-config/retention.ts';
import { listRuns } from '../../temporal-config/runs.ts';
import { type ClusterOptions, withCluster } from '../cluster.ts';
import { claimedNames } from '../clusterClaim.ts';
import { outputOption } from '../options.ts';
import { CommandError, duration, formatObject, print, printError, type Structured } from '../output.ts';
import { type Column, table } from '../terminal/table.ts';
import { connectTemporal, type Temporal } from '../temporal.ts';
import { isNameOfWindow, windowName } from '../windowName.ts';
import type { HistoryRow } from './historyRows.ts';
import { maintenanceName } from './maintenances.ts';
import { type AuditedObject, rowsOfObject } from './objectRows.ts';

/** kubectl maintenance history */
export function addHistoryVerb(program: Command): void {
  program
    .command('history')
    .description(
      'show the history of a maintenance or a window: who did what, as long as Temporal, the object and its Events hold it',
    )
    .argument(
      '<name>',
      'name of a NodeMaintenance, or mw/NAME for a MaintenanceWindow; deleted objects are supported',
      parseSubject,
    )
    .addOption(outputOption())
    .action((subject: Subject, _options, command: Command) => show(subject, command.optsWithGlobals()));
}

/** The object of a history, or of a report. */
export interface Subject {
  readonly kind: string;
  readonly name: string;
  readonly resource: Resource;
  /** Returns the query for its runs. */
  readonly queryOf: (names: TemporalNames) => string;
}

export function parseSubject(text: string): Subject {
  if (isNameOfWindow(text)) {
    const name = windowName(text);
    // A Schedule appends the time to the workflow ids of its runs.
    const queryOf = ({ taskQueue }: TemporalNames) =>
      `WorkflowType = "maintenanceWindow" AND NodeMaintenanceName = ${JSON.stringify(name)} AND TaskQueue = "${taskQueue}"`;
    return { kind: MAINTENANCE_WINDOW.kind, name, resource: resources.maintenanceWindows, queryOf };
  }
  const name = maintenanceName(text);
  const queryOf = ({ maintenanceId }: TemporalNames) => `WorkflowId = ${JSON.stringify(maintenanceId(name))}`;
  return { kind: NODE_MAINTENANCE.kind, name, resource: resources.nodeMaintenances, queryOf };
}

/** Everything that is known about the past of an object. `-o json` and `-o yaml` print it whole. */
interface Audit {
  /** The Temporal that was asked, and how long it keeps the histories of closed runs. */
  temporal: { address: string; namespace: string; retentionSeconds: number };
  /** Null if it was deleted. */
  object: KubeObject | null;
  events: readonly KubeEvent[];
  /** All runs that Temporal still has, oldest first: also those of previous objects of the same name. */
  runs: readonly RunSummary[];
  /** Oldest first. */
  items: readonly AuditRow[];
}

export interface RunSummary {
  workflowId: string;
  runId: string;
  status: string;
  startTime: string;
  closeTime?: string;
}

/** `source`: where the row comes from. A row of Temporal has the ids of its run. */
export type AuditRow = HistoryRow & {
  source: 'Temporal' | 'Kubernetes';
  workflowId?: string;
  runId?: string;
};

async function show(
  subject: Subject,
  { output, ...cluster }: { output?: Structured } & ClusterOptions,
): Promise<void> {
  const temporal = await connectTemporal({ command: 'history' });
  try {
    const audit = await withCluster(cluster, (kube) => auditOf(subject, kube, temporal));
    if (output !== undefined) print(formatObject(audit, output));
    else print(table(columns, audit.items));
  } finally {
    await temporal.connection.close();
  }
}

async function auditOf(subject: Subject, kube: Kube, temporal: Temporal): Promise<Audit> {
  const { address, namespace } = temporal;
  const names = await temporal.answered(() => claimedNames(kube, temporal));
  const described = await temporal.answered(() =>
    temporal.client.workflowService.describeNamespace({ namespace }),
  );
  const retentionSeconds = retentionSecondsOf(described);
  const { runs, rows, problems } = await readRuns(temporal, subject.queryOf(names));
  for (const problem of problems) printError(`note: ${problem}`);
  const object = await ifPermitted(`the ${subject.kind}`, kube.get(subject.resource, { name: subject.name }));
  const events = (await ifPermitted('its Events', eventsOf(kube, subject))) ?? [];
  const kept = rowsOfObject(object as AuditedObject | undefined, events);
  const title = `${subject.kind} "${subject.name}"`;
  const where = `Temporal namespace ${namespace} at ${address}`;
  const keeps = `which keeps the history of a closed run for ${duration(retentionSeconds * 1_000)}`;
  if (runs.length === 0 && kept.length === 0)
    throw new CommandError(
      `nothing is left of ${title}: ${where}, ${keeps}, has no run of it, and the cluster has neither the object nor an Event of it. Check the name, TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE. To keep histories, raise the retention (temporal operator namespace update --namespace ${namespace} --retention 90d), archive them in Temporal, or export them in time: kubectl maintenance history NAME -o json`,
    );
  const lost = lostRows(subject, kept, runs);
  if (lost.length > 0)
    printError(
      runs.length === 0
        ? `note: ${where}, ${keeps}, has no run of ${title} any more: this is what the object and its Events hold`
        : `note: ${where}, ${keeps}, has no run of ${title} before ${runs[0]?.startTime}: earlier lines are what the object and its Events hold`,
    );
  const items = [...lost.map((row) => ({ ...row, source: 'Kubernetes' as const })), ...rows];
  return { temporal: { address, namespace, retentionSeconds }, object: object ?? null, events, runs, items };
}

/** A run starts within this time after its object was created, unless there is no worker. */
const startsWithinMs = 60_000;

/** Returns the rows of the object that no history contains any more. A window has no run until it opens. */
function lostRows(
  { kind }: Subject,
  kept: readonly HistoryRow[],
  [first]: readonly RunSummary[],
): readonly HistoryRow[] {
  if (first === undefined) return kept;
  if (kind === MAINTENANCE_WINDOW.kind) return [];
  return kept.filter(({ time }) => Date.parse(time) < Date.parse(first.startTime) - startsWithinMs);
}

/**
 * Reads all runs: continued as new, restarted after a termination, one per opening of a window, and of previous objects of the same name. Calls
 * `onHistory` with each decoded history. Temporal must answer each request soon, but there may be many of them.
 */
export async function readRuns(
  { client, dataConverter, answered }: Temporal,
  query: string,
  onHistory?: (run: RunSummary, history: History) => void,
): Promise<{ runs: RunSummary[]; rows: AuditRow[]; problems: string[] }> {
  // Import the payload decoder, which no other command needs.
  const [{ rowsOf }, { decodeHistory }] = await Promise.all([
    import('./historyRows.ts'),
    import('./decodedHistory.ts'),
  ]);
  const runs: RunSummary[] = [];
  await answered(async () => {
    for await (const { workflowId, runId, status, startTime, closeTime } of listRuns(client, query))
      runs.push({
        workflowId,
        runId,
        status,
        startTime: startTime.toISOString(),
        ...(closeTime && { closeTime: closeTime.toISOString() }),
      });
  });
  runs.sort((a, b) => Date.parse(a.startTime) - Date.parse(b.startTime));
  const rows: AuditRow[] = [];
  const problems = new Set<string>();
  for (const run of runs) {
    const { workflowId, runId } = run;
    const handle = client.workflow.getHandle(workflowId, runId);
    const history = await answered(() => handle.fetchHistory());
    for (const problem of await decodeHistory(history, dataConverter)) problems.add(problem);
    onHistory?.(run, history);
    rows.push(...rowsOf(history).map((row) => ({ ...row, source: 'Temporal' as const, workflowId, runId })));
  }
  return { runs, rows, problems: [...problems] };
}

/** The Events of cluster-scoped objects are in namespace `default`. Those of a deleted object stay until they expire. */
export async function eventsOf(kube: Kube, { kind, name }: Subject): Promise<KubeEvent[]> {
  const fieldSelector = `involvedObject.kind=${kind},involvedObject.name=${name}`;
  return (await kube.list(resources.events, { namespace: 'default', fieldSelector })).items;
}

/** The history in Temporal is worth printing without what the user may not read. */
async function ifPermitted<T>(what: string, read: Promise<T>): Promise<T | undefined> {
  try {
    return await read;
  } catch (error) {
    if (!isKubeError(error, 'Forbidden')) throw error;
    printError(`note: ${what} could not be read: bind the ClusterRole node-maintenance-view`);
    return undefined;
  }
}

const columns: Column<AuditRow>[] = [
  // Truncated to seconds; -o json prints the full precision.
  { title: 'TIME', cell: ({ time }) => time.replace(/\.\d+Z$/, 'Z') },
  { title: 'WHO', cell: ({ who }) => who ?? '<unknown>' },
  { title: 'WHAT', cell: ({ what }) => what },
];
