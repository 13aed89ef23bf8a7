import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { FIELD_MANAGER } from '../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceStatus } from '../api/nodeMaintenance.ts';
import { emptyStatus } from '../domain/maintenance/status.ts';
import { type BackOff, backOffMs } from '../kube/backOff.ts';
import type { Kube } from '../kube/client.ts';
import { isKubeError } from '../kube/errors.ts';
import { resources, versionOf } from '../kube/resources.ts';

export type StatusChange = (status: NodeMaintenanceStatus) => NodeMaintenanceStatus;

/** "At most one status write a second"; a later change replaces an earlier one that is not yet written. */
const writeEveryMs = 1_000;
/** With the pauses, some three seconds. */
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

  /** `lastWrites`: maintenance UID -> when any activity of this process last wrote its status, in milliseconds since the epoch. */
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

  /** Schedules a write. A later change replaces one that is not yet written. Throws the error of an earlier write. */
  publish(change: StatusChange): void {
    this.#throwEarlierError();
    this.#change = change;
    this.#generation = this.#latest.metadata.generation ?? 0;
    this.#timer ??= setTimeout(
      () => this.#enqueueWrite(),
      Math.max(0, (this.#lastWrites.get(this.#uid) ?? 0) + writeEveryMs - Date.now()),
    );
  }

  /** Writes the pending change now. Resolves when the apiserver has stored it. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#enqueueWrite();
    await this.#writing;
    this.#throwEarlierError();
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
      this.#lastWrites.set(this.#uid, Date.now());
      await this.#write(change);
    };
    this.#writing = this.#writing.then(write).catch((error: unknown) => {
      this.#error = error;
    });
  }

  async #write(change: StatusChange): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      const current = this.#latest.status ?? emptyStatus;
      const next = {
        ...change(current),
        observedGeneration: Math.max(current.observedGeneration, this.#generation),
      };
      if (this.#latest.status !== undefined && isDeepStrictEqual(next, this.#latest.status)) return;
      try {
        await this.#patch(next);
        return;
      } catch (error) {
        if (isKubeError(error, 'NotFound')) return;
        if (!isKubeError(error, 'Conflict') || attempt === attempts) throw error;
        await sleep(backOffMs(attempt - 1, conflictBackOff));
        if (!(await this.#reread())) return;
      }
    }
  }

  async #patch(status: NodeMaintenanceStatus): Promise<void> {
    const { name, resourceVersion } = this.#latest.metadata;
    this.#latest = await this.#kube.mergePatch(
      resources.nodeMaintenances,
      { name },
      { metadata: { uid: this.#uid, resourceVersion }, status },
      { subresource: 'status', fieldManager: FIELD_MANAGER },
    );
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
