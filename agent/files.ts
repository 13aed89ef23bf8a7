import { mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Makes the names in a folder durable: a rename survives a power loss only after this. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** Makes a folder, and those above it that are missing, which only root may list. Its name is durable afterwards, also if it existed. */
export async function makeFolder(path: string): Promise<void> {
  const first = await mkdir(path, { recursive: true, mode: 0o700 });
  const top = dirname(first ?? path);
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    await syncFolder(folder);
    if (folder.length <= top.length) return;
  }
}
