import { execFile } from 'node:child_process';
import { access, mkdir, mkdtemp, readdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { eventually } from './eventually.ts';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);

/** The packages of this repository, by the name of their folder. */
export type Workspace = 'api' | 'cli' | 'evacuator-kit' | 'node-lease';

/** A project of a user, which has only what npm installed. */
export interface Project {
  readonly dir: string;
  /** Number of packages that were installed. */
  readonly installed: number;
}

/**
 * Creates an empty project and installs packages of this repository as their users do: `npm install <tarball>...`, with their dependencies and peers from
 * the registry. Packages without dependencies need no registry.
 */
export async function projectWith(dir: string, ...workspaces: Workspace[]): Promise<Project> {
  const project = await mkdtemp(join(dir, 'project-'));
  await writeFile(join(project, 'package.json'), '{ "type": "module", "private": true }');
  const tarballs: string[] = [];
  for (const workspace of workspaces) tarballs.push(await packed(workspace, dir));
  const needsRegistry = workspaces.some(
    (workspace) => workspace === 'evacuator-kit' || workspace === 'node-lease',
  );
  await npm(project, 'install', needsRegistry ? '--prefer-offline' : '--offline', ...tarballs);
  const list = await npm(project, 'ls', '--all', '--parseable');
  return { dir: project, installed: list.trim().split('\n').length - 1 };
}

/** Runs npm in a project. It does not install what this repository does not allow, but a user's npm does so by default. */
export async function npm(project: string, ...args: readonly string[]): Promise<string> {
  const options = ['--no-audit', '--no-fund', '--loglevel=error'];
  const { stdout } = await run('npm', [...args, ...options], { cwd: project });
  return stdout;
}

/** Packs once per run of `npm test`: packing builds dist/, which no two processes may do at the same time. */
async function packed(workspace: Workspace, dir: string): Promise<string> {
  const runDir = process.env['NM_TEST_RUN'];
  if (runDir === undefined) return pack(workspace, dir);
  const shared = join(runDir, `packed-${workspace}`);
  const tarball = join(shared, 'package.tgz');
  const isFirst = await mkdir(shared).then(
    () => true,
    () => false,
  );
  if (isFirst) await rename(await pack(workspace, shared), tarball);
  else await eventually(`another shard to have packed ${workspace}`, () => access(tarball));
  return tarball;
}

async function pack(workspace: Workspace, dir: string): Promise<string> {
  const to = await mkdtemp(join(dir, 'packed-'));
  await run('npm', ['pack', '--workspace', workspace, '--pack-destination', to], { cwd: repository });
  const [name = ''] = await readdir(to);
  return join(to, name);
}

/** Returns every type error of a program of the project and of all the declarations that it reaches. */
export async function typeErrors(project: string, program: string): Promise<string> {
  const options = [
    '--noEmit',
    '--strict',
    '--module',
    'nodenext',
    '--target',
    'es2024',
    '--exactOptionalPropertyTypes',
  ];
  const tsc = join(repository, 'node_modules', '.bin', 'tsc');
  const { stdout } = await run(tsc, [...options, '--skipLibCheck', 'false', program], { cwd: project }).catch(
    (error: { stdout: string }) => error,
  );
  return stdout;
}
