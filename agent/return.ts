import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { podKey } from '../domain/staticPods/manifest.ts';
import { errorMessage } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { type FolderPaths, ManifestFolders } from './staticPods/folders.ts';

/**
 * Puts back all manifests that a stopped agent holds. Without a hold directory nothing is held. Rejects with an Error that names each file that stays in
 * the hold directory, and what to do about it.
 */
export async function returnHeld(paths: FolderPaths, log: Log): Promise<void> {
  const { staticPodPath, holdDirectory } = paths;
  if (!(await hasFiles(holdDirectory))) return;
  const folders = new ManifestFolders(paths, log);
  const problems: string[] = [];
  const { held, present } = await folders.read();
  for (const { file, manifest } of held) {
    // The kubelet runs one of the manifests of a pod, whichever it finds first.
    const newer = manifest && present.find((one) => one.file !== file && podKey(one) === podKey(manifest));
    const problem =
      newer === undefined
        ? await putBack(folders, file, staticPodPath)
        : `${join(staticPodPath, newer.file)} is a manifest of the same pod: compare the two files, remove one of them, and try again`;
    if (problem === undefined) log.info('Manifest put back', { file, path: staticPodPath });
    else problems.push(`${join(holdDirectory, file)}: not put back into ${staticPodPath}: ${problem}`);
  }
  if (problems.length > 0) throw new Error(problems.join('\n'));
}

async function putBack(folders: ManifestFolders, file: string, path: string): Promise<string | undefined> {
  try {
    if (await folders.putBack(file)) return undefined;
    return `${join(path, file)} exists: compare the two files, remove one of them, and try again`;
  } catch (error) {
    return errorMessage(error);
  }
}

async function hasFiles(folder: string): Promise<boolean> {
  try {
    return (await readdir(folder, { withFileTypes: true })).some((entry) => !entry.isDirectory());
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return false;
  }
}
