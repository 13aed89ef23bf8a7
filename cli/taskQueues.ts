import type { TemporalWorker } from '../domain/processSummary.ts';

/** When a worker last asked for work of each kind; missing where it never did. RFC 3339. */
export interface Polls {
  readonly workflow?: string;
  readonly activity?: string;
}

/** By identity. */
type Pollers = ReadonlyMap<string, Polls>;

/** temporal.api.enums.v1.TaskQueueType */
const kinds = { workflow: 1, activity: 2 } as const;
const answersWithin = 5_000;

/** Who polls which task queue, from the Temporal that the usual settings name. Rejects with an Error of one line. */
export async function pollersOf(
  queues: readonly Omit<TemporalWorker, 'identity'>[],
): Promise<(worker: TemporalWorker) => Polls | undefined> {
  const distinct = new Map(queues.map((queue) => [keyOf(queue), queue]));
  if (distinct.size === 0) return () => undefined;
  const { connection, address } = await connected();
  try {
    const known = new Map<string, Pollers>();
    const signal = AbortSignal.timeout(answersWithin);
    for (const [key, queue] of distinct) {
      const pollers = await connection.withAbortSignal(signal, () => describe(connection, queue));
      known.set(key, pollers);
    }
    return (worker) => known.get(keyOf(worker))?.get(worker.identity) ?? {};
  } catch (error) {
    throw unanswered(address, error);
  } finally {
    await connection.close();
  }
}

/** It is large, and the other verbs do without it. */
async function connected() {
  const [{ Connection }, { loadClientConnectConfig }] = await Promise.all([
    import('@temporalio/client'),
    import('@temporalio/envconfig'),
  ]);
  const { connectionOptions } = loadClientConnectConfig();
  const address = connectionOptions.address ?? 'localhost:7233';
  try {
    const connection = await Connection.connect({ ...connectionOptions, connectTimeout: answersWithin });
    return { connection, address };
  } catch (error) {
    throw unanswered(address, error);
  }
}

type Connection = Awaited<ReturnType<typeof connected>>['connection'];

async function describe(
  { workflowService }: Connection,
  { namespace, taskQueue }: Omit<TemporalWorker, 'identity'>,
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

function keyOf({ namespace, taskQueue }: Omit<TemporalWorker, 'identity'>): string {
  return JSON.stringify([namespace, taskQueue]);
}

function unanswered(address: string, cause: unknown): Error {
  return new Error(`Temporal at ${address} does not answer: check TEMPORAL_ADDRESS`, { cause });
}
