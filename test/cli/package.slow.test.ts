import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { projectWith } from '../kit/package.ts';

// The package contains the commands bundled with the packages that they import: the project has no others.

const source = fileURLToPath(new URL('../../cli/', import.meta.url));

let dir: string;
let bin: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nm-package-'));
  const project = await projectWith(dir, 'cli');
  expect(project.installed).toBe(1);
  bin = join(project.dir, 'node_modules', '.bin');
});
afterAll(() => rm(dir, { recursive: true, force: true }));

interface Answer {
  code: number;
  stdout: string;
  stderr: string;
}

function ran(program: string, args: string[], env: Record<string, string> = {}): Promise<Answer> {
  const options = { env: { PATH: process.env['PATH'], HOME: dir, ...env } };
  return new Promise((resolve) =>
    execFile(process.execPath, [program, ...args], options, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    ),
  );
}

const unreachable = { TEMPORAL_ADDRESS: '127.0.0.1:1' };

describe('the commands of the package answer as those of the source:', () => {
  test.each<{ when: string; args: string[]; env?: Record<string, string> }>([
    { when: 'help', args: ['--help'] },
    { when: 'an invalid command', args: ['strat'] },
    { when: 'a kubeconfig that does not exist', args: ['status', '--kubeconfig', '/nonexistent'] },
    { when: 'a Temporal that does not answer', args: ['history', 'rack-7'], env: unreachable },
  ])('$when', async ({ args, env }) => {
    const [packed, own] = await Promise.all([
      ran(join(bin, 'kubectl-maintenance'), args, env),
      ran(join(source, 'main.ts'), args, env),
    ]);
    expect(packed).toEqual(own);
    expect(packed.stdout + packed.stderr).not.toBe('');
  });

  test('a cluster that does not answer, for which doctor reads the manifests of its release first', async () => {
    const kubeconfig = join(dir, 'unreachable.kubeconfig');
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'c', cluster: { server: 'https://127.0.0.1:1' } }],
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      users: [{ name: 'u', user: { token: 'x' } }],
      'current-context': 'c',
    };
    await writeFile(kubeconfig, JSON.stringify(config));
    const args = ['doctor', '--kubeconfig', kubeconfig];
    const [packed, own] = await Promise.all([
      ran(join(bin, 'kubectl-maintenance'), args, unreachable),
      ran(join(source, 'main.ts'), args, unreachable),
    ]);
    expect(packed).toEqual(own);
    expect(packed).toMatchObject({ code: 1, stdout: expect.stringContaining('ECONNREFUSED 127.0.0.1:1') });
  });

  test('completion', async () => {
    const words = ['start', '--stage', ''];
    const packed = await ran(join(bin, 'kubectl_complete-maintenance'), words);
    expect(packed).toEqual(await ran(join(source, 'completion', 'complete.ts'), words));
    expect(packed.stdout).toContain('Drain');
  });
});
