import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A folder of keys, as an operator maintains it. */
export interface KeyFolder {
  readonly path: string;
  /** Adds or replaces a key with random bytes, which it returns. */
  add(id: string): Promise<Buffer>;
  /** Names the key that encrypts. */
  use(id: string): Promise<void>;
  remove(id: string): Promise<void>;
  write(file: string, content: string): Promise<void>;
  discard(): Promise<void>;
}

/** Creates a folder with one key, which encrypts. */
export async function keyFolder(id: string): Promise<KeyFolder> {
  const path = await mkdtemp(join(tmpdir(), 'nm-keys-'));
  const write = (file: string, content: string) => writeFile(join(path, file), content);
  const folder: KeyFolder = {
    path,
    write,
    add: async (name) => {
      const bytes = randomBytes(32);
      await write(name, `${bytes.toString('base64')}\n`);
      return bytes;
    },
    use: (name) => write('current', `${name}\n`),
    remove: (name) => rm(join(path, name)),
    discard: () => rm(path, { recursive: true, force: true }),
  };
  // Such as Kubernetes adds to a mounted Secret.
  await symlink(path, join(path, '..data'));
  await folder.add(id);
  await folder.use(id);
  return folder;
}
