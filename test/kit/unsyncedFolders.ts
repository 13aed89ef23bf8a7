import promises, { type FileHandle } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { basename, dirname } from 'node:path';

/**
 * Watches what a process does to names in folders: a power loss may undo the changes of a folder that was not synced since. Import it before the code
 * that is observed. Files whose names begin with a dot do not count: nobody misses them.
 */

type Operation = (...args: unknown[]) => Promise<unknown>;

const changed = new Set<string>();
const unsynced = new Set<string>();
const early: string[] = [];

const table = promises as unknown as Record<string, Operation>;

/** Calls `note` with the arguments and the result of each call that has succeeded. */
function observe(operation: string, note: (args: string[], result: unknown) => void): void {
  const original = table[operation];
  if (original === undefined) throw new Error(`unknown operation ${operation}`);
  table[operation] = async (...args) => {
    const result = await original(...args);
    note(args.map(String), result);
    return result;
  };
}

function noteChange(path: string): void {
  if (basename(path).startsWith('.')) return;
  changed.add(dirname(path));
  unsynced.add(dirname(path));
}

observe('rename', ([from = '', to = '']) => [from, to].forEach(noteChange));
observe('link', ([, to = '']) => noteChange(to));
observe('writeFile', ([path = '']) => noteChange(path));
observe('mkdir', ([path = ''], first) => {
  // The first of the folders that were made.
  if (typeof first !== 'string') return;
  for (let made = path; made.length >= first.length; made = dirname(made)) noteChange(made);
});
observe('unlink', ([path = '']) => {
  // The other name of the file must be durable before.
  if (!basename(path).startsWith('.'))
    early.push(...[...unsynced].filter((folder) => folder !== dirname(path)));
  noteChange(path);
});
observe('open', ([path = ''], opened) => {
  const handle = opened as FileHandle;
  const sync = handle.sync.bind(handle);
  handle.sync = async () => {
    await sync();
    unsynced.delete(path);
  };
});
syncBuiltinESMExports();

/** Returns what was changed since the last call, and what of it is not durable. */
export function folderChanges(): { changed: string[]; unsynced: string[]; early: string[] } {
  const found = { changed: [...changed].toSorted(), unsynced: [...unsynced].toSorted(), early: [...early] };
  changed.clear();
  unsynced.clear();
  early.length = 0;
  return found;
}
