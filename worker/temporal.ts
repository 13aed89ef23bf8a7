import { hostname } from 'node:os';
import { Client, Connection, WorkflowNotFoundError } from '@temporalio/client';
import { loadClientConnectConfig } from '@temporalio/envconfig';
import { NativeConnection, Worker } from '@temporalio/worker';
import type { Activities, NoticeActivities } from '../activities/contract.ts';
import { NOTICE_TASK_QUEUE, TASK_QUEUE } from '../api/names.ts';
import type { Log } from '../kube/log.ts';
import { searchAttributes } from '../temporal-config/devServer.ts';
import { bundleElsewhere } from './bundle.ts';
import { type Patience, untilItAnswers } from './patience.ts';

export interface Temporal {
  client: Client;
  native: NativeConnection;
  namespace: string;
  identity: string;
  /** The identity of the client that started a run, as it calls itself: `temporal-cli:jane@laptop`. */
  starterOf: (workflowId: string, runId: string) => Promise<string>;
  isRunning: (workflowId: string) => Promise<boolean>;
  close(): Promise<void>;
}

export interface TemporalSettings {
  connectionOptions: ReturnType<typeof loadClientConnectConfig>['connectionOptions'];
  namespace: string;
  /** By which Temporal knows this worker. */
  identity: string;
}

/** From the environment and temporal.toml, as the temporal CLI has them. */
export function temporalSettings(): TemporalSettings {
  const { connectionOptions, namespace = 'default' } = loadClientConnectConfig();
  return { connectionOptions, namespace, identity: `${process.pid}@${hostname()}` };
}

/** Connects to the Temporal that the settings name, waiting for it, and says so, as long as it does not answer. */
export async function connectTemporal(settings: TemporalSettings, patience: Patience): Promise<Temporal> {
  const { connectionOptions, namespace, identity } = settings;
  const address = connectionOptions.address ?? 'localhost:7233';
  const what = { what: `Temporal at ${address}`, remedy: 'check TEMPORAL_ADDRESS', ...patience };
  const native = await untilItAnswers(what, () => NativeConnection.connect(connectionOptions));
  const connection = await untilItAnswers(what, () => Connection.connect(connectionOptions));
  await untilItAnswers({ ...what, what: `Temporal namespace ${namespace}` }, () =>
    connection.workflowService.describeNamespace({ namespace }),
  );
  await registerSearchAttributes(connection, namespace, patience.log);
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
    isRunning: async (workflowId) => {
      try {
        return (await client.workflow.getHandle(workflowId).describe()).status.name === 'RUNNING';
      } catch (error) {
        if (error instanceof WorkflowNotFoundError) return false;
        throw error;
      }
    },
    close: async () => {
      await connection.close();
      await native.close();
    },
  };
}

/** An attribute that the server does not know wedges every workflow that sets it: register before the first one runs. */
async function registerSearchAttributes(connection: Connection, namespace: string, log: Log): Promise<void> {
  const types = { Keyword: 2, KeywordList: 7 } as const;
  const wanted = Object.entries(searchAttributes).map(([name, type]) => [name, types[type]] as const);
  try {
    const known = await connection.operatorService.listSearchAttributes({ namespace });
    const missing = wanted.filter(([name]) => known.customAttributes?.[name] === undefined);
    if (missing.length === 0) return;
    await connection.operatorService.addSearchAttributes({
      namespace,
      searchAttributes: Object.fromEntries(missing),
    });
    log.info('Search attributes registered', { namespace, names: missing.map(([name]) => name) });
  } catch (error) {
    log.warn('Search attributes could not be registered; register them by hand if they are missing', {
      namespace,
      names: Object.keys(searchAttributes),
      error: String(error),
    });
  }
}

const seconds = 1_000;

/** The worker of our task queue. */
export async function createWorker(temporal: Temporal, activities: Activities): Promise<Worker> {
  return Worker.create({
    connection: temporal.native,
    namespace: temporal.namespace,
    identity: temporal.identity,
    taskQueue: TASK_QUEUE,
    workflowBundle: await bundleElsewhere(),
    activities,
    // Every maintenance keeps one activity open for as long as its stage lasts; most of them only wait.
    maxConcurrentActivityTaskExecutions: 1_000,
    // Cancellation reaches an activity by its heartbeat: seldom heartbeats would make `pause` slow.
    maxHeartbeatThrottleInterval: seconds,
    defaultHeartbeatThrottleInterval: seconds,
    // A worker that was killed leaves its workflows to others after this long.
    stickyQueueScheduleToStartTimeout: 2 * seconds,
    shutdownGraceTime: seconds,
    shutdownForceTime: 20 * seconds,
  });
}

/** Sends notices, few at a time: a receiver that is slow keeps nobody else waiting. */
export async function createNoticeWorker(
  temporal: Temporal,
  activities: Pick<NoticeActivities, 'deliver'>,
): Promise<Worker> {
  return Worker.create({
    connection: temporal.native,
    namespace: temporal.namespace,
    identity: temporal.identity,
    taskQueue: NOTICE_TASK_QUEUE,
    activities,
    maxConcurrentActivityTaskExecutions: 4,
    shutdownGraceTime: seconds,
    shutdownForceTime: 20 * seconds,
  });
}
