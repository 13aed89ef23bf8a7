import { hostname } from 'node:os';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker, type WorkflowBundle } from '@temporalio/worker';
import type { Activities, NotificationActivities } from '../activities/contract.ts';
import type { ClusterScope } from '../api/names.ts';
import { isRunning } from '../controllers/workflowRuns.ts';
import type { Log } from '../kube/log.ts';
import { type TemporalSettings, temporalSettings } from '../temporal-config/connection.ts';
import { explainFailure } from '../temporal-config/connectionErrors.ts';
import type { Config } from './config.ts';
import { ensureSearchAttributes } from './searchAttributes.ts';
import { versioningOf } from './workerDeployment.ts';

export interface Temporal {
  settings: WorkerSettings;
  connection: Connection;
  client: Client;
  namespace: string;
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

/** The default of gRPC, two minutes, would delay the end of every long outage. */
const maxReconnectMs = 5_000;

/** Creates the client of Temporal. It sends nothing before its first request. */
export function openTemporal(settings: WorkerSettings): Temporal {
  const { connectionOptions, namespace } = settings;
  const channelArgs = { 'grpc.max_reconnect_backoff_ms': maxReconnectMs };
  const connection = Connection.lazy({ ...connectionOptions, channelArgs });
  const client = new Client({ connection, namespace });
  return {
    settings,
    connection,
    client,
    namespace,
    starterOf: async (workflowId, runId) => {
      const execution = { workflowId, runId };
      const request = { namespace, execution, maximumPageSize: 1 };
      const { history } = await connection.workflowService.getWorkflowExecutionHistory(request);
      return history?.events?.[0]?.workflowExecutionStartedEventAttributes?.identity || 'unknown';
    },
    isRunning: (workflowId) => isRunning(client, workflowId),
    close: () => connection.close(),
  };
}

const answerTimeoutMs = 5_000;

/** Makes a request to Temporal that must be answered soon. Rejects with an Error of one line that names the remedy. */
export function answered<T>({ settings, connection }: Temporal, request: () => Promise<T>): Promise<T> {
  return explainFailure(settings, () => connection.withDeadline(Date.now() + answerTimeoutMs, request));
}

/** Makes sure that the namespace exists and has what the workflows need. Rejects with an Error of one line while Temporal is unavailable. */
export async function prepareNamespace(temporal: Temporal, log: Log): Promise<void> {
  const { connection, namespace } = temporal;
  await answered(temporal, () => connection.workflowService.describeNamespace({ namespace }));
  // Explained already: here a rejection says nothing about the credentials.
  const ensure = () => ensureSearchAttributes(connection, namespace, log);
  await connection.withDeadline(Date.now() + answerTimeoutMs, ensure);
}

const secondMs = 1_000;

/** A connection of Temporal's workers, with the identity that they have there. */
export interface WorkerConnection {
  connection: NativeConnection;
  namespace: string;
  identity: string;
}

/** Connects workers. Rejects while Temporal is unavailable. */
export async function connectWorkers({ settings }: Temporal): Promise<WorkerConnection> {
  const { connectionOptions, namespace, identity } = settings;
  return { connection: await NativeConnection.connect(connectionOptions), namespace, identity };
}

/** Creates the worker of the main task queue. */
export function createWorker(
  connection: WorkerConnection,
  { names }: ClusterScope,
  activities: Activities,
  { workflows, workerDeployment }: Pick<Config, 'workerDeployment'> & { workflows: WorkflowBundle },
): Promise<Worker> {
  return Worker.create({
    ...connection,
    taskQueue: names.taskQueue,
    workflowBundle: workflows,
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
export function createNotificationWorker(
  connection: WorkerConnection,
  { names }: ClusterScope,
  activities: Pick<NotificationActivities, 'deliver'>,
  { workerDeployment }: Pick<Config, 'workerDeployment'>,
): Promise<Worker> {
  return Worker.create({
    ...connection,
    taskQueue: names.notificationTaskQueue,
    ...versioningOf(workerDeployment),
    activities,
    maxConcurrentActivityTaskExecutions: 4,
    shutdownGraceTime: secondMs,
    shutdownForceTime: 20 * secondMs,
  });
}
