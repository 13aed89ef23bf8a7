import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { Command, CommanderError } from 'commander';
import { root, toolEnvironment } from '../tools.ts';
import { writeApplication } from './application.ts';
import { type DebianPackage, writeDebianBase } from './debianBase.ts';
import { sbomOf } from './sbom.ts';

/**
 * `npm run image` builds the Dockerfile into an OCI archive, without a registry: the base is made of Debian's packages, and the stage "build" is
 * replaced by files that are built here. Exit code: 0 built, 1 failed or a tool is missing, 2 usage.
 */

interface Options {
  output: string;
  base?: string;
  tag: string;
}

const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
/** Other builds, and `npm run build`, which empties dist/, may run at the same time. */
const work = join(tmpdir(), `node-maintenance-image-${process.pid}`);
const baseTag = 'localhost/node-maintenance-base';
/** The storage is removed with the work folder; chroot needs no container runtime. */
const storage = ['--storage-driver', 'vfs', '--root', join(work, 'storage'), '--runroot', join(work, 'run')];

async function buildImage({ output, base, tag }: Options): Promise<void> {
  await requireTools(base === undefined ? ['buildah', 'apt-get', 'dpkg-deb'] : ['buildah']);
  const files = join(work, 'files', 'image');
  console.log('Bundling the programs and the workflows');
  const packages = await writeApplication(join(files, 'app'));
  mkdirSync(join(files, 'usr', 'local', 'bin'), { recursive: true });
  copyFileSync(process.execPath, join(files, 'usr', 'local', 'bin', 'node'));
  const debian = base === undefined ? await buildBase() : [];
  console.log('Building the image');
  const args = { BASE_IMAGE: base ?? baseTag, VERSION: version, REVISION: await revision() };
  await buildah([
    'build',
    '--build-context',
    `build=${join(work, 'files')}`,
    ...Object.entries(args).flatMap(([name, value]) => ['--build-arg', `${name}=${value}`]),
    '--tag',
    tag,
    '--file',
    join(root, 'Dockerfile'),
    root,
  ]);
  const archive = resolve(output);
  rmSync(archive, { force: true });
  await buildah(['push', tag, `oci-archive:${archive}:${tag}`]);
  const sbom = sbomOf(packages, debian);
  const sbomFile = `${archive.replace(/\.oci\.tar$/, '')}.cdx.json`;
  writeFileSync(sbomFile, `${JSON.stringify(sbom, null, 2)}\n`);
  const unpacked = await sizeOf(tag);
  console.log(`${tag}
  archive  ${archive} (${megabytes(statSync(archive).size)})
  image    ${unpacked} unpacked
  SBOM     ${sbomFile} (CycloneDX, ${sbom.components.length} components)

Import it on a node:  ctr --namespace k8s.io images import ${archive}
Copy to a registry:   skopeo copy oci-archive:${archive} docker://REGISTRY/node-maintenance:${version}`);
}

async function buildBase(): Promise<DebianPackage[]> {
  console.log('Downloading packages of Debian for the base');
  const folder = join(work, 'base');
  const packages = await writeDebianBase(folder);
  const file = `${folder}.Dockerfile`;
  writeFileSync(file, 'FROM scratch\nCOPY . /\n');
  await buildah(['build', '--tag', baseTag, '--file', file, folder]);
  return packages;
}

async function requireTools(names: readonly string[]): Promise<void> {
  for (const name of names)
    await promisify(execFile)(name, ['--version']).catch(() => {
      throw new Error(
        `${name} is not installed: apt-get install buildah on Debian, or build the Dockerfile elsewhere (docker build --tag node-maintenance .)`,
      );
    });
}

/** Runs buildah, and shows what it printed if it fails. */
async function buildah([verb = '', ...args]: string[]): Promise<string> {
  const isolation = verb === 'build' ? ['--isolation', 'chroot', '--format', 'oci', '--quiet'] : [];
  const child = spawn('buildah', [...storage, verb, ...isolation, ...args], {
    cwd: root,
    env: toolEnvironment(),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const chunks: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  const [code] = (await once(child, 'close')) as [number | null];
  const text = Buffer.concat(chunks).toString('utf8');
  if (code !== 0) throw new Error(`buildah ${verb}: ${text.trim()}`);
  return text;
}

async function sizeOf(tag: string): Promise<string> {
  const text = await buildah(['images', '--format', '{{.Size}}', tag]);
  return text.trim();
}

async function revision(): Promise<string> {
  const run = promisify(execFile);
  const { stdout } = await run('git', ['rev-parse', 'HEAD'], { cwd: root }).catch(() => ({
    stdout: 'unknown',
  }));
  return stdout.trim();
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1_000_000)} MB`;
}

const program = new Command('npm run image --')
  .description('Builds the image of the worker and the admission server as an OCI archive.')
  .option(
    '--output <file>',
    'the archive, such as for ctr images import or skopeo copy',
    join('dist', `node-maintenance-${version}.oci.tar`),
  )
  .option('--base <image>', 'another base image, which buildah pulls (default: made of packages of Debian)')
  .option('--tag <name>', 'name of the image in the archive', `docker.io/library/node-maintenance:${version}`)
  .exitOverride()
  .action(buildImage);

try {
  await program.parseAsync(process.argv.slice(2), { from: 'user' });
} catch (error) {
  if (!(error instanceof CommanderError))
    console.error(`error: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = error instanceof CommanderError ? (error.exitCode === 0 ? 0 : 2) : 1;
} finally {
  rmSync(work, { recursive: true, force: true });
}
