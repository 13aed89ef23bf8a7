import { hostname } from 'node:os';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import {
  type NativeConnection,
  Worker,
  type WorkerDeploymentOptions,
  type WorkflowBundle,
} from '@temporalio/worker';
import {
  type Activities,
  longRunningActivities,
  type NotificationActivities,
} from '../activities/contract.ts';
import type { ClusterScope } from '../api/names.ts';
import { isRunning } from '../controllers/workflowRuns.ts';
import { temporalIdentity } from '../domain/leases/identityLease.ts';
import type { Log } from '../kube/log.ts';
import {
  type PayloadObserver,
  type TemporalSettings,
  temporalSettings,
} from '../temporal-config/connection.ts';
import { explainFailure } from '../temporal-config/connectionErrors.ts';
import type { Config, WorkerDeployment } from './config.ts';
import { type TemporalAnswers, withReportedResults } from './reportedResults.ts';
import { ensureSearchAttributes } from './searchAttributes.ts';
import { TemporalConnections } from './temporalConnections.ts';
import type { Tracing } from './tracing.ts';

export interface Temporal {
  settings: WorkerSettings;
  connections: TemporalConnections;
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
  /** UUID of the start of this process, with which its identities end, in Temporal and in Leases. */
  uuid: string;
}

/** Reads the environment and temporal.toml. Throws an Error of one line for invalid settings. */
export function workerSettings(observer: PayloadObserver): WorkerSettings {
  const uuid = crypto.randomUUID();
  const identity = temporalIdentity(`${process.pid}@${hostname()}`, uuid);
  return { ...temporalSettings({ observer }), identity, uuid };
}

/** Creates the client of Temporal. It sends nothing before its first request. */
export function openTemporal(settings: WorkerSettings, tracing?: Tracing): Temporal {
  const { namespace, dataConverter } = settings;
  const connections = new TemporalConnections(settings);
  const interceptors = { workflow: [...(tracing?.clientInterceptors ?? [])] };
  const client = new Client({ connection: connections.client, namespace, dataConverter, interceptors });
  return {
    settings,
    connections,
    client,
    namespace,
    starterOf: async (workflowId, runId) => {
      const execution = { workflowId, runId };
      const request = { namespace, execution, maximumPageSize: 1 };
      const { history } = await client.workflowService.getWorkflowExecutionHistory(request);
      return history?.events?.[0]?.workflowExecutionStartedEventAttributes?.identity || 'unknown';
    },
    isRunning: (workflowId) => isRunning(client, workflowId),
    close: () => connections.close(),
  };
}

const answerTimeoutMs = 5_000;

/** Makes a request to Temporal that must be answered soon. Rejects with an Error of one line that names the remedy. */
export function answered<T>({ connections, client }: Temporal, request: () => Promise<T>): Promise<T> {
  const inTime = () => client.withDeadline(Date.now() + answerTimeoutMs, request);
  return explainFailure(connections.settings, inTime);
}

/** Makes sure that the namespace exists and has what the workflows need. Rejects with an Error of one line while Temporal is unavailable. */
export async function prepareNamespace(temporal: Temporal, log: Log): Promise<void> {
  const { connections, client, namespace } = temporal;
  await answered(temporal, () => client.workflowService.describeNamespace({ namespace }));
  // Explained already: here a rejection says nothing about the credentials.
  const ensure = () => ensureSearchAttributes(connections.client, namespace, log);
  await client.withDeadline(Date.now() + answerTimeoutMs, ensure);
}

const secondMs = 1_000;

/** A connection of Temporal's workers, with the identity that they have there, and how they read and write payloads. */
export interface WorkerConnection {
  connection: NativeConnection;
  namespace: string;
  identity: string;
  dataConverter: DataConverter;
}

/** Connects workers. Rejects while Temporal is unavailable. */
export async function connectWorkers({ settings, connections }: Temporal): Promise<WorkerConnection> {
  const { namespace, identity, dataConverter, encryptsPayloads } = settings;
  return {
    connection: await connections.connectWorkers(),
    namespace,
    identity,
    dataConverter: encryptsPayloads ? { ...dataConverter, failureConverterPath } : dataConverter,
  };
}

/** In an image it is compiled, like this file. */
const failureConverterPath = fileURLToPath(
  new URL(`../temporal-config/encodedFailures${extname(import.meta.filename)}`, import.meta.url),
);

export interface WorkerOptions extends Pick<Config, 'workflowCache' | 'workerDeployment'> {
  workflows: WorkflowBundle;
  tracing: Tracing | undefined;
  answers: TemporalAnswers;
}

/**
 * Creates the workers of the two main task queues. Every open maintenance has one long-running activity, which does nothing most of the time; if they
 * took the slots of the short ones, enough of them would stop all maintenances, cancellations too (ADR 41).
 */
export async function createWorkers(
  connection: WorkerConnection,
  { names }: ClusterScope,
  activities: Activities,
  { workflows, tracing, workflowCache, workerDeployment, answers }: WorkerOptions,
): Promise<Worker[]> {
  const encodesFailures = connection.dataConverter.failureConverterPath !== undefined;
  const isLongRunning = (name: string) => longRunningActivities.some((longRunning) => longRunning === name);
  const ofKind = (longRunning: boolean) =>
    Object.fromEntries(Object.entries(activities).filter(([name]) => isLongRunning(name) === longRunning));
  const common = {
    ...connection,
    ...tracing?.workerOptions,
    ...versioningOf(workerDeployment),
    // The activities decide when they send heartbeats.
    maxHeartbeatThrottleInterval: secondMs,
    defaultHeartbeatThrottleInterval: secondMs,
    shutdownGraceTime: secondMs,
    shutdownForceTime: 20 * secondMs,
  };
  const main = await Worker.create({
    ...common,
    taskQueue: names.taskQueue,
    workflowBundle: encodesFailures ? withEncodedFailures(workflows) : workflows,
    activities: ofKind(false),
    // The size of the cache assumes that all runs share a V8 context.
    reuseV8Context: true,
    // The SDK would derive it from the heap of the main thread, although workflows have a thread, and a heap, of their own.
    maxCachedWorkflows: workflowCache,
    maxConcurrentActivityTaskExecutions: 200,
    // Other workers take over the workflows of a killed worker after this time.
    stickyQueueScheduleToStartTimeout: 2 * secondMs,
  });
  const longRunning = await Worker.create({
    ...common,
    taskQueue: names.longRunningTaskQueue,
    activities: withReportedResults(ofKind(true), answers),
    maxConcurrentActivityTaskExecutions: 10_000,
  });
  return [main, longRunning];
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

/**
 * Returns the option of a Temporal worker. Runs last for days and continue with the next release, so each is replayed by the new build:
 * pinning would keep the old one running until the last maintenance has ended.
 */
function versioningOf(deployment: WorkerDeployment | undefined): {
  workerDeploymentOptions?: WorkerDeploymentOptions;
} {
  if (deployment === undefined) return {};
  const { deploymentName, buildId } = deployment;
  return {
    workerDeploymentOptions: {
      version: { deploymentName, buildId },
      useWorkerVersioning: true,
      defaultVersioningBehavior: 'AUTO_UPGRADE',
    },
  };
}

/** Returns the workflows with a setting for workflows/failureConverter.ts. */
function withEncodedFailures({ code }: { code: string }): { code: string } {
  // On the line of the bundle's first statement, so that the line numbers of its source map stay right.
  return { code: `globalThis.encodesFailures = true; ${code}` };
}
