import { readdir, readFile, readlink } from 'node:fs/promises';
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
  for (const mounts of await mountTables())
    if ([...uids].some((uid) => mounts.includes(`/pods/${uid}/`))) return true;
  return false;
}

/** Returns the mounts of all containers, one text for each mount namespace. */
async function mountTables(): Promise<string[]> {
  const own = await readlink('/proc/self/ns/mnt').catch(() => '');
  const seen = new Set([own]);
  const tables: string[] = [];
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const namespace = await readlink(join('/proc', pid, 'ns/mnt')).catch(() => '');
    if (namespace === '' || seen.has(namespace)) continue;
    seen.add(namespace);
    // The process may have ended since.
    tables.push(await readFile(join('/proc', pid, 'mountinfo'), 'utf8').catch(() => ''));
  }
  return tables;
}
