import type { Command } from 'commander';
import type { KubeObject } from '../../api/core.ts';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { FIELD_MANAGER, MAINTENANCE_WINDOW } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { isCompleted } from '../../domain/common/stage.ts';
import { evacuationsByPod } from '../../domain/evacuation/evacuation.ts';
import { mayHaveRequests } from '../../domain/evacuation/serving.ts';
import { maintenanceReport } from '../../domain/report/maintenanceReport.ts';
import type { RecordedAction } from '../../domain/report/parts.ts';
import type { LeavingPod, PodEvent } from '../../domain/report/podRows.ts';
import { nodesIn, type RecordedRun, runsOfObject } from '../../domain/report/recorded.ts';
import type { Report } from '../../domain/report/report.ts';
import { windowReport } from '../../domain/report/windowReport.ts';
import { windowMaintenancesOf } from '../../domain/windows/windowMaintenance.ts';
import type { Kube } from '../../kube/client.ts';
import { errorMessage, isKubeError } from '../../kube/errors.ts';
import { type KubeEvent, type RawPod, resources } from '../../kube/resources.ts';
import { trimPod } from '../../kube/transform.ts';
import { readWindowMaintenances } from '../../kube/windowObjects.ts';
import { type ClusterOptions, withCluster } from '../cluster.ts';
import { claimedNames } from '../clusterClaim.ts';
import { readRequests } from '../maintenance/evictionRequests.ts';
import { type AuditRow, eventsOf, parseSubject, readRuns, type Subject } from '../maintenance/history.ts';
import { type AuditedObject, rowsOfObject } from '../maintenance/objectRows.ts';
import { outputOption } from '../options.ts';
import { CommandError, formatObject, print, printError, type Structured } from '../output.ts';
import { connectTemporal } from '../temporal.ts';

/** kubectl maintenance report */
export function addReportVerb(program: Command): void {
  program
    .command('report')
    .description(
      'print a page in HTML that shows a maintenance or the newest opening of a window: its times, what blocked it, and who did what',
    )
    .argument(
      '<name>',
      'name of a NodeMaintenance, or mw/NAME for a MaintenanceWindow; deleted objects are supported',
      parseSubject,
    )
    .addOption(outputOption().default(undefined, 'HTML'))
    .action((subject: Subject, _options, command: Command) => show(subject, command.optsWithGlobals()));
}

async function show(
  subject: Subject,
  { output, ...cluster }: { output?: Structured } & ClusterOptions,
): Promise<void> {
  const report = await withCluster(cluster, (kube) => reportOf(subject, kube));
  if (output !== undefined) return print(formatObject(report, output));
  // Imported on demand: most commands draw no charts.
  const { reportPage } = await import('./page.ts');
  print(reportPage(report));
}

async function reportOf(subject: Subject, kube: Kube): Promise<Report> {
  const unread: string[] = [];
  const recorded = await readHistory(subject, kube, unread);
  const object = await ifPermitted(
    `the ${subject.kind}`,
    kube.get(subject.resource, { name: subject.name }),
    unread,
  );
  const uid = object?.metadata.uid;
  const found = (await ifPermitted('its Events', eventsOf(kube, subject), unread)) ?? [];
  const events = found.filter(({ involvedObject }) => uid === undefined || involvedObject.uid === uid);
  if (object === undefined && events.length === 0 && (recorded?.runs.length ?? 0) === 0)
    throw new CommandError(
      `nothing is known of ${subject.kind} "${subject.name}": neither the object nor an Event of it exists${recorded === undefined ? '' : ', and Temporal has no run of it'}; check the name, the kubeconfig context, TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE`,
    );
  const facts = { subject, kube, object, events, runs: recorded?.runs, unread };
  const actions = actionsOf(facts, recorded?.rows ?? []);
  const report = await (subject.kind === MAINTENANCE_WINDOW.kind
    ? reportOfWindow(facts, actions)
    : reportOfMaintenance(facts, actions));
  for (const text of unread) printError(`note: ${text}`);
  return report;
}

interface Facts {
  readonly subject: Subject;
  readonly kube: Kube;
  readonly object: KubeObject | undefined;
  readonly events: readonly KubeEvent[];
  readonly runs: readonly RecordedRun[] | undefined;
  readonly unread: string[];
}

interface Recorded {
  readonly runs: readonly RecordedRun[];
  readonly rows: readonly AuditRow[];
}

/** A report without the history is worth making: the object and its Events say much of it. */
async function readHistory(subject: Subject, kube: Kube, unread: string[]): Promise<Recorded | undefined> {
  try {
    const temporal = await connectTemporal({ command: 'the history' });
    try {
      const names = await temporal.answered(() => claimedNames(kube, temporal));
      const { recordedSteps } = await import('./recordedHistory.ts');
      const runs: RecordedRun[] = [];
      const { rows, problems } = await readRuns(temporal, subject.queryOf(names), (run, history) =>
        runs.push({
          workflowId: run.workflowId,
          startedAtMs: Date.parse(run.startTime),
          closedAtMs: run.closeTime === undefined ? undefined : Date.parse(run.closeTime),
          steps: recordedSteps(history),
        }),
      );
      unread.push(...problems);
      return { runs, rows };
    } finally {
      await temporal.connection.close();
    }
  } catch (error) {
    unread.push(
      `The history could not be read, so that tiers, counts and causes are only what the object and its Events hold: ${errorMessage(error)}`,
    );
    return undefined;
  }
}

