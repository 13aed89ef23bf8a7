import { ServiceError, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import type { Worker } from '@temporalio/worker';
import type { NotificationRequest } from '../../activities/contract.ts';
import {
  createDeliverActivity,
  type NotificationOutbox,
} from '../../activities/notifications/notifications.ts';
import { CLUSTER_UID_MEMO, type ClusterScope, logFieldOf } from '../../api/names.ts';
import { cloudEventOf } from '../../api/notification.ts';
import { errorMessage } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import { Code } from '../../temporal-config/connectionErrors.ts';
import { readableMemo } from '../../temporal-config/readableMemo.ts';
import type { Config } from '../config.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { createNotificationWorker, type Temporal, type WorkerConnection } from '../temporal.ts';
import { post, readFiles } from './endpoint.ts';
import type { NotificationSettings } from './settings.ts';

/** Temporal accepts 400 bytes. */
const maxSummaryLength = 200;

interface NotificationDependencies {
  temporal: Temporal;
  scope: ClusterScope;
  config: Pick<Config, 'notifications' | 'workerDeployment'>;
  metrics: Metrics;
  log: Log;
}

export interface Notifications {
  outbox: NotificationOutbox;
  /** Creates the workers that deliver; none without an endpoint. */
  createWorkers: (connection: WorkerConnection) => Promise<Worker[]>;
}

/** Sends nothing yet. Throws an Error of one line when the files of the endpoint cannot be used. */
export async function startNotifications(dependencies: NotificationDependencies): Promise<Notifications> {
  const { temporal, scope, config, metrics, log } = dependencies;
  const { notifications } = config;
  const dropped: NotificationOutbox['dropped'] = ({ id, type, data }, reason) => {
    metrics.onNotification('dropped');
    log.warn('Notification dropped', { ...logFieldOf(data.object), id, type, message: data.message, reason });
  };
  if (notifications === undefined)
    return {
      outbox: { enqueue: () => Promise.resolve(), dropped },
      createWorkers: () => Promise.resolve([]),
    };
  await readFiles(notifications);
  // Without the path, which may be a secret.
  log.info('Notifications enabled', { endpoint: new URL(notifications.url).origin, cluster: scope.name });
  const enqueue = createEnqueue(temporal, notifications, { scope, dropped });
  const activities = createDeliverActivity({
    post: (event, signal) => post(notifications, event, signal),
    onOutcome: metrics.onNotification,
  });
  return {
    outbox: { enqueue, dropped },
    createWorkers: async (connection) => [
      await createNotificationWorker(connection, scope, activities, config),
    ],
  };
}

function createEnqueue(
  temporal: Temporal,
  { timeoutSeconds, maxAgeHours }: NotificationSettings,
  { scope, dropped }: { scope: ClusterScope; dropped: NotificationOutbox['dropped'] },
): NotificationOutbox['enqueue'] {
  const retryUntilSeconds = maxAgeHours * 3_600;
  return async (notification) => {
    const event = cloudEventOf(notification, scope.name);
    const taskQueue = scope.names.notificationTaskQueue;
    const request = { event, taskQueue, timeoutSeconds, retryUntilSeconds };
    await startNotify(temporal, scope, request).catch((error: unknown) => {
      // A notification that Temporal never accepts must not block the maintenance that it reports.
      if (!isInvalid(error)) throw error;
      dropped(event, errorMessage(error.cause));
    });
  };
}

async function startNotify(
  { client }: Temporal,
  { uid, names }: ClusterScope,
  request: NotificationRequest,
): Promise<void> {
  try {
    await client.workflow.start('notify', {
      workflowId: names.notificationId(request.event.id),
      taskQueue: names.taskQueue,
      memo: readableMemo({ [CLUSTER_UID_MEMO]: uid }),
      workflowIdReusePolicy: 'REJECT_DUPLICATE',
      args: [request],
      staticSummary: `${request.event.type} ${request.event.subject}`.slice(0, maxSummaryLength),
    });
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
  }
}

function isInvalid(error: unknown): error is ServiceError {
  return error instanceof ServiceError && (error.cause as { code?: number }).code === Code.InvalidArgument;
}
