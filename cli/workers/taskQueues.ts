import { longRunningTaskQueueOf, notificationTaskQueueOf } from '../../api/names.ts';
import type { TemporalWorker } from '../../domain/leases/processSummary.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { errorMessage } from '../../kube/errors.ts';
import { escapeForTerminal } from '../output.ts';
import { temporalTimeoutMs, connectTemporal, type Temporal } from '../temporal.ts';

/** Time of the last poll of a worker, per kind of task (RFC 3339); undefined if it never polled. */
export interface Polls {
  readonly workflow?: string;
  readonly activity?: string;
  /** Last poll for the long-running activities, which have a task queue of their own. */
  readonly longRunning?: string;
  /** Last poll for the deliveries of notifications, which also have one; only workers with an endpoint poll it. */
  readonly notification?: string;
}

/** The task queue of the notifications of workers. */
export interface NotificationQueue {
  /** Their main task queue. */
  readonly of: TaskQueue;
  /** Time of the last poll of any worker (RFC 3339). */
  readonly lastPoll?: string;
}

/** The pollers of task queues. */
export interface PollerReport {
  /** Undefined if the task queue could not be described. */
  readonly pollsOf: (worker: TemporalWorker) => Polls | undefined;
  readonly notifications: readonly NotificationQueue[];
  /** One-line errors for task queues that could not be described. */
  readonly problems: readonly string[];
}

export type TaskQueue = Omit<TemporalWorker, 'identity'>;

interface Described {
  /** Keyed by identity. */
  readonly pollers: ReadonlyMap<string, Polls>;
  readonly notifications: NotificationQueue;
}

/** temporal.api.enums.v1.TaskQueueType */
const taskTypes = { workflow: 1, activity: 2 } as const;

/** The task queues that a worker polls, by its main one. */
const polledQueues = [
  { kind: 'workflow', taskQueueType: taskTypes.workflow, nameOf: (main: string) => main },
  { kind: 'activity', taskQueueType: taskTypes.activity, nameOf: (main: string) => main },
  { kind: 'longRunning', taskQueueType: taskTypes.activity, nameOf: longRunningTaskQueueOf },
  { kind: 'notification', taskQueueType: taskTypes.activity, nameOf: notificationTaskQueueOf },
] as const;

/** Limits the requests: any client that can write Leases can name task queues. */
const maxConcurrentRequests = 8;

/** Reads the pollers of task queues from the Temporal of the default settings. Rejects with a one-line Error. */
export async function pollersOf(queues: readonly TaskQueue[]): Promise<PollerReport> {
  const distinct = new Map(queues.map((queue) => [keyOf(queue), queue]));
  const known = new Map<string, Described>();
  const problems: string[] = [];
  if (distinct.size > 0) {
    const { connection } = await connectTemporal();
    const signal = AbortSignal.timeout(temporalTimeoutMs);
    const describeQueue = async ([key, queue]: [string, TaskQueue]) => {
      try {
        known.set(key, await connection.withAbortSignal(signal, () => describe(connection, queue)));
      } catch (error) {
        problems.push(problemOf(queue, signal.aborted ? 'no response' : errorMessage(error)));
      }
    };
    await forEachBounded(maxConcurrentRequests, [...distinct], describeQueue);
    await connection.close();
  }
  return {
    problems: problems.toSorted(),
    notifications: [...known.values()].map(({ notifications }) => notifications),
    pollsOf: (worker) => {
      const described = known.get(keyOf(worker));
      return described && (described.pollers.get(worker.identity) ?? {});
    },
  };
}

async function describe(
  { workflowService }: Temporal['connection'],
  { namespace, taskQueue }: TaskQueue,
): Promise<Described> {
  const pollers = new Map<string, Polls>();
  let lastPoll: string | undefined;
  for (const { kind, taskQueueType, nameOf } of polledQueues) {
    const request = { namespace, taskQueue: { name: nameOf(taskQueue) }, taskQueueType };
    const answer = await workflowService.describeTaskQueue(request);
    for (const { identity, lastAccessTime } of answer.pollers ?? []) {
      const at = new Date(Number(lastAccessTime?.seconds ?? 0) * 1_000).toISOString();
      pollers.set(identity ?? '', { ...pollers.get(identity ?? ''), [kind]: at });
      if (kind === 'notification') lastPoll = [lastPoll ?? at, at].toSorted().at(-1);
    }
  }
  return {
    pollers,
    notifications: { of: { namespace, taskQueue }, ...(lastPoll !== undefined && { lastPoll }) },
  };
}

function keyOf({ namespace, taskQueue }: TaskQueue): string {
  return JSON.stringify([namespace, taskQueue]);
}

function problemOf({ namespace, taskQueue }: TaskQueue, problem: string): string {
  return `task queue ${escapeForTerminal(taskQueue)} of Temporal namespace ${escapeForTerminal(namespace)}: ${problem}`;
}
