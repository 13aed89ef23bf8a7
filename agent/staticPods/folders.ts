import {
  link,
  lstat,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  unlink,
  writeFile,
} from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { type HeldManifest, type Manifest, manifestOf } from '../../domain/staticPods/manifest.ts';
import { errorMessage } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import { makeFolder, syncFolder } from '../files.ts';

export interface FolderPaths {
  /** The folder that the kubelet reads. */
  readonly staticPodPath: string;
  /** Where manifests are held, on the same file system. */
  readonly holdDirectory: string;
}

/** Content of both folders. */
export interface Manifests {
  readonly present: readonly Manifest[];
  readonly held: readonly HeldManifest[];
  /** Names of the files in the static pod path that are no manifests. */
  readonly unreadable: readonly string[];
}

/** The kubelet reads no larger files. */
const maxManifestBytes = 10 * 1024 * 1024;
/** Folders in the hold directory, which contain nothing that is put back. */
const asideFolder = 'set-aside';
const exemptFolder = 'put-back-in-outage';
/** The kubelet ignores files whose name begins with a dot. */
const probeName = '.node-maintenance-agent';

/**
 * The folder of the kubelet and the hold directory. The hold directory is all that the agent remembers. Contract:
 *
 * 1. A manifest is moved whole, by the name: no file is ever copied or written, so that no crash leaves half of one.
 * 2. No move replaces another file. In the folder of the kubelet, where others write, the kernel makes sure of it: a file is put back by a
 *    link, which fails if the name exists, and then removed from the hold directory.
 * 3. Both names of a file that was being put back when the agent was killed are one file. `read` completes the move.
 * 4. A move is durable when it resolves.
 * 5. A symbolic link is moved as it is, and its manifest stays known while it is held.
 */
export class ManifestFolders {
  readonly #paths: FolderPaths;
  readonly #log: Log;
  readonly #reported = new Set<string>();

  constructor(paths: FolderPaths, log: Log) {
    this.#paths = paths;
    this.#log = log;
  }

