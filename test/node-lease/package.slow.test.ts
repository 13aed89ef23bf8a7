import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { npm, type Project, projectWith, typeErrors } from '../kit/package.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { LeaseFixture } from './nodes.ts';

// Installs the package from the registry in an empty project, and works there. process.test.ts does so with the permissions of its manifest.

const library = fileURLToPath(new URL('../../node-lease/', import.meta.url));

let sandbox: Sandbox;
let fixture: LeaseFixture;
let dir: string;
let project: Project;
let env: NodeJS.ProcessEnv;

beforeAll(async () => {
  sandbox = await testSandbox();
  fixture = new LeaseFixture(sandbox, 'package');
  dir = await mkdtemp(join(tmpdir(), 'nm-node-lease-package-'));
  const PATH = `${sandbox.bin}:${process.env['PATH'] ?? ''}`;
  env = { PATH, HOME: dir, KUBECONFIG: sandbox.kubeconfig };
  project = await projectWith(dir, 'node-lease');
  await copyFile(join(library, 'example.ts'), join(project.dir, 'reboot.ts'));
});

afterAll(async () => {
  await fixture?.close();
  await rm(dir, { recursive: true, force: true });
  await releaseSandbox(sandbox);
});

/** Runs a program of the project; rejects if it does not exit with 0. */
async function ran(program: string, ...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [program, ...args], {
    cwd: project.dir,
    env,
  });
  return stdout;
}

test('at most 80 packages are installed', () => {
  expect(project.installed).toBeLessThanOrEqual(80);
});

test('the example has no type errors, nor has any declaration that it reaches', async () => {
  // Those of the Kubernetes client need it.
  await npm(project.dir, 'install', '--save-dev', '--prefer-offline', '@types/ws');
  expect(await typeErrors(project.dir, 'reboot.ts')).toBe('');
});

test('the example holds a node', async () => {
  const node = await fixture.node();
  const file = join(dir, 'holder');
  const holderOf = `kubectl get lease -n kube-node-maintenance ${node} -o jsonpath={.spec.holderIdentity} > ${file}`;
  expect(await ran('reboot.ts', node, 'sh', '-c', holderOf)).toBe(`${node} is done\n`);
  expect(await readFile(file, 'utf8')).toBe(`reboot-daemon/${node}`);
});

test("it takes the program's own KubeConfig and rejects with its errors", async () => {
  const program = `
import { KubeConfig } from '@kubernetes/client-node';
import { isHeld, NodeHeldError, nodeLeases } from '@node-maintenance/node-lease';
const kubeconfig = new KubeConfig();
kubeconfig.loadFromFile(process.env['KUBECONFIG'] ?? '');
delete process.env['KUBECONFIG'];
const [node = ''] = process.argv.slice(2);
const [leases, others] = [nodeLeases({ kubeconfig }), nodeLeases({ kubeconfig })];
await leases.hold(node, async () => {
  console.log(isHeld(await others.get(node)), leases.holder === others.holder);
  await others.hold(node, () => undefined, { wait: false }).catch((error: unknown) => {
    if (error instanceof NodeHeldError) console.log(error.kind, error.holder === leases.holder);
  });
});
await Promise.all([leases.close(), others.close()]);
`;
  await writeFile(join(project.dir, 'own.ts'), program);
  expect(await typeErrors(project.dir, 'own.ts')).toBe('');
  expect(await ran('own.ts', await fixture.node())).toBe('true false\nHeld true\n');
});
