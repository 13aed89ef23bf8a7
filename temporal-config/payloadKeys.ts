import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A key of AES-256, and the id that payloads name it by. */
export interface PayloadKey {
  readonly id: string;
  readonly bytes: Buffer;
}

/** The keys of a folder. */
interface KeySet {
  readonly keys: ReadonlyMap<string, PayloadKey>;
  /** The one that encrypts; the others only decrypt. */
  readonly current: PayloadKey;
}

/** The keys of a folder are missing or invalid. The message is one line that names the file and the remedy. */
export class PayloadKeysError extends Error {
  override readonly name = 'PayloadKeysError';
}

/** The file that contains the id of the key that encrypts. */
const currentFile = 'current';

/** Kubernetes mounts a Secret with entries that begin with two dots. */
const keyId = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$/;
const base64Of32Bytes = /^[A-Za-z0-9+/]{43}=$/;

function readKeySet(folder: string): KeySet {
  const ids = entriesOf(folder).filter((name) => keyId.test(name) && name !== currentFile);
  const keys = new Map(ids.map((id) => [id, { id, bytes: readKey(join(folder, id)) }]));
  const file = join(folder, currentFile);
  const id = contentOf(file, 'write the id of the key that encrypts into it, which is the name of its file');
  const current = keys.get(id);
  if (current === undefined)
    throw new PayloadKeysError(
      `${file}: there is no key "${id}" in ${folder}; it has ${ids.join(', ') || 'none'}: add the file, or name another key`,
    );
  return { keys, current };
}

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder).toSorted();
  } catch (error) {
    throw unreadable(folder, error, 'correct the path or its permissions');
  }
}

function readKey(file: string): Buffer {
  const text = contentOf(file, 'correct its permissions');
  if (!base64Of32Bytes.test(text))
    throw new PayloadKeysError(
      `${file}: expected 32 bytes in base64, such as the output of openssl rand -base64 32: correct or remove it`,
    );
  return Buffer.from(text, 'base64');
}

function contentOf(file: string, remedy: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    throw unreadable(file, error, remedy);
  }
}

function unreadable(path: string, error: unknown, remedy: string): PayloadKeysError {
  const { code = 'unknown' } = error as NodeJS.ErrnoException;
  return new PayloadKeysError(`${path} cannot be read (${code}): ${remedy}`, { cause: error });
}

interface PayloadKeysOptions {
  /** Called when the changed folder is invalid and the former keys stay in use; with undefined when it is valid again. */
  onProblem?: ((problem: string | undefined) => void) | undefined;
  /** Time in milliseconds. */
  now?: () => number;
}

/** How long the keys are used until the folder is read again. */
const rereadAfterMs = 5_000;
/** The same if a key is missing: any client can name any key. */
const rereadForMissingAfterMs = 1_000;

/**
 * The keys of a folder with one file per key, named by its id, and the file `current`, such as a mounted Secret. The folder is read again
 * when the keys are used: keys are added, replaced and removed without a restart.
 */
export class PayloadKeys {
  readonly folder: string;
  readonly #options: PayloadKeysOptions;
  #set: KeySet;
  #readAtMs: number;
  #problem: string | undefined;

  /** Throws a PayloadKeysError if the folder is invalid. */
  constructor(folder: string, options: PayloadKeysOptions = {}) {
    this.folder = folder;
    this.#options = options;
    this.#readAtMs = this.#now();
    this.#set = readKeySet(folder);
  }

  current(): PayloadKey {
    this.#reread(rereadAfterMs);
    return this.#set.current;
  }

  find(id: string): PayloadKey | undefined {
    this.#reread(this.#set.keys.has(id) ? rereadAfterMs : rereadForMissingAfterMs);
    return this.#set.keys.get(id);
  }

  /** Keeps the former keys if the folder is invalid, for example in the middle of a change. */
  #reread(afterMs: number): void {
    if (this.#now() - this.#readAtMs < afterMs) return;
    this.#readAtMs = this.#now();
    try {
      this.#set = readKeySet(this.folder);
      this.#report(undefined);
    } catch (error) {
      if (!(error instanceof PayloadKeysError)) throw error;
      this.#report(error.message);
    }
  }

  #report(problem: string | undefined): void {
    if (problem === this.#problem) return;
    this.#problem = problem;
    this.#options.onProblem?.(problem);
  }

  #now(): number {
    return (this.#options.now ?? performance.now.bind(performance))();
  }
}