  /** Returns false while the folder of the kubelet does not exist. Rejects with an Error that names the setting if manifests cannot be held. */
  async prepare(): Promise<boolean> {
    const { staticPodPath, holdDirectory } = this.#paths;
    if (!(await isFolder(staticPodPath))) return false;
    try {
      // Manifests of static pods contain secrets: nobody else may list what is held.
      await makeFolder(resolve(holdDirectory));
      for (const folder of [asideFolder, exemptFolder])
        await makeFolder(join(resolve(holdDirectory), folder));
      await this.#probe();
    } catch (error) {
      throw new Error(holdProblem(error, this.#paths), { cause: error });
    }
    return true;
  }

  /** Moves a file as manifests are held, and as they are put back. */
  async #probe(): Promise<void> {
    const { staticPodPath, holdDirectory } = this.#paths;
    const probe = join(holdDirectory, probeName);
    await rm(join(staticPodPath, probeName), { force: true });
    await writeFile(probe, '');
    await this.putBack(probeName);
    await this.hold(probeName);
    await unlink(probe);
  }

  async read(): Promise<Manifests> {
    const { staticPodPath, holdDirectory } = this.#paths;
    const heldFiles = await filesIn(holdDirectory);
    const files = await filesIn(staticPodPath);
    const unfinished = await this.#completeMoves(files, heldFiles);
    const contents = await Promise.all(files.map(async (file) => this.#manifest(staticPodPath, file)));
    const held = heldFiles.filter((file) => !unfinished.has(file));
    return {
      present: contents.filter((one) => one !== undefined),
      unreadable: files.filter((_, index) => contents[index] === undefined),
      held: await Promise.all(
        held.map(async (file) => ({ file, manifest: await this.#manifest(holdDirectory, file) })),
      ),
    };
  }

  /** Moves a manifest out of the folder of the kubelet. Resolves to false if it is gone. */
  async hold(file: string): Promise<boolean> {
    const { staticPodPath, holdDirectory } = this.#paths;
    return this.#moved(join(staticPodPath, file), join(holdDirectory, file));
  }

  /** Keeps a held file beside those that are put back. Resolves to its new path. */
  async setAside(file: string): Promise<string> {
    const { holdDirectory } = this.#paths;
    const folder = join(holdDirectory, asideFolder);
    const names = new Set(await readdir(folder));
    let name = file;
    for (let n = 1; names.has(name); n++) name = `${file}.${n}`;
    await this.#moved(join(holdDirectory, file), join(folder, name));
    await syncFolder(folder);
    return join(folder, name);
  }

  /** Moves a held file to the folder of the kubelet. Resolves to false if that folder has a file of this name. */
  async putBack(file: string): Promise<boolean> {
    const { staticPodPath, holdDirectory } = this.#paths;
    try {
      await link(join(holdDirectory, file), join(staticPodPath, file));
    } catch (error) {
      if (codeOf(error) === 'EEXIST') return false;
      if (codeOf(error) === 'ENOENT') return true;
      throw error;
    }
    await syncFolder(staticPodPath);
    await unlink(join(holdDirectory, file)).catch(ignoreMissing);
    await syncFolder(holdDirectory);
    return true;
  }

  /** Returns the keys of the pods that are not held again before the drain has ended. */
  async exempt(): Promise<Set<string>> {
    const files = await readdir(join(this.#paths.holdDirectory, exemptFolder));
    return new Set(files.map((file) => decodeURIComponent(file)));
  }

  async addExempt(key: string): Promise<void> {
    const folder = join(this.#paths.holdDirectory, exemptFolder);
    await writeFile(join(folder, encodeURIComponent(key)), '');
    await syncFolder(folder);
  }

  async removeExempt(key: string): Promise<void> {
    await rm(join(this.#paths.holdDirectory, exemptFolder, encodeURIComponent(key)), { force: true });
  }

  /** Returns the files that were in both folders, and are now in that of the kubelet alone. */
  async #completeMoves(files: readonly string[], heldFiles: readonly string[]): Promise<Set<string>> {
    const { staticPodPath, holdDirectory } = this.#paths;
    const completed = new Set<string>();
    for (const file of heldFiles.filter((one) => files.includes(one))) {
      if (!(await isSameFile(join(staticPodPath, file), join(holdDirectory, file)))) continue;
      await unlink(join(holdDirectory, file)).catch(ignoreMissing);
      await syncFolder(holdDirectory);
      completed.add(file);
    }
    return completed;
  }

  async #moved(from: string, to: string): Promise<boolean> {
    const { staticPodPath, holdDirectory } = this.#paths;
    try {
      await rename(from, to);
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return false;
      throw error;
    }
    await syncFolder(holdDirectory);
    await syncFolder(staticPodPath);
    return true;
  }

  async #manifest(folder: string, file: string): Promise<Manifest | undefined> {
    const path = join(folder, file);
    try {
      const source = await this.#sourceOf(path);
      const { size } = await stat(source);
      if (size > maxManifestBytes) throw new Error(`larger than ${maxManifestBytes} bytes`);
      // The kubelet reads the first document alone.
      const [document] = parseAllDocuments(await readFile(source, 'utf8'));
      const found = manifestOf(file, document?.toJS({ maxAliasCount: 100 }));
      if (found === undefined) throw new Error('not a Pod with a name');
      return found;
    } catch (error) {
      this.#reportOnce(path, errorMessage(error));
      return undefined;
    }
  }

  /** Returns the file that is read: a relative link means what it meant in the folder of the kubelet, also while it is held. */
  async #sourceOf(path: string): Promise<string> {
    const isLink = (await lstat(path)).isSymbolicLink();
    return isLink ? resolve(this.#paths.staticPodPath, await readlink(path)) : path;
  }

  #reportOnce(path: string, reason: string): void {
    const line = `${path}: ${reason}`;
    if (this.#reported.has(line)) return;
    this.#reported.add(line);
    this.#log.warn('File is not a manifest of a static pod', { path, reason });
  }
}

function holdProblem(error: unknown, { staticPodPath, holdDirectory }: FolderPaths): string {
  const names = `--hold-directory (HOLD_DIRECTORY) ${holdDirectory}`;
  if (codeOf(error) === 'EXDEV')
    return `${names} is on another file system than --static-pod-path ${staticPodPath}: choose a folder from which files can be renamed into it`;
  if (codeOf(error) === 'EPERM' || codeOf(error) === 'ENOTSUP')
    return `${names}: files cannot be linked from there into --static-pod-path ${staticPodPath}, so that manifests could not be put back: choose a folder of a file system with hard links (${errorMessage(error)})`;
  return `${names}: manifests cannot be moved there: ${errorMessage(error)}`;
}

async function isFolder(path: string): Promise<boolean> {
  const found = await stat(path).catch(ignoreMissing);
  return found?.isDirectory() ?? false;
}

/** Returns the names of the files as the kubelet reads them: no folders, and nothing whose name begins with a dot. */
async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  return entries
    .filter((entry) => (entry.isFile() || entry.isSymbolicLink()) && !entry.name.startsWith('.'))
    .map(({ name }) => name);
}

async function isSameFile(a: string, b: string): Promise<boolean> {
  const [one, other] = await Promise.all([a, b].map((path) => lstat(path).catch(ignoreMissing)));
  return one !== undefined && other !== undefined && one.ino === other.ino && one.dev === other.dev;
}

function ignoreMissing(error: unknown): undefined {
  if (codeOf(error) !== 'ENOENT') throw error;
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
