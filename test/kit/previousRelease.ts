import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { brotliDecompress } from 'node:zlib';

const root = fileURLToPath(new URL('../..', import.meta.url));
const kept = join(root, 'test', 'release', 'previous.tar.br');

/**
 * Unpacks the worker and the manifests that `npm run previous-release` has kept into a directory in `dir`, and returns it. The packages are
 * those of this release.
 */
export async function unpackPreviousRelease(dir: string): Promise<string> {
  const source = await mkdtemp(join(dir, 'previous-'));
  const archive = join(dir, 'previous.tar');
  await writeFile(archive, await promisify(brotliDecompress)(await readFile(kept)));
  await promisify(execFile)('tar', ['-xf', archive, '-C', source]);
  await linkPackages(source);
  return source;
}

/** Not the folder itself: it also contains what processes of this release have prepared from its sources. */
async function linkPackages(source: string): Promise<void> {
  const [from, to] = [join(root, 'node_modules'), join(source, 'node_modules')];
  await mkdir(to);
  const names = (await readdir(from)).filter((name) => !name.startsWith('.'));
  await Promise.all(names.map((name) => symlink(join(from, name), join(to, name))));
}
