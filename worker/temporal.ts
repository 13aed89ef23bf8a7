import { hostname } from 'node:os';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import type { Activities, NotificationActivities } from '../activities/contract.ts';
import type { ClusterScope } from '../api/names.ts';
import { isRunning } from '../controllers/workflowRuns.ts';
import type { Log } from '../kube/log.ts';
import { type TemporalSettings, temporalSettings } from '../temporal-config/connection.ts';
import { addAttributes, declaredNamespace, knownAttributes } from '../temporal-config/namespace.ts';
import { explainFailure } from '../temporal-config/connectionErrors.ts';
import { loadWorkflows } from './bundle.ts';
import type { Config } from './config.ts';
import { retryUntilAvailable, type WaitOptions } from './startupRetry.ts';
import { versioningOf } from './workerDeployment.ts';

export interface Temporal {
  client: Client;
  native: NativeConnection;
  namespace: string;
  identity: string;
  /** Returns the identity that the client which started a run declared, such as `temporal-cli:jane@laptop`. */
  starterOf: (workflowId: string, runId: string) => Promise<string>;
  isRunning: (workflowId: string) => Promise<boolean>;
  close(): Promise<void>;
}

export interface WorkerSettings extends TemporalSettings {
  /** Identity of this worker in Temporal. */
  identity: string;
}

/** Reads the environment and temporal.toml. Throws an Error of one line for invalid settings. */
export function workerSettings(): WorkerSettings {
  return { ...temporalSettings(), identity: `${process.pid}@${hostname()}` };
}

const answerTimeoutMs = 5_000;

/** Connects to Temporal. Waits, and logs why, while it does not answer. */
export async function connectTemporal(settings: WorkerSettings, wait: WaitOptions): Promise<Temporal> {
  const { connectionOptions, namespace, address, source, identity } = settings;
  const dependency = {
    name: `Temporal at ${address}`,
    remedy: `check the settings of Temporal, which come from ${source}`,
    ...wait,
  };
  const answer = <T>(attempt: () => Promise<T>) =>
    retryUntilAvailable(dependency, () => explainFailure(settings, attempt));
  // First, because its errors have codes; lazily, because a failed connection would keep trying in the background.
  const connection = Connection.lazy(connectionOptions);
  const describe = () => connection.workflowService.describeNamespace({ namespace });
  await answer(() => connection.withDeadline(Date.now() + answerTimeoutMs, describe));
  const native = await answer(() => NativeConnection.connect(connectionOptions));
  await registerSearchAttributes(connection, namespace, wait.log);
  const client = new Client({ connection, namespace });
  return {
    client,
    native,
    namespace,
    identity,
    starterOf: async (workflowId, runId) => {
      const execution = { workflowId, runId };
      const request = { namespace, execution, maximumPageSize: 1 };
      const { history } = await connection.workflowService.getWorkflowExecutionHistory(request);
      return history?.events?.[0]?.workflowExecutionStartedEventAttributes?.identity || 'unknown';
    },
    isRunning: (workflowId) => isRunning(client, workflowId),
    close: async () => {
      await connection.close();
      await native.close();
    },
  };
}

/** Registers missing search attributes before the first workflow runs: an unknown one blocks every workflow that sets it. */
async function registerSearchAttributes(connection: Connection, namespace: string, log: Log): Promise<void> {
  const { searchAttributes } = declaredNamespace();
  try {
    const known = await knownAttributes(connection, namespace);
    const missing = Object.entries(searchAttributes).filter(([name]) => !known.has(name));
    if (missing.length === 0) return;
    await addAttributes(connection, namespace, Object.fromEntries(missing));
    log.info('Search attributes registered', { namespace, names: missing.map(([name]) => name) });
  } catch (error) {
    log.warn('Search attributes could not be registered; register them manually if they are missing', {
      namespace,
      names: Object.keys(searchAttributes),
      error: String(error),
    });
  }
}

const secondMs = 1_000;

/** Creates the worker of the main task queue. */
export async function createWorker(
  temporal: Temporal,
  { names }: ClusterScope,
  activities: Activities,
  { workflowBundle, workerDeployment }: Pick<Config, 'workflowBundle' | 'workerDeployment'>,
): Promise<Worker> {
  return Worker.create({
    connection: temporal.native,
    namespace: temporal.namespace,
    identity: temporal.identity,
    taskQueue: names.taskQueue,
    workflowBundle: await loadWorkflows(workflowBundle),
    ...versioningOf(workerDeployment),
    activities,
    // Every maintenance has one activity open for as long as its stage lasts; most of them only wait.
    maxConcurrentActivityTaskExecutions: 1_000,
    // A heartbeat delivers the cancellation of an activity: infrequent heartbeats would delay `pause`.
    maxHeartbeatThrottleInterval: secondMs,
    defaultHeartbeatThrottleInterval: secondMs,
    // Other workers take over the workflows of a killed worker after this time.
    stickyQueueScheduleToStartTimeout: 2 * secondMs,
    shutdownGraceTime: secondMs,
    shutdownForceTime: 20 * secondMs,
  });
}

/** Creates the worker that sends notifications, a few at a time: a slow endpoint delays no other activity. */
export async function createNotificationWorker(
  temporal: Temporal,
  { names }: ClusterScope,
  activities: Pick<NotificationActivities, 'deliver'>,
  { workerDeployment }: Pick<Config, 'workerDeployment'>,
): Promise<Worker> {
  return Worker.create({
    connection: temporal.native,
    namespace: temporal.namespace,
    identity: temporal.identity,
    taskQueue: names.notificationTaskQueue,
    ...versioningOf(workerDeployment),
    activities,
    maxConcurrentActivityTaskExecutions: 4,
    shutdownGraceTime: secondMs,
    shutdownForceTime: 20 * secondMs,
  });
}
