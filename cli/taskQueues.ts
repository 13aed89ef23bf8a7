import type { TemporalWorker } from '../domain/processSummary.ts';
import { forEachBounded } from '../kube/bounded.ts';
import { wordsOf } from '../kube/errors.ts';
import { shown } from './output.ts';
import { answersWithin, connectTemporal, type Temporal } from './temporal.ts';

/** When a worker last asked for work of each kind; missing where it never did. RFC 3339. */
export interface Polls {
  readonly workflow?: string;
  readonly activity?: string;
}

/** What Temporal tells about the task queues that it was asked about. */
export interface Polled {
  /** Undefined where Temporal did not tell. */
  readonly pollsOf: (worker: TemporalWorker) => Polls | undefined;
  /** What it did not tell, and why, each in one line. */
  readonly problems: readonly string[];
}

type TaskQueue = Omit<TemporalWorker, 'identity'>;

/** By identity. */
type Pollers = ReadonlyMap<string, Polls>;

/** temporal.api.enums.v1.TaskQueueType */
const kinds = { workflow: 1, activity: 2 } as const;
/** Anybody who may write a Lease may name a queue. */
const atOnce = 8;

/** Who polls which task queue, from the Temporal that the usual settings name. Rejects with an Error of one line. */
export async function pollersOf(queues: readonly TaskQueue[]): Promise<Polled> {
  const distinct = new Map(queues.map((queue) => [keyOf(queue), queue]));
  const known = new Map<string, Pollers>();
  const problems: string[] = [];
  if (distinct.size > 0) {
    const { connection } = await connectTemporal();
    const signal = AbortSignal.timeout(answersWithin);
    const ask = async ([key, queue]: [string, TaskQueue]) => {
      try {
        known.set(key, await connection.withAbortSignal(signal, () => describe(connection, queue)));
      } catch (error) {
        problems.push(problemOf(queue, signal.aborted ? 'no answer' : wordsOf(error)));
      }
    };
    await forEachBounded(atOnce, [...distinct], ask);
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

function problemOf({ namespace, taskQueue }: TaskQueue, words: string): string {
  return `task queue ${shown(taskQueue)} of Temporal namespace ${shown(namespace)}: ${words}`;
}