async function ifPermitted<T>(what: string, read: Promise<T>, unread: string[]): Promise<T | undefined> {
  try {
    return await read;
  } catch (error) {
    if (!isKubeError(error, 'Forbidden')) throw error;
    unread.push(`${what} could not be read: bind the ClusterRole node-maintenance-view`);
    return undefined;
  }
}

/** The history has the starts of stages; Events and conditions repeat them. */
function actionsOf({ object, events, runs = [] }: Facts, rows: readonly AuditRow[]): RecordedAction[] {
  const audited = object as AuditedObject | undefined;
  const kept =
    runs.length === 0
      ? rowsOfObject(audited, events)
      : rowsOfObject(
          audited && { ...audited, status: {} },
          events.filter(({ reason }) => reason !== 'StageStarted'),
        );
  return [...rows, ...kept.map((row) => ({ ...row, source: 'Kubernetes' as const }))];
}

async function reportOfMaintenance(facts: Facts, actions: readonly RecordedAction[]): Promise<Report> {
  const { subject, kube, object, events, runs, unread } = facts;
  const maintenance = object as NodeMaintenance | undefined;
  const nodes = nodesOf(maintenance, runs ?? []);
  const leaving =
    (await ifPermitted('pods and Evacuations', leavingPods(kube, { maintenance, nodes, unread }), unread)) ??
    [];
  const [podEvents, budgets] = await Promise.all([
    ifPermitted('Events of pods', podEventsOf(kube, nodes, leaving), unread),
    ifPermitted('PodDisruptionBudgets', kube.list(resources.podDisruptionBudgets), unread),
  ]);
  return maintenanceReport({
    name: subject.name,
    nowMs: kube.now().getTime(),
    runs,
    maintenance,
    events: events.map((event) => ({ reason: event.reason, message: event.message, ...timesOf(event) })),
    leaving,
    podEvents: podEvents ?? [],
    budgets: budgets?.items ?? [],
    actions,
    unread,
  });
}

function nodesOf(maintenance: NodeMaintenance | undefined, runs: readonly RecordedRun[]): string[] {
  const statuses = maintenance?.status?.nodeStatuses;
  return statuses === undefined
    ? nodesIn(runsOfObject(runs, maintenance?.metadata.uid))
    : statuses.map(({ nodeRef }) => nodeRef.name);
}

/** The pods of more nodes would be too many lines. */
const maxNodesOfPods = 50;

/** Returns the pods that have an Evacuation or an EvictionRequest now. */
async function leavingPods(
  kube: Kube,
  {
    maintenance,
    nodes,
    unread,
  }: { maintenance: NodeMaintenance | undefined; nodes: readonly string[]; unread: string[] },
): Promise<LeavingPod[]> {
  if (maintenance === undefined || isCompleted(maintenance)) return [];
  const { items } = await kube.list(resources.evacuations);
  const lists = await Promise.all(
    nodes
      .slice(0, maxNodesOfPods)
      .map((node) => kube.list<RawPod>(resources.pods, { fieldSelector: `spec.nodeName=${node}` })),
  );
  const pods = lists.flatMap((list) => list.items.map((raw) => trimPod(raw)));
  const evacuations = evacuationsByPod(pods, items);
  const read = mayHaveRequests(maintenance) ? readRequests(kube, pods) : undefined;
  const requests = read && (await ifPermitted('EvictionRequests', read, unread));
  return pods.flatMap((pod) => {
    const { uid = '' } = pod.metadata;
    const [evacuation, requested] = [evacuations.get(uid), requests?.get(uid)];
    const isRequested = requested?.request !== undefined;
    return evacuation === undefined && !isRequested ? [] : [{ pod, evacuation, requested }];
  });
}

/** Returns the Events of pods on these nodes that say how they left: those of this project, and those of the kubelet that stops containers. */
async function podEventsOf(
  kube: Kube,
  nodes: readonly string[],
  leaving: readonly LeavingPod[],
): Promise<PodEvent[]> {
  const lists = await Promise.all(
    [`source=${FIELD_MANAGER}`, 'reason=Killing'].map((selector) =>
      kube.list(resources.events, { fieldSelector: `involvedObject.kind=Pod,${selector}` }),
    ),
  );
  const onNodes = new Set(nodes);
  const uids = new Set(leaving.map(({ pod }) => pod.metadata.uid));
  return lists
    .flatMap(({ items }) => items)
    .filter(({ source, involvedObject }) => onNodes.has(source?.host ?? '') || uids.has(involvedObject.uid))
    .map((event) => ({
      pod: `${event.involvedObject.namespace}/${event.involvedObject.name}`,
      reason: event.reason,
      ...timesOf(event),
    }));
}

function timesOf({ firstTimestamp, lastTimestamp, metadata }: KubeEvent) {
  const firstMs = Date.parse(firstTimestamp || metadata.creationTimestamp || '');
  return { firstMs, lastMs: Math.max(firstMs, Date.parse(lastTimestamp || '') || firstMs) };
}

async function reportOfWindow(facts: Facts, actions: readonly RecordedAction[]): Promise<Report> {
  const { subject, kube, object, runs, unread } = facts;
  const { name } = subject;
  const [maintenances, budgets] = await Promise.all([
    ifPermitted('NodeMaintenances', readWindowMaintenances(kube, [name]), unread),
    ifPermitted('NodeDisruptionBudgets', kube.list(resources.nodeDisruptionBudgets), unread),
  ]);
  return windowReport({
    name,
    nowMs: kube.now().getTime(),
    runs,
    window: object as MaintenanceWindow | undefined,
    maintenances: windowMaintenancesOf(name, maintenances ?? []),
    budgets: budgets?.items ?? [],
    actions,
    unread,
  });
}
