import type { Evacuation, EvacuationStatus } from '../../api/evacuation.ts';
import { FIELD_MANAGER } from '../../api/names.ts';
import { type Blocker, blockedConditions, reportedBlocker } from '../../domain/evacuation/blocker.ts';
import { sleep } from '../../kube/abort.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import { ignoreConflict } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { keyOf } from '../../kube/store.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';
import type { Waiting } from './evictionQueue.ts';

interface Deps {
  cluster: FencedCluster;
  log: Log;
  /** Returns what the eviction of an Evacuation's pod waits for, by the key of the Evacuation. */
  waitingReason: (key: string) => Waiting | undefined;
}

/** The message of a waiting Evacuation is refreshed at most this often. */
export const messageIntervalMs = 30_000;
/**
 * Messages about pods that wait for a budget are written one at a time with this interval, plus 1 ms for each further pod
 * that waits: most pods are evicted before their message is due.
 */
const writeIntervalMs = 200;
const writeIntervalPerWaitingMs = 1;
/** Reports about pods that terminate are this far apart: in a large drain most pods are gone before theirs is due. */
const terminationIntervalMs = 100;

/** Writes the message and the Blocked condition of Evacuations, at a limited rate. */
export class StatusMessages {
  readonly #cluster: FencedCluster;
  readonly #log: Log;
  readonly #waitingReason: Deps['waitingReason'];
  readonly #queue = new WorkQueue('evacuation-status');
  /** Key of an Evacuation -> when its message was last written, and which version of it was read before. */
  readonly #written = new Map<string, { atMs: number; resourceVersion: string | undefined }>();

  /** Key of an Evacuation -> when the report about its terminating pod is due. */
  readonly #terminationDueAtMs = new Map<string, number>();
  #nextTerminationAtMs = 0;

  constructor({ cluster, log, waitingReason }: Deps) {
    this.#cluster = cluster;
    this.#log = log;
    this.#waitingReason = waitingReason;
  }

  run(signal: AbortSignal): Promise<void> {
    const reconcile = (key: string) => this.#writeWaiting(key, signal);
    return this.#queue.run({ workers: 1, reconcile, signal, log: this.#log, observer: this.#cluster.queues });
  }

  /** Writes what an Evacuation waits for when it is next in line. */
  enqueueWaiting(key: string): void {
    this.#queue.add(key);
  }

  /** Writes status fields at once, even if the message was written a moment ago. */
  async write(
    evacuation: Evacuation,
    status: Partial<EvacuationStatus>,
    blocker: Blocker | undefined,
  ): Promise<void> {
    this.#written.delete(keyOf(evacuation));
    await this.writeIfDue(evacuation, status, blocker);
  }

  /** Writes status fields unless nothing changed or the message was written recently. Returns whether it wrote them. */
  async writeIfDue(
    evacuation: Evacuation,
    status: Partial<EvacuationStatus>,
    blocker: Blocker | undefined,
  ): Promise<boolean> {
    const hasSameReason = reportedBlocker(evacuation.status)?.reason === blocker?.reason;
    const isUnchanged = hasSameReason && evacuation.status?.message === status.message;
    if (isUnchanged && status.failedEvictionCounter === undefined) return false;
    const key = keyOf(evacuation);
    const { resourceVersion } = evacuation.metadata;
    const written = this.#written.get(key);
    const isRecent = written !== undefined && Date.now() - written.atMs < messageIntervalMs;
    // The informer does not show the last write yet. When it does, the Evacuation is reconciled again.
    const isStale = written?.resourceVersion === resourceVersion;
    if (isRecent && (hasSameReason || isStale)) return false;
    this.#written.set(key, { atMs: Date.now(), resourceVersion });
    await this.#patch(evacuation, status, blocker).catch((error: unknown) => {
      this.#written.delete(key);
      ignoreConflict(error);
    });
    return true;
  }

  /** Returns how long the report about the terminating pod of an Evacuation has to wait for those of others. */
  terminationDelayMs(key: string): number {
    const nowMs = Date.now();
    let dueAtMs = this.#terminationDueAtMs.get(key);
    if (dueAtMs === undefined) {
      dueAtMs = Math.max(nowMs, this.#nextTerminationAtMs);
      this.#nextTerminationAtMs = dueAtMs + terminationIntervalMs;
    }
    if (dueAtMs > nowMs) this.#terminationDueAtMs.set(key, dueAtMs);
    else this.#terminationDueAtMs.delete(key);
    return Math.max(0, dueAtMs - nowMs);
  }

  forget(key: string): void {
    this.#written.delete(key);
    this.#terminationDueAtMs.delete(key);
  }

  async #writeWaiting(key: string, signal: AbortSignal): Promise<Requeue | undefined> {
    const evacuation = this.#cluster.evacuations.get(key);
    const waiting = this.#waitingReason(key);
    if (evacuation === undefined || waiting === undefined) return undefined;
    const isWritten = await this.writeIfDue(evacuation, { message: waiting.message }, waiting.blocker);
    const intervalMs = Math.max(writeIntervalMs, this.#queue.length * writeIntervalPerWaitingMs);
    if (isWritten) await sleep(intervalMs, signal);
    return { requeueAfterMs: messageIntervalMs };
  }

  async #patch(
    { metadata, status: current }: Evacuation,
    status: Partial<EvacuationStatus>,
    blocker: Blocker | undefined,
  ): Promise<void> {
    const { kube } = this.#cluster;
    const { name, namespace = '', uid } = metadata;
    const conditions = blockedConditions(current?.conditions ?? [], blocker, kube.now());
    const patch = { metadata: { uid }, status: { ...status, conditions } };
    await kube.mergePatch(resources.evacuations, { namespace, name }, patch, {
      subresource: 'status',
      fieldManager: FIELD_MANAGER,
    });
  }
}
