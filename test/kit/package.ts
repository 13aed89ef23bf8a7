import { execFile } from 'node:child_process';
import { access, mkdir, rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { eventually } from './eventually.ts';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);

/** Creates a project with this package as `npm install <tarball>` installs it; its dependencies are links. */
export async function projectWithPackage(dir: string): Promise<string> {
  const project = join(dir, 'project');
  const modules = join(project, 'node_modules');
  await mkdir(join(modules, 'node-maintenance'), { recursive: true });
  const tarball = await packed(dir);
  await run('tar', ['-xzf', tarball, '-C', join(modules, 'node-maintenance'), '--strip-components=1']);
  for (const name of ['@kubernetes', '@types', 'pino', 'undici', 'zod'])
    await symlink(join(repository, 'node_modules', name), join(modules, name), 'dir');
  await writeFile(join(project, 'package.json'), '{ "type": "module" }');
  return project;
}

/** Packs once per run of `npm test`: packing builds dist/, which no two processes may do at the same time. */
async function packed(dir: string): Promise<string> {
  const runDir = process.env['NM_TEST_RUN'];
  if (runDir === undefined) return pack(dir);
  const shared = join(runDir, 'package');
  const tarball = join(shared, 'package.tgz');
  const isFirst = await mkdir(shared).then(
    () => true,
    () => false,
  );
  if (isFirst) await rename(await pack(shared), tarball);
  else await eventually('another shard to have packed the package', () => access(tarball));
  return tarball;
}

async function pack(dir: string): Promise<string> {
  await run('npm', ['pack', '--pack-destination', dir], { cwd: repository });
  return join(dir, 'node-maintenance-0.1.0.tgz');
}

/** Returns the type errors of a program of the project and of this package, not those of other packages. */
export async function typeErrors(project: string, program: string): Promise<string[]> {
  const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2024', '--types', 'node'];
  const tsc = join(repository, 'node_modules', '.bin', 'tsc');
  const { stdout } = await run(tsc, [...options, program], { cwd: project }).catch(
    (error: { stdout: string }) => error,
  );
  return stdout
    .split('\n')
    .filter((line) => line.startsWith(program) || line.includes('node_modules/node-maintenance/'));
}
