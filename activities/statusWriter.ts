import { isDeepStrictEqual } from 'node:util';
import type { NodeMaintenance, NodeMaintenanceStatus } from '../api/nodeMaintenance.ts';
import { FIELD_MANAGER } from '../api/names.ts';
import { emptyStatus } from '../domain/status.ts';
import type { Kube } from '../kube/client.ts';
import { isKubeError } from '../kube/errors.ts';
import { resources, versionOf } from '../kube/resources.ts';

export type StatusChange = (status: NodeMaintenanceStatus) => NodeMaintenanceStatus;

/** "At most one status write a second", and the newest decision wins. Milliseconds. */
const writeEvery = 1_000;
const attempts = 3;

/**
 * Writes the status of one maintenance. A change is applied to the newest status and written under its
 * resourceVersion, so that a process that was paused and wakes late overwrites nothing.
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

  /** `lastWrites`: maintenance UID -> when its status was last written, by whichever activity; Date.now(). */
  constructor(kube: Kube, seen: NodeMaintenance, lastWrites: Map<string, number>) {
    this.#kube = kube;
    this.#lastWrites = lastWrites;
    this.#latest = seen;
    this.#uid = seen.metadata.uid ?? '';
  }

  /** The newest object that is known: from the informer, or from the answer to our own last write. */
  get latest(): NodeMaintenance {
    return this.#latest;
  }

  /** Takes note of what an informer has, unless our own write is newer. */
  see(seen: NodeMaintenance): void {
    if (versionOf(seen) > versionOf(this.#latest)) this.#latest = seen;
  }

  /** Writes soon: a later change replaces an unwritten one. Throws what an earlier write failed with. */
  publish(change: StatusChange): void {
    this.#throwEarlierError();
    this.#change = change;
    this.#generation = this.#latest.metadata.generation ?? 0;
    this.#timer ??= setTimeout(
      () => this.#writeSoon(),
      Math.max(0, (this.#lastWrites.get(this.#uid) ?? 0) + writeEvery - Date.now()),
    );
  }

  /** Writes what is unwritten; resolves when the apiserver has it. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#writeSoon();
    await this.#writing;
    this.#throwEarlierError();
  }

  /** Drops what is unwritten: whoever goes on decides anew. */
  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    this.#change = undefined;
    await this.#writing;
  }

  #writeSoon(): void {
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

  /** Whether the object is still there, and still the same one. */
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
