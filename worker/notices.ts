import { ServiceError, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import type { Worker } from '@temporalio/worker';
import type { NoticeOrder } from '../activities/contract.ts';
import { deliverer, type Outbox } from '../activities/notices.ts';
import { NOTICE_TASK_QUEUE, noticeWorkflowIdOf, TASK_QUEUE } from '../api/names.ts';
import { cloudEventOf } from '../api/notice.ts';
import type { Kube } from '../kube/client.ts';
import { wordsOf } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import type { Config } from './config.ts';
import type { Metrics } from './metrics.ts';
import { post, readFiles } from './receiver.ts';
import { createNoticeWorker, type Temporal } from './temporal.ts';

/** Temporal takes 400 bytes. */
const longestSummary = 200;
/** Of gRPC. */
const invalidArgument = 3;

interface Parts {
  kube: Kube;
  temporal: Temporal;
  config: Pick<Config, 'notifications' | 'clusterName'>;
  metrics: Metrics;
  log: Log;
}

export interface Notices {
  outbox: Outbox;
  /** Those that deliver. */
  workers: Worker[];
}

/** Throws an Error of one line when the receiver's files cannot be used. */
export async function startNotices({ kube, temporal, config, metrics, log }: Parts): Promise<Notices> {
  const lost: Outbox['lost'] = ({ id, type, data }, because) => {
    metrics.onNotice('given_up');
    log.warn('Notice was not delivered', { id, type, message: data.message, because });
  };
  const { notifications } = config;
  if (notifications === undefined) return { outbox: { put: () => Promise.resolve(), lost }, workers: [] };
  await readFiles(notifications);
  const cluster = config.clusterName ?? (await uidOfCluster(kube));
  // A path may be a secret.
  log.info('Notices are sent', { receiver: new URL(notifications.url).origin, cluster });
  const { timeoutSeconds, patienceHours } = notifications;
  const patienceSeconds = patienceHours * 3_600;
  const put: Outbox['put'] = async (notice) => {
    const event = cloudEventOf(notice, cluster);
    const args = { event, taskQueue: NOTICE_TASK_QUEUE, timeoutSeconds, patienceSeconds };
    await order(temporal, args).catch((error: unknown) => {
      // What Temporal will never take must not hold up what it tells of.
      if (!isInvalid(error)) throw error;
      lost(event, wordsOf(error.cause));
    });
  };
  const activities = deliverer({
    post: (event, signal) => post(notifications, event, signal),
    onOutcome: metrics.onNotice,
  });
  return { outbox: { put, lost }, workers: [await createNoticeWorker(temporal, activities)] };
}

async function order({ client }: Temporal, args: NoticeOrder): Promise<void> {
  try {
    await client.workflow.start('notify', {
      workflowId: noticeWorkflowIdOf(args.event.id),
      taskQueue: TASK_QUEUE,
      workflowIdReusePolicy: 'REJECT_DUPLICATE',
      args: [args],
      staticSummary: `${args.event.type} ${args.event.subject}`.slice(0, longestSummary),
    });
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
  }
}

function isInvalid(error: unknown): error is ServiceError {
  return error instanceof ServiceError && (error.cause as { code?: number }).code === invalidArgument;
}

/** By which a cluster is told from others where it has no name. */
async function uidOfCluster(kube: Kube): Promise<string> {
  const found = await kube.get(resources.namespaces, { name: 'kube-system' });
  return found?.metadata.uid ?? 'unknown';
}
