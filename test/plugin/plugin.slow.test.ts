import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import type { DoctorReport } from '../../cli/doctor/doctor.ts';
import { packageVersion } from '../../process/packageVersion.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { ensureGoTools } from '../kit/goTools.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

// Builds the plugin without Node.js, and installs it with krew as a user does, from a server that stands for the place of a release.

const repository = fileURLToPath(new URL('../..', import.meta.url));
const output = join(repository, 'dist', 'plugin');
const manifest = join(output, 'maintenance.yaml');
const source = fileURLToPath(new URL('krew/', import.meta.url));

let sandbox: Sandbox;
let dir: string;
let server: Server;
let tools: string;

beforeAll(async () => {
  [sandbox, dir, tools] = await Promise.all([
    testSandbox(),
    mkdtemp(join(tmpdir(), 'nm-plugin-')),
    ensureGoTools({
      name: 'krew',
      source,
      packages: ['sigs.k8s.io/krew/cmd/krew', 'sigs.k8s.io/krew/cmd/validate-krew-manifest'],
      flags: ['-trimpath', '-ldflags=-s -w'],
    }),
  ]);
  server = createServer(({ url = '' }, response) => {
    createReadStream(join(output, basename(url))).pipe(response);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const built = await plugin('--release-url', `http://127.0.0.1:${port}/`);
  expect(built).toMatchObject({ code: 0, stderr: '' });
  // No node is there, and no shell finds one.
  await mkdir(join(dir, 'bin'));
  await symlink(join(sandbox.bin, 'kubectl'), join(dir, 'bin', 'kubectl'));
  await symlink(join(tools, 'krew'), join(dir, 'bin', 'kubectl-krew'));
  for (const name of ['sh', 'dirname', 'ln', 'cat']) await symlink(`/bin/${name}`, join(dir, 'bin', name));
});

afterAll(async () => {
  server?.close();
  await rm(dir, { recursive: true, force: true });
  await releaseSandbox(sandbox);
});

interface Answer {
  code: number;
  stdout: string;
  stderr: string;
}

function ran(program: string, args: string[], env: NodeJS.ProcessEnv): Promise<Answer> {
  return new Promise((resolve) =>
    execFile(program, args, { env, maxBuffer: 10_000_000 }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    ),
  );
}

const plugin = (...args: string[]) =>
  ran(process.execPath, [join(repository, 'scripts', 'plugin', 'plugin.ts'), ...args], process.env);

/** An environment with kubectl, krew and what it has installed, and nothing else. */
const userEnvironment = () => ({
  HOME: dir,
  KUBECONFIG: sandbox.kubeconfig,
  KREW_ROOT: join(dir, 'krew'),
  PATH: `${join(dir, 'krew', 'bin')}:${join(dir, 'bin')}`,
});

describe('the executable answers as the source does:', () => {
  test.each<{ when: string; args: string[]; env?: Record<string, string> }>([
    { when: 'help', args: ['--help'] },
    { when: 'an invalid command', args: ['strat'] },
    { when: 'a kubeconfig that does not exist', args: ['status', '--kubeconfig', '/nonexistent'] },
    {
      when: 'a Temporal that does not answer',
      args: ['history', 'rack-7'],
      env: { TEMPORAL_ADDRESS: '127.0.0.1:1' },
    },
    { when: 'completion', args: ['__complete', '--', 'start', '--stage', ''] },
  ])('$when', async ({ args, env }) => {
    const [executable, own] = await Promise.all([
      ran(join(output, 'content', 'kubectl-maintenance'), args, { ...userEnvironment(), ...env }),
      ran(process.execPath, [join(repository, 'cli', 'main.ts'), ...args], { ...userEnvironment(), ...env }),
    ]);
    expect(executable).toEqual(own);
    expect(executable.stdout + executable.stderr).not.toBe('');
  });

  test('also when options for other programs of Node.js are set', async () => {
    const env = { ...userEnvironment(), NODE_OPTIONS: '--no-such-option' };
    expect(await ran(join(output, 'content', 'kubectl-maintenance'), ['--help'], env)).toMatchObject({
      code: 0,
    });
  });
});

test("krew's validation accepts the manifest, and installs what it names", async () => {
  const validator = join(tools, 'validate-krew-manifest');
  const { code, stderr } = await ran(validator, ['-manifest', manifest], userEnvironment());
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: expect.stringContaining('all 1 spec.platforms installed fine'),
  });
});

