import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { brotliDecompress } from 'node:zlib';
import { packageVersion } from '../../process/packageVersion.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const kept = join(root, 'test', 'release', 'previous.tar.br');
/** The version of the kept commit while it has that of this release: nothing was released before 0.1.0. */
const versionBefore = '0.0.9';

export interface PreviousRelease {
  /** Directory of its sources and manifests. */
  readonly source: string;
  /** Its version, which differs from that of this release. */
  readonly version: string;
}

/**
 * Unpacks the worker and the manifests that `npm run previous-release` has kept into a directory in `dir`. The packages are those of this
 * release. Processes distinguish releases by their versions: a commit that has the version of this release gets an older one.
 */
export async function unpackPreviousRelease(dir: string): Promise<PreviousRelease> {
  const source = await mkdtemp(join(dir, 'previous-'));
  const archive = join(dir, 'previous.tar');
  await writeFile(archive, await promisify(brotliDecompress)(await readFile(kept)));
  await promisify(execFile)('tar', ['-xf', archive, '-C', source]);
  await linkPackages(source);
  const { version } = JSON.parse(await readFile(join(source, 'package.json'), 'utf8')) as { version: string };
  if (version !== packageVersion()) return { source, version };
  await changeVersion(source, version, versionBefore);
  return { source, version: versionBefore };
}

/** Replaces the version in the package and in the manifests: their labels, the chart and the names of images. */
async function changeVersion(source: string, from: string, to: string): Promise<void> {
  const manifests = await readdir(join(source, 'deploy'), { recursive: true, withFileTypes: true });
  const paths = manifests
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
  const whole = new RegExp(`(?<![\\w.])${from.replaceAll('.', String.raw`\.`)}(?![\\w.])`, 'g');
  await Promise.all(
    [join(source, 'package.json'), ...paths].map(async (path) => {
      const text = await readFile(path, 'utf8');
      const changed = text.replaceAll(whole, to);
      if (changed !== text) await writeFile(path, changed);
    }),
  );
}

/** Not the folder itself: it also contains what processes of this release have prepared from its sources. */
async function linkPackages(source: string): Promise<void> {
  const [from, to] = [join(root, 'node_modules'), join(source, 'node_modules')];
  await mkdir(to);
  const names = (await readdir(from)).filter((name) => !name.startsWith('.'));
  await Promise.all(names.map((name) => symlink(join(from, name), join(to, name))));
}
