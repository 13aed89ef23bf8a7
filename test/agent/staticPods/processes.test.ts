import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { hasProcesses } from '../../../agent/staticPods/processes.ts';
import { eventually } from '../../kit/eventually.ts';

// A container, as far as the agent sees it: a process with a mount namespace in which a file of the kubelet's folder is mounted.

const uid = '8b1a9953c4611296a827abf8c47804d7';
const pod = { namespace: 'kube-system', name: 'web-node-1' };

let dir: string;
let container: ChildProcess | undefined;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nm-processes-'));
});

afterEach(async () => {
  container?.kill('SIGKILL');
  container = undefined;
  await rm(dir, { recursive: true, force: true });
});

const find = (uids = new Set<string>()) => hasProcesses({ podLogDirectory: join(dir, 'logs') }, pod, uids);

async function started(): Promise<ChildProcess> {
  const folder = join(dir, 'kubelet/pods', uid, 'containers/main');
  await mkdir(folder, { recursive: true });
  const [source, target] = [join(folder, '1f2e'), join(dir, 'termination-log')];
  for (const file of [source, target]) await writeFile(file, '');
  // `exec`: the process that is killed is the one in the namespace.
  const script = 'mount --bind "$0" "$1" && exec sleep infinity';
  return spawn('unshare', ['--map-root-user', '--mount', 'sh', '-c', script, source, target], {
    stdio: 'inherit',
  });
}

test('it cannot be known without the logs of the pod', async () => {
  expect(await find()).toBeUndefined();
});

test('a container is found, and its end is seen', async () => {
  await mkdir(join(dir, 'logs', `kube-system_web-node-1_${uid}`), { recursive: true });
  await mkdir(join(dir, 'logs', 'kube-system_web-node-10_other'), { recursive: true });
  expect(await find()).toBe(false);
  container = await started();
  await eventually('the container to be found', async () => expect(await find()).toBe(true));
  container.kill('SIGKILL');
  await once(container, 'exit');
  expect(await find()).toBe(false);
});

test('the end of a container is seen after the kubelet has removed its logs', async () => {
  const logs = join(dir, 'logs', `kube-system_web-node-1_${uid}`);
  const uids = new Set<string>();
  await mkdir(logs, { recursive: true });
  container = await started();
  await eventually('the container to be found', async () => expect(await find(uids)).toBe(true));
  await rm(logs, { recursive: true });
  expect(await find(uids)).toBe(true);
  container.kill('SIGKILL');
  await once(container, 'exit');
  expect(await find(uids)).toBe(false);
});