describe('installed by krew', () => {
  beforeAll(async () => {
    const installed = await ran('kubectl', ['krew', 'install', '--manifest', manifest], userEnvironment());
    expect(installed).toMatchObject({ code: 0 });
    const { spec } = parse(await readFile(manifest, 'utf8')) as { spec: { caveats: string } };
    const [, command = ''] = spec.caveats.split(':\n');
    expect(await ran('sh', ['-c', command], userEnvironment())).toMatchObject({ code: 0 });
  });

  test('it serves kubectl', async () => {
    const { code, stdout, stderr } = await ran(
      'kubectl',
      ['maintenance', 'lease', 'list'],
      userEnvironment(),
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^NODE +STATE/);
  });

  test('it holds a node while a command runs', async () => {
    const [node = ''] = (
      await ran('kubectl', ['get', 'nodes', '-o', 'name'], userEnvironment())
    ).stdout.split('\n');
    const args = ['maintenance', 'lease', 'run', node.replace('node/', ''), '--', 'sh', '-c', 'exit 7'];
    expect(await ran('kubectl', args, userEnvironment())).toMatchObject({ code: 7, stderr: '' });
  });

  const withTemporal = () => {
    const { TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE } = sandbox.env;
    return { ...userEnvironment(), TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE };
  };

  test('it compares the installation with the manifests that it contains', async () => {
    const { stdout, stderr } = await ran('kubectl', ['maintenance', 'doctor', '-o', 'json'], withTemporal());
    expect(stderr).toBe('');
    const { version, findings } = JSON.parse(stdout) as DoctorReport;
    expect(version).toBe(packageVersion());
    const text = `CRD, policy and webhook objects of release ${version} in node-maintenance$`;
    const message = expect.stringMatching(new RegExp(String.raw`^[1-9]\d* ${text}`));
    expect(findings).toContainEqual({ check: 'installation', result: 'ok', message });
  });

  test('it plans the uninstallation of what these manifests install, as the source does', async () => {
    const args = ['uninstall', '--plan', '--crds'];
    const [installed, own] = await Promise.all([
      ran('kubectl', ['maintenance', ...args], withTemporal()),
      ran(process.execPath, [join(repository, 'cli', 'main.ts'), ...args], withTemporal()),
    ]);
    expect(installed).toEqual(own);
    expect(installed).toMatchObject({ code: 0, stderr: '' });
    for (const row of [
      'ValidatingWebhookConfiguration +nodemaintenance.k8s.io +delete',
      'ClusterRole +node-maintenance-worker +delete',
      'CustomResourceDefinition +nodemaintenances.nodemaintenance.k8s.io +delete',
    ])
      expect(installed.stdout).toMatch(new RegExp(row));
  });

  test('with the link of the caveats, kubectl completes its words', async () => {
    const { stdout } = await ran(
      'kubectl',
      ['__complete', 'maintenance', 'start', '--stage', 'D'],
      userEnvironment(),
    );
    expect(stdout).toBe('Drain\n:4\n');
  });
});

test.each(['v0.1.0', 'ftp://example.com'])('%s is no address of a release', async (url) => {
  expect(await plugin('--release-url', url)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--release-url: expected the address'),
  });
});

test('the archive contains the licenses of the packages in the executable', async () => {
  const licenses = await readFile(join(output, 'content', 'LICENSES.txt'), 'utf8');
  for (const name of ['Node.js v24', '@kubernetes/client-node 2', '@temporalio/client 1', 'commander 15'])
    expect(licenses).toContain(name);
});
