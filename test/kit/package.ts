import { execFile } from 'node:child_process';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);

/** A project that has this package as `npm install <tarball>` puts it; what the package depends on is linked. */
export async function projectWithPackage(dir: string): Promise<string> {
  const project = join(dir, 'project');
  const modules = join(project, 'node_modules');
  await mkdir(join(modules, 'node-maintenance'), { recursive: true });
  await run('npm', ['pack', '--pack-destination', dir], { cwd: repository });
  const tarball = join(dir, 'node-maintenance-0.1.0.tgz');
  await run('tar', ['-xzf', tarball, '-C', join(modules, 'node-maintenance'), '--strip-components=1']);
  for (const name of ['@kubernetes', '@types', 'undici', 'zod'])
    await symlink(join(repository, 'node_modules', name), join(modules, name), 'dir');
  await writeFile(join(project, 'package.json'), '{ "type": "module" }');
  return project;
}

/** Of a program of the project and of the package; those of other packages are theirs. */
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
