import { hostname } from 'node:os';
import { Client, Connection, WorkflowNotFoundError } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import type { Activities, NoticeActivities } from '../activities/contract.ts';
import { NOTICE_TASK_QUEUE, TASK_QUEUE } from '../api/names.ts';
import type { Log } from '../kube/log.ts';
import { type TemporalSettings, temporalSettings } from '../temporal-config/connection.ts';
import { addAttributes, declaredNamespace, knownAttributes } from '../temporal-config/namespace.ts';
import { explained } from '../temporal-config/reach.ts';
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

export interface WorkerSettings extends TemporalSettings {
  /** By which Temporal knows this worker. */
  identity: string;
}

/** From the environment and temporal.toml. Throws an Error of one line for what cannot be meant. */
export function workerSettings(): WorkerSettings {
  return { ...temporalSettings(), identity: `${process.pid}@${hostname()}` };
}

/** Milliseconds. */
const answersWithin = 5_000;

/** Connects to the Temporal that the settings name, waiting for it, and says so, as long as it does not answer. */
export async function connectTemporal(settings: WorkerSettings, patience: Patience): Promise<Temporal> {
  const { connectionOptions, namespace, address, source, identity } = settings;
  const waiting = {
    what: `Temporal at ${address}`,
    remedy: `check the settings of Temporal, which come from ${source}`,
    ...patience,
  };
  const answer = <T>(attempt: () => Promise<T>) =>
    untilItAnswers(waiting, () => explained(settings, attempt));
  // First, because its errors have codes; lazily, because each connection that fails would go on trying in the background.
  const connection = Connection.lazy(connectionOptions);
  const describe = () => connection.workflowService.describeNamespace({ namespace });
  await answer(() => connection.withDeadline(Date.now() + answersWithin, describe));
  const native = await answer(() => NativeConnection.connect(connectionOptions));
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
  const { searchAttributes } = declaredNamespace();
  try {
    const known = await knownAttributes(connection, namespace);
    const missing = Object.entries(searchAttributes).filter(([name]) => !known.has(name));
    if (missing.length === 0) return;
    await addAttributes(connection, namespace, Object.fromEntries(missing));
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
