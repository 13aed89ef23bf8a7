import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { uptime } from 'node:os';
import { join } from 'node:path';

/** Record of a shutdown in progress, so that a restart of the agent does not extend it. */
export interface ShutdownRecord {
  /** Start of the shutdown in seconds since the boot. No change of the wall clock affects it. */
  readonly startedAtUptime: number;
  /** The kubelet terminates pods itself since the agent sent it PrepareForShutdown. */
  readonly kubeletNotified: boolean;
}

/** Keeps the record in a file of a directory that a boot empties, such as /run/node-maintenance-agent. */
export class ShutdownRecordFile {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Resolves with undefined if there is none, or it cannot be read. */
  async read(): Promise<ShutdownRecord | undefined> {
    try {
      const { startedAtUptime, kubeletNotified } = JSON.parse(
        await readFile(this.#path, 'utf8'),
      ) as Partial<ShutdownRecord>;
      if (typeof startedAtUptime !== 'number' || startedAtUptime > uptime()) return undefined;
      return { startedAtUptime, kubeletNotified: kubeletNotified === true };
    } catch {
      return undefined;
    }
  }

  async write(record: ShutdownRecord): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    const next = `${this.#path}.next`;
    await writeFile(next, JSON.stringify(record));
    await rename(next, this.#path);
  }

  async remove(): Promise<void> {
    await rm(this.#path, { force: true });
  }

  get #path(): string {
    return join(this.#directory, 'shutdown.json');
  }
}
