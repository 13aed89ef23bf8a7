import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';
import { parseDocument } from 'yaml';
import { root } from '../tools.ts';
import { writeExecutable } from './executable.ts';
import { licensesOf } from './licenses.ts';

/**
 * `npm run plugin [-- --release-url URL]` writes the kubectl plugin as one executable that needs no Node.js (ADR 53), and its archive, to dist/plugin. With
 * the address under which the archive will be published, it also writes the manifest for krew.
 */

const output = join(root, 'dist', 'plugin');
const template = join(root, 'deploy', 'krew', 'maintenance.yaml');

/** kubectl calls it for completion; krew links only the plugin, so it finds that beside itself. */
const completion = `#!/bin/sh
exec "$(dirname "$0")/kubectl-maintenance" __complete -- "$@"
`;

interface Archive {
  readonly file: string;
  readonly sha256: string;
  readonly version: string;
}

async function main(args: string[]): Promise<number> {
  const releaseUrl = releaseUrlIn(args);
  if (releaseUrl === null) return 2;
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    console.error(
      `npm run plugin builds for linux on x64, and only there (this is ${process.platform} on ${process.arch})`,
    );
    return 1;
  }
  rmSync(output, { recursive: true, force: true });
  const archive = await writeArchive();
  console.log(
    `Wrote ${relative(root, archive.file)} (${Math.round(statSync(archive.file).size / 1e6)} MB, sha256 ${archive.sha256})`,
  );
  if (releaseUrl === undefined)
    console.log('No manifest for krew: give the address of the archive with --release-url');
  else console.log(`Wrote ${relative(root, writeManifest(archive, releaseUrl))}`);
  console.log('To undo: rm -r dist/plugin');
  return 0;
}

/** Returns the URL without a slash at its end, undefined without the option, and null, after an error message, if it is invalid. */
function releaseUrlIn(args: string[]): string | undefined | null {
  try {
    const { values } = parseArgs({ args, options: { 'release-url': { type: 'string' } } });
    const url = values['release-url'];
    if (url === undefined) return undefined;
    if (/^https?:$/.test(URL.parse(url)?.protocol ?? '')) return url.replace(/\/$/, '');
    console.error(
      `--release-url: expected the address of the archive's folder, such as https://example.com/v0.1.0 (got ${url})`,
    );
  } catch (error) {
    console.error((error as Error).message);
  }
  return null;
}

async function writeArchive(): Promise<Archive> {
  const content = join(output, 'content');
  mkdirSync(content, { recursive: true });
  const inputs = await writeExecutable(join(content, 'kubectl-maintenance'), 'cli/executable.ts');
  writeFileSync(join(content, 'kubectl_complete-maintenance'), completion, { mode: 0o755 });
  copyFileSync(join(root, 'LICENSE'), join(content, 'LICENSE'));
  writeFileSync(join(content, 'LICENSES.txt'), licensesOf(inputs));
  const { version } = JSON.parse(readFileSync(join(root, 'cli', 'package.json'), 'utf8')) as {
    version: string;
  };
  const file = join(output, `kubectl-maintenance-v${version}-linux-amd64.tar.gz`);
  // The same archive for the same files, on any machine and at any time.
  const sameAlways = [
    '--sort=name',
    '--owner=0',
    '--group=0',
    '--numeric-owner',
    '--mtime=@0',
    '--mode=u=rwX,go=rX',
  ];
  const tar = execFileSync('tar', ['--create', ...sameAlways, '--directory', content, '.'], {
    maxBuffer: 1e9,
  });
  writeFileSync(file, gzipSync(tar, { level: 9 }));
  const sha256 = createHash('sha256').update(readFileSync(file)).digest('hex');
  writeFileSync(`${file}.sha256`, `${sha256}  ${file.slice(output.length + 1)}\n`);
  return { file, sha256, version };
}

function writeManifest({ file, sha256, version }: Archive, releaseUrl: string): string {
  const manifest = parseDocument(readFileSync(template, 'utf8'));
  manifest.commentBefore = null;
  manifest.setIn(['spec', 'version'], `v${version}`);
  manifest.setIn(['spec', 'platforms', 0, 'uri'], `${releaseUrl}/${file.slice(output.length + 1)}`);
  manifest.setIn(['spec', 'platforms', 0, 'sha256'], sha256);
  const path = join(output, 'maintenance.yaml');
  writeFileSync(path, manifest.toString({ lineWidth: 0 }));
  return path;
}

process.exitCode = await main(process.argv.slice(2));
