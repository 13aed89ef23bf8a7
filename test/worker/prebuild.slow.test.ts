import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, rmdir, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';

// A checkout with the packages of this one, but not with what was prepared for it.

const root = fileURLToPath(new URL('../..', import.meta.url));
const omitted = new Set(
  ['.git', '.sandbox', 'dist', 'docs', 'node_modules', 'test'].map((name) => join(root, name)),
);

let checkout: string;
let kept: string;

beforeAll(async () => {
  checkout = await mkdtemp(join(tmpdir(), 'nm-prebuild-'));
  await cp(root, checkout, { recursive: true, filter: (path) => !omitted.has(path) });
  const modules = join(checkout, 'node_modules');
  await mkdir(modules);
  for (const name of await readdir(join(root, 'node_modules')))
    if (name !== '.cache') await symlink(join(root, 'node_modules', name), join(modules, name));
  kept = join(modules, '.cache', 'node-maintenance', 'workflows.js');
});
afterAll(() => rm(checkout, { recursive: true, force: true }));

function ran(program: string, args: string[]): Promise<{ code: number; output: string }> {
  const PATH = `${dirname(process.execPath)}:${process.env['PATH']}`;
  const env = { ...process.env, PATH, NODE_OPTIONS: '', NODE_MAINTENANCE_BUILD: '' };
  return new Promise((resolve) =>
    execFile(program, args, { cwd: checkout, env }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), output: stdout + stderr }),
    ),
  );
}

const prebuilt = () => ran(process.execPath, [join('scripts', 'prebuild.ts')]);

test('what cannot be prepared fails the build of an image with the reason, but not the installation', async () => {
  await mkdir(kept, { recursive: true });
  const failed = await prebuilt();
  expect(failed.code).toBe(1);
  expect(failed.output).toContain(`'${kept}'`);
  expect(failed.output).toContain('keepBundle.ts: exit code 1: the first start of the worker will be slow\n');

  const { scripts } = JSON.parse(await readFile(join(checkout, 'package.json'), 'utf8')) as {
    scripts: { prepare: string };
  };
  const installed = await ran('sh', ['-c', scripts.prepare]);
  expect(installed.code).toBe(0);
  expect(installed.output).toContain('keepBundle.ts: exit code 1');

  await rmdir(kept);
  expect(await prebuilt()).toEqual({ code: 0, output: '' });
  expect(await readFile(kept, 'utf8')).toContain('workflowInputs');
});
