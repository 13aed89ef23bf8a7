import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { NodeMaintenance, NodeMaintenanceStatus } from '../api/nodeMaintenance.ts';
import { emptyStatus } from '../domain/maintenance/status.ts';
import { type BackOff, backOffMs } from '../kube/backOff.ts';
import type { Kube } from '../kube/client.ts';
import { isKubeError } from '../kube/errors.ts';
import { writeMaintenanceStatus } from '../kube/maintenanceStatus.ts';
import { resources, versionOf } from '../kube/resources.ts';

export type StatusChange = (status: NodeMaintenanceStatus) => NodeMaintenanceStatus;

/** "At most one status write a second"; a later change replaces an earlier one that is not yet written. */
const writeEveryMs = 1_000;
/** Number of attempts to write. With the pauses, they take some three seconds. */
const attempts = 10;
const conflictBackOff: BackOff = { firstMs: 10, capMs: 500 };

/**
 * Writes the status of one maintenance. A change is applied to the newest status and written with its resourceVersion, so that a process
 * that was suspended overwrites nothing when it resumes.
 */
export class StatusWriter {
  readonly #kube: Kube;
  readonly #uid: string;
  #latest: NodeMaintenance;
  #change: StatusChange | undefined;
  #generation = 0;
  readonly #lastWrites: Map<string, number>;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #error: unknown;

  /** `lastWrites`: maintenance UID -> when any activity of this process last wrote its status, as performance.now() returned it. */
  constructor(kube: Kube, maintenance: NodeMaintenance, lastWrites: Map<string, number>) {
    this.#kube = kube;
    this.#lastWrites = lastWrites;
    this.#latest = maintenance;
    this.#uid = maintenance.metadata.uid ?? '';
  }

  /** The newest known object: from the informer, or from the response to the last write. */
  get latest(): NodeMaintenance {
    return this.#latest;
  }

  /** Replaces `latest` if the object of the informer is newer. */
  update(cached: NodeMaintenance): void {
    if (versionOf(cached) > versionOf(this.#latest)) this.#latest = cached;
  }

  /**
   * Schedules a write. A later change replaces one that is not yet written. Throws the error of an earlier write. `generation` is that of the
   * object which the change was decided from.
   */
  publish(change: StatusChange, generation: number = this.#latest.metadata.generation ?? 0): void {
    this.#throwEarlierError();
    this.#change = change;
    this.#generation = generation;
    this.#timer ??= setTimeout(
      () => this.#enqueueWrite(),
      Math.max(0, (this.#lastWrites.get(this.#uid) ?? -Infinity) + writeEveryMs - performance.now()),
    );
  }

  /** Writes the pending change now. Resolves when the apiserver has stored it. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#enqueueWrite();
    await this.#writing;
    this.#throwEarlierError();
  }

  /**
   * Writes a change of exactly this version of the object, instead of the pending one. Resolves with false if the object has changed since:
   * then nothing is written, because the change was decided from that version.
   */
  async writeAt(object: NodeMaintenance, change: StatusChange): Promise<boolean> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#change = undefined;
    await this.#writing;
    this.#throwEarlierError();
    this.update(object);
    if (versionOf(this.#latest) !== versionOf(object)) return false;
    this.#generation = object.metadata.generation ?? 0;
    this.#lastWrites.set(this.#uid, performance.now());
    try {
      await this.#patchIfChanged(change);
      return true;
    } catch (error) {
      if (!isKubeError(error, 'Conflict', 'NotFound')) throw error;
      return false;
    }
  }

  /** Drops the pending change: the next activity decides again. */
  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    this.#change = undefined;
    await this.#writing;
  }

  #enqueueWrite(): void {
    this.#timer = undefined;
    const write = async () => {
      const change = this.#change;
      this.#change = undefined;
      if (change === undefined) return;
      this.#lastWrites.set(this.#uid, performance.now());
      await this.#write(change);
    };
    this.#writing = this.#writing.then(write).catch((error: unknown) => {
      this.#error = error;
    });
  }

  async #write(change: StatusChange): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#patchIfChanged(change);
        return;
      } catch (error) {
        if (isKubeError(error, 'NotFound')) return;
        if (!isKubeError(error, 'Conflict') || attempt === attempts) throw error;
        await sleep(backOffMs(attempt - 1, conflictBackOff));
        if (!(await this.#reread())) return;
      }
    }
  }

  async #patchIfChanged(change: StatusChange): Promise<void> {
    const current = this.#latest.status ?? emptyStatus;
    const { generation = 0 } = this.#latest.metadata;
    const observed = Math.max(current.observedGeneration, this.#generation);
    // A client of Temporal may have named any generation.
    const next = { ...change(current), observedGeneration: Math.min(observed, generation) };
    if (this.#latest.status !== undefined && isDeepStrictEqual(next, this.#latest.status)) return;
    await this.#patch(next);
  }

  async #patch(status: NodeMaintenanceStatus): Promise<void> {
    const version = { ...this.#latest.metadata, uid: this.#uid };
    this.#latest = await writeMaintenanceStatus(this.#kube, version, status);
  }

  /** Reads the object again. Resolves with false if it is gone, or another object has its name. */
  async #reread(): Promise<boolean> {
    const fresh = await this.#kube.get(resources.nodeMaintenances, { name: this.#latest.metadata.name });
    if (fresh === undefined || fresh.metadata.uid !== this.#uid) return false;
    this.#latest = fresh;
    return true;
  }

  #throwEarlierError(): void {
    const error = this.#error;
    this.#error = undefined;
    if (error !== undefined) throw error;
  }
}
