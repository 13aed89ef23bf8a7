import type { Connection } from '@temporalio/client';
import { notificationTaskQueueOf } from '../../api/names.ts';
import type {
  Asked,
  NotificationFacts,
  PollerFacts,
  TemporalFacts,
  TemporalNamespaceFacts,
} from '../../domain/doctor/temporal.ts';
import type { ProcessSummary } from '../../domain/leases/processSummary.ts';
import { progressProblemOf } from '../../domain/maintenance/progressing.ts';
import type { Kube } from '../../kube/client.ts';
import { errorMessage } from '../../kube/errors.ts';
import { claimedTaskQueues } from '../../temporal-config/clusterClaims.ts';
import { Code, grpcStatusOf, oneLine } from '../../temporal-config/connectionErrors.ts';
import {
  createAttributesCommand,
  declaredNamespace,
  hoursOf,
  knownAttributes,
  type Namespace,
} from '../../temporal-config/namespace.ts';
import { retentionSecondsOf } from '../../temporal-config/retention.ts';
import { clusterUid } from '../clusterClaim.ts';
import { connectTemporal, type Temporal } from '../temporal.ts';
import { pollersOf, type TaskQueue } from '../workers/taskQueues.ts';
import { installationOf } from '../installation.ts';
import type { ClusterObjects } from './objects.ts';

interface Options {
  kube: Kube;
  objects: ClusterObjects;
  namespace: string;
  signal: AbortSignal;
}

/** Any client that can write Leases can name namespaces, which become part of commands that users copy. */
const maxNamespaces = 5;
const namespacePattern = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

/** Asks the Temporal of the user's settings about the namespaces and task queues that live workers say they use. */
export async function temporalFacts({ kube, objects, namespace, signal }: Options): Promise<TemporalFacts> {
  const required = declaredNamespace();
  let temporal: Temporal;
  try {
    temporal = await connectTemporal();
  } catch (error) {
    return { kind: 'Unavailable', problem: errorMessage(error), reported: await reportedBy(objects) };
  }
  try {
    const workers = await liveWorkers(kube, namespace, signal);
    const used = [...new Set(workers.map(({ temporal: own }) => own?.namespace ?? ''))].filter((name) =>
      namespacePattern.test(name),
    );
    const names = used.length === 0 ? [temporal.namespace] : used.toSorted().slice(0, maxNamespaces);
    return await temporal.connection.withAbortSignal(signal, async () => ({
      kind: 'Available',
      address: temporal.address,
      namespaces: await Promise.all(names.map((name) => namespaceFacts(temporal.connection, name, required))),
      ...(await pollerFacts(temporal.connection, workers)),
      claims: await asked(claimsOf(kube, temporal)),
      requiredRetentionSeconds: hoursOf(required.retention) * 3_600,
    }));
  } finally {
    await temporal.connection.close();
  }
}

/** Returns what the worker reports on maintenances that wait for Temporal; undefined if they cannot be read, which another check says. */
async function reportedBy(objects: ClusterObjects): Promise<string[] | undefined> {
  const maintenances = await objects.maintenances().catch(() => undefined);
  return maintenances?.flatMap((one) => progressProblemOf(one)?.message ?? []);
}

/** Lists the workers that live. Without permission to read Leases nothing is known about them, which another check reports. */
async function liveWorkers(kube: Kube, namespace: string, signal: AbortSignal): Promise<ProcessSummary[]> {
  const { processes } = await installationOf(kube, namespace, { signal }).catch(() => ({ processes: [] }));
  return processes.filter(({ state, temporal }) => state === 'Live' && temporal !== undefined);
}

async function asked<T>(answer: Promise<T>): Promise<Asked<T>> {
  try {
    return { kind: 'Known', value: await answer };
  } catch (error) {
    return { kind: 'Unknown', problem: oneLine(error) };
  }
}

async function namespaceFacts(
  connection: Connection,
  name: string,
  { searchAttributes }: Namespace,
): Promise<TemporalNamespaceFacts> {
  return {
    name,
    retentionSeconds: await asked(retentionOf(connection, name)),
    attributes: await asked(attributesOf(connection, name, searchAttributes)),
  };
}

async function retentionOf({ workflowService }: Connection, namespace: string): Promise<number | undefined> {
  try {
    return retentionSecondsOf(await workflowService.describeNamespace({ namespace }));
  } catch (error) {
    if (grpcStatusOf(error)?.code !== Code.NotFound) throw error;
    return undefined;
  }
}

async function attributesOf(
  connection: Connection,
  namespace: string,
  attributes: Namespace['searchAttributes'],
) {
  const required = Object.entries(attributes);
  const known = await knownAttributes(connection, namespace);
  const missing = required.filter(([name]) => !known.has(name));
  return {
    missing: missing.map(([name]) => name),
    mistyped: required.flatMap(([name, type]) => (known.has(name) && known.get(name) !== type ? [name] : [])),
    command: createAttributesCommand(namespace, Object.fromEntries(missing)),
  };
}

async function claimsOf(kube: Kube, { client }: Temporal): Promise<string[]> {
  const uid = await clusterUid(kube);
  const claimed: string[] = [];
  for await (const taskQueue of claimedTaskQueues(client, uid)) claimed.push(taskQueue);
  return claimed;
}

async function pollerFacts(
  connection: Connection,
  workers: readonly ProcessSummary[],
): Promise<{ pollers: PollerFacts[]; notifications: NotificationFacts[] }> {
  const report = await pollersOf(workers.flatMap(({ temporal }) => temporal ?? []));
  const since = (time: string | undefined) =>
    time === undefined ? undefined : Date.now() - Date.parse(time);
  const pollers = workers.flatMap(({ temporal: worker, host }): PollerFacts[] => {
    if (worker === undefined) return [];
    const polls = report.pollsOf(worker);
    if (polls === undefined)
      return [{ worker, host, polls: { kind: 'Unknown', problem: report.problems.join('; ') } }];
    const { workflow, activity, longRunning } = polls;
    const value = { workflow: since(workflow), activity: since(activity), longRunning: since(longRunning) };
    return [{ worker, host, polls: { kind: 'Known', value } }];
  });
  const notifications = report.notifications.map(async ({ of, lastPoll }) => ({
    taskQueue: notificationTaskQueueOf(of.taskQueue),
    waiting: await openNotifications(connection, of),
    polledMs: since(lastPoll),
  }));
  return { pollers, notifications: await Promise.all(notifications) };
}

/** Returns the number of open deliveries. A user who may not count them learns from the other checks what is not checked. */
async function openNotifications(
  { workflowService }: Connection,
  { namespace, taskQueue }: TaskQueue,
): Promise<number> {
  const name = JSON.stringify(taskQueue);
  const query = `WorkflowType = "notify" AND ExecutionStatus = "Running" AND TaskQueue = ${name}`;
  const answer = await workflowService.countWorkflowExecutions({ namespace, query }).catch(() => undefined);
  return Number(answer?.count ?? 0);
}
