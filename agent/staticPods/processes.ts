import { createReadStream } from 'node:fs';
import { readdir, readlink } from 'node:fs/promises';
import { join } from 'node:path';

/** Finds the processes of static pods among those of the host. */
export interface ProcessFinder {
  /** The kubelet's folder of logs, which has a folder `<namespace>_<name>_<uid>` for each pod. */
  readonly podLogDirectory: string;
}

/**
 * Reports whether a container of the pod runs on this host; undefined if that cannot be known. The kubelet mounts a file of its folder
 * `pods/<uid>` in every container, whatever the cgroups and the runtime are. It removes the logs of a pod soon after its containers: the UIDs that
 * were found are added to `uids`, and count the next time.
 */
export async function hasProcesses(
  { podLogDirectory }: ProcessFinder,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  uids: Set<string>,
): Promise<boolean | undefined> {
  const prefix = `${namespace}_${name}_`;
  const folders = await readdir(podLogDirectory).catch(() => []);
  for (const folder of folders) if (folder.startsWith(prefix)) uids.add(folder.slice(prefix.length));
  if (uids.size === 0) return undefined;
  const folderNames = [...uids].map((uid) => `/pods/${uid}/`);
  for await (const file of mountTables()) if (await containsAny(file, folderNames)) return true;
  return false;
}

/** Yields a file with the mounts of each mount namespace of the host but that of the agent. */
async function* mountTables(): AsyncGenerator<string> {
  const own = await readlink('/proc/self/ns/mnt').catch(() => '');
  const seen = new Set([own]);
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const namespace = await readlink(join('/proc', pid, 'ns/mnt')).catch(() => '');
    if (namespace === '' || seen.has(namespace)) continue;
    seen.add(namespace);
    yield join('/proc', pid, 'mountinfo');
  }
}

/** Reads the file in parts: users of the host may create mount namespaces with many thousands of mounts. */
async function containsAny(file: string, texts: readonly string[]): Promise<boolean> {
  const overlap = Math.max(...texts.map(({ length }) => length)) - 1;
  let end = '';
  try {
    for await (const part of createReadStream(file, { encoding: 'latin1' })) {
      const read = `${end}${String(part)}`;
      if (texts.some((text) => read.includes(text))) return true;
      end = read.slice(-overlap);
    }
  } catch {
    // The process has ended since.
  }
  return false;
}
