import type { TemporalWorker } from '../../domain/leases/processSummary.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { errorMessage } from '../../kube/errors.ts';
import { escapeForTerminal } from '../output.ts';
import { temporalTimeoutMs, connectTemporal, type Temporal } from '../temporal.ts';

/** Time of the last poll of a worker, per kind of task queue (RFC 3339); undefined if it never polled. */
export interface Polls {
  readonly workflow?: string;
  readonly activity?: string;
}

/** The pollers of task queues. */
export interface PollerReport {
  /** Undefined if the task queue could not be described. */
  readonly pollsOf: (worker: TemporalWorker) => Polls | undefined;
  /** One-line errors for task queues that could not be described. */
  readonly problems: readonly string[];
}

type TaskQueue = Omit<TemporalWorker, 'identity'>;

/** Keyed by identity. */
type Pollers = ReadonlyMap<string, Polls>;

/** temporal.api.enums.v1.TaskQueueType */
const kinds = { workflow: 1, activity: 2 } as const;
/** Limits the requests: any client that can write Leases can name task queues. */
const maxConcurrentRequests = 8;

/** Reads the pollers of task queues from the Temporal of the default settings. Rejects with a one-line Error. */
export async function pollersOf(queues: readonly TaskQueue[]): Promise<PollerReport> {
  const distinct = new Map(queues.map((queue) => [keyOf(queue), queue]));
  const known = new Map<string, Pollers>();
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
    pollsOf: (worker) => {
      const pollers = known.get(keyOf(worker));
      return pollers && (pollers.get(worker.identity) ?? {});
    },
  };
}

async function describe(
  { workflowService }: Temporal['connection'],
  { namespace, taskQueue }: TaskQueue,
): Promise<Pollers> {
  const pollers = new Map<string, Polls>();
  for (const [kind, taskQueueType] of Object.entries(kinds)) {
    const request = { namespace, taskQueue: { name: taskQueue }, taskQueueType };
    const answer = await workflowService.describeTaskQueue(request);
    for (const { identity, lastAccessTime } of answer.pollers ?? []) {
      const at = new Date(Number(lastAccessTime?.seconds ?? 0) * 1_000).toISOString();
      pollers.set(identity ?? '', { ...pollers.get(identity ?? ''), [kind]: at });
    }
  }
  return pollers;
}

function keyOf({ namespace, taskQueue }: TaskQueue): string {
  return JSON.stringify([namespace, taskQueue]);
}

function problemOf({ namespace, taskQueue }: TaskQueue, problem: string): string {
  return `task queue ${escapeForTerminal(taskQueue)} of Temporal namespace ${escapeForTerminal(namespace)}: ${problem}`;
}
