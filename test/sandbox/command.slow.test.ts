import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { findByEnvironment } from '../../sandbox/processes.ts';
import { until } from '../../sandbox/until.ts';

const main = fileURLToPath(new URL('../../sandbox/main.ts', import.meta.url));

let dir: string;
beforeEach(async () => {
  dir = await realpath(await mkdtemp(join(tmpdir(), 'nm-command-test-')));
});
afterEach(async () => {
  await sandbox('down');
  await rm(dir, { recursive: true, force: true });
});

interface Outcome {
  code: number | null;
  out: string;
  err: string;
}

function start(...args: string[]): ChildProcess {
  return spawn(process.execPath, [main, ...args, '--dir', dir], { stdio: ['ignore', 'pipe', 'pipe'] });
}

async function sandbox(...args: string[]): Promise<Outcome> {
  return outcomeOf(start(...args));
}

async function outcomeOf(child: ChildProcess): Promise<Outcome> {
  const exit = new Promise<number | null>((resolve) => child.once('close', resolve));
  const [out, err, code] = await Promise.all([
    text(child.stdout as never),
    text(child.stderr as never),
    exit,
  ]);
  return { code, out, err };
}

const running = () => findByEnvironment('NODE_MAINTENANCE_SANDBOX', dir);

async function untilStarted(server: string): Promise<void> {
  const file = join(dir, 'run', `${server}.pid`);
  await until(`${server} to be started`, () => (existsSync(file) ? undefined : 'no pid file'), {
    timeoutMs: 180_000,
  });
}

test('up, up again, status, an outage, status, up, down, down again', async () => {
  const up = await sandbox('up', '--nodes', '1');
  expect(up).toMatchObject({ code: 0, err: '' });
  expect(up.out).toContain(`KUBECONFIG=${dir}/kubeconfig`);
  expect(up.out).toMatch(/Temporal UI +http:\/\/127\.0\.0\.1:\d+/);
  expect(up.out).toContain(`. ${dir}/env`);
  expect(up.out).toContain(`npm run sandbox -- down --dir ${dir}`);

  const before = running();
  expect(await sandbox('up')).toMatchObject({ code: 0, out: expect.stringContaining('is already running') });
  expect(running()).toEqual(before);

  const status = await sandbox('status');
  expect(status.code).toBe(0);
  expect(status.out.match(/running +pid \d+/g)).toHaveLength(6);

  const scheduler = /kube-scheduler +running +pid (\d+)/.exec(status.out)?.[1];
  process.kill(Number(scheduler), 'SIGKILL');
  await until('the scheduler to end', () => (running().length === 5 ? undefined : 'six processes'), {
    timeoutMs: 180_000,
  });
  const broken = await sandbox('status');
  expect(broken.code).toBe(1);
  expect(broken.out).toMatch(/kube-scheduler +stopped/);

  expect(await sandbox('up')).toMatchObject({ code: 0, out: expect.stringContaining('is incomplete') });
  expect(running()).toHaveLength(6);

  const down = await sandbox('down');
  expect(down.code).toBe(0);
  expect(down.out).toContain(
    'Stopped temporal, kwok, kube-scheduler, kube-controller-manager, kube-apiserver, etcd.',
  );
  expect(running()).toEqual([]);
  expect(existsSync(join(dir, 'env'))).toBe(false);

  expect(await sandbox('down')).toMatchObject({ code: 0, out: `No sandbox is running in ${dir}.\n` });
  expect(await sandbox('status')).toMatchObject({ code: 1, out: `No sandbox is running in ${dir}.\n` });
});

test.each(['etcd', 'kube-apiserver', 'kwok'])(
  'down cleans up after a launcher that was killed when it had started %s',
  async (server) => {
    const launcher = start('up', '--nodes', '1');
    await untilStarted(server);
    launcher.kill('SIGKILL');
    await outcomeOf(launcher);
    expect(running().length).toBeGreaterThan(0);
    expect(await sandbox('down')).toMatchObject({ code: 0, out: expect.stringContaining('Stopped ') });
    expect(running()).toEqual([]);
  },
  60_000,
);

test('down cleans up after a launcher that was killed before it wrote a pid file', async () => {
  const launcher = start('up', '--nodes', '1');
  await untilStarted('kube-apiserver');
  launcher.kill('SIGKILL');
  await outcomeOf(launcher);
  await rm(join(dir, 'run'), { recursive: true });
  await rm(join(dir, 'sandbox.json'));
  expect(await sandbox('down')).toMatchObject({ code: 0, out: expect.stringContaining('Stopped ') });
  expect(running()).toEqual([]);
});

test('an interrupted up stops what it started', async () => {
  const launcher = start('up', '--nodes', '1');
  await untilStarted('kube-apiserver');
  launcher.kill('SIGINT');
  const { code, err } = await outcomeOf(launcher);
  expect(code).toBe(1);
  expect(err).toBe('Interrupted; everything is stopped again\n');
  expect(running()).toEqual([]);
});

test('an up that fails in the middle stops what it started, and names the server and its log', async () => {
  await mkdir(join(dir, 'data'), { recursive: true });
  await writeFile(join(dir, 'data', 'service-account.pem'), 'not a key');
  const { code, err } = await sandbox('up');
  expect(code).toBe(1);
  expect(err).toMatch(
    /^kube-apiserver exited while starting: .*\(full log: .*\/logs\/kube-apiserver\.log\)\n$/,
  );
  expect(running()).toEqual([]);
});

test('down --purge deletes a sandbox and refuses to delete anything else', async () => {
  await writeFile(join(dir, 'precious'), '');
  expect(await sandbox('down', '--purge')).toMatchObject({
    code: 1,
    err: expect.stringMatching(/holds no sandbox/),
  });
  expect(existsSync(join(dir, 'precious'))).toBe(true);
});
