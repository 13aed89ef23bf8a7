import { execFile, execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import type { Pod } from '../../api/core.ts';
import { pauseImage } from '../../sandbox/realNodes/node.ts';
import { realNodeProblem } from '../../sandbox/realNodes/requirements.ts';
import { attachSandbox, type Sandbox } from '../../sandbox/sandbox.ts';
import { type Kubectl, kubectlOf, succeeds } from '../api/kubectl.ts';
import { eventually } from '../kit/eventually.ts';
import { missingForContainers, withContainers } from '../kit/realNodes.ts';

const main = fileURLToPath(new URL('../../sandbox/main.ts', import.meta.url));
let dir: string;
let sandbox: Sandbox;
let kubectl: Kubectl;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nm-real-'));
});

afterAll(async () => {
  if (missingForContainers === undefined) await command('down', '--dir', dir, '--purge');
  await rm(dir, { recursive: true, force: true });
});

const command = async (...args: string[]) => {
  const { stdout } = await promisify(execFile)(process.execPath, [main, ...args]);
  return stdout;
};

const failure = async (args: string[]) => {
  try {
    await promisify(execFile)(process.execPath, [main, ...args]);
    return 'it succeeded';
  } catch (error) {
    return (error as { stderr: string }).stderr;
  }
};

/** The interfaces, namespaces and routes of this sandbox on the host. Others may run at the same time. */
function network(): string[] {
  const [, number] = /^10\.201\.(\d+)\.1:/.exec(sandbox.temporalAddress) ?? [];
  const ip = (...args: string[]) => execFileSync('ip', args, { encoding: 'utf8' }).split('\n');
  const lines = [...ip('-oneline', 'link'), ...ip('netns'), ...ip('route')];
  return lines.filter((line) => new RegExp(`\\bnm${number}\\b`).test(line));
}

const podOf = (args: string[]) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'web', labels: { app: 'web' } },
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [{ name: 'main', image: pauseImage, command: ['/bin/sh', '-c'], args }],
  },
});

const service = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'web' },
  spec: { selector: { app: 'web' }, ports: [{ port: 80, targetPort: 8080 }] },
};

test('a number of nodes that is not possible is rejected with the bounds', async () => {
  expect(await failure(['up', '--dir', dir, '--real-node', '9'])).toContain(
    'Must be a whole number between 1 and 4.',
  );
});

test('a user who is not root gets an error with the remedy', () => {
  const getuid = jest.spyOn(process as Required<typeof process>, 'getuid').mockReturnValue(1_000);
  try {
    expect(realNodeProblem()).toBe('real nodes need root: run this command as root');
  } finally {
    getuid.mockRestore();
  }
});

withContainers('a directory that a node hides by its own is rejected', async () => {
  expect(await failure(['up', '--dir', '/run/nm-sandbox', '--real-node'])).toContain(
    '/run/nm-sandbox: a real node has a /run of its own: choose a directory elsewhere',
  );
  await rm('/run/nm-sandbox', { recursive: true, force: true });
});

withContainers('a pod runs on a node that the command starts, behind a Service', async () => {
  const printed = await command('up', '--dir', dir, '--nodes', '1', '--real-node', '--no-install');
  expect(printed).toContain('2 nodes are Ready');
  sandbox = await attachSandbox(dir);
  const { manifests, hold } = sandbox.realNode('real-1');
  for (const folder of [manifests, hold]) expect(printed).toContain(folder);
  const variables = await readFile(join(dir, 'env'), 'utf8');
  expect(variables).toContain(`REAL_NODE_MANIFESTS='${manifests}'`);
  expect(variables).toContain(`REAL_NODE_HOLD='${hold}'`);
  expect(network().length).toBeGreaterThanOrEqual(4);
  kubectl = kubectlOf(sandbox);
  const script =
    'mkdir -p /tmp/www; echo hello >/tmp/www/index.html; exec /bin/busybox httpd -f -v -p 8080 -h /tmp/www';
  for (const object of [podOf([script]), service])
    await eventually('the object to be created', () =>
      succeeds(kubectl(['apply', '--server-side', '-f', '-'], object)),
    );
  await succeeds(kubectl(['wait', 'pod/web', '--for=condition=Ready', '--timeout=1m']));
  const pod = JSON.parse(await succeeds(kubectl(['get', 'pod', 'web', '-o', 'json']))) as Pod;
  expect(pod.spec.nodeName).toBe('real-1');
  const { spec } = JSON.parse(await succeeds(kubectl(['get', 'service', 'web', '-o', 'json']))) as {
    spec: { clusterIP: string };
  };
  const ask = (url: string) =>
    succeeds(kubectl(['exec', 'web', '--', '/bin/busybox', 'wget', '-q', '-O', '-', url]));
  await eventually('the Service to answer', async () =>
    expect(await ask(`http://${spec.clusterIP}/`)).toBe('hello\n'),
  );
  expect(await succeeds(kubectl(['logs', 'web']))).toContain('response:200');
});

withContainers('a node whose power is cut is not Ready, and returns with its pods', async () => {
  const node = sandbox.server('real-1');
  await node.kill();
  const ready = () =>
    succeeds(
      kubectl(['get', 'node', 'real-1', '-o', 'jsonpath={.status.conditions[?(@.type=="Ready")].status}']),
    );
  await eventually('the node to be unknown', async () => expect(await ready()).toBe('Unknown'));
  await node.start();
  await eventually('the node to be Ready', async () => expect(await ready()).toBe('True'));
  await eventually('the pod to run again', async () =>
    expect(
      await succeeds(
        kubectl(['get', 'pod', 'web', '-o', 'jsonpath={.status.containerStatuses[0].restartCount}']),
      ),
    ).not.toBe('0'),
  );
});

/** The ID of the last boot, as the kubelet has published it. */
const publishedBootId = () =>
  succeeds(kubectl(['get', 'node', 'real-1', '-o', 'jsonpath={.status.nodeInfo.bootID}']));

withContainers('each boot of a node has an ID of its own', async () => {
  const node = sandbox.realNode('real-1');
  const before = await publishedBootId();
  expect(node.bootId()).toBe(before);
  await node.reboot();
  await node.ready();
  expect(await publishedBootId()).not.toBe(before);
  expect(await node.run('cat', '/proc/sys/kernel/random/boot_id')).toBe(`${await publishedBootId()}\n`);
});

withContainers(
  'a static pod survives crashes of the processes that run it, and returns after a boot',
  async () => {
    const node = sandbox.realNode('real-1');
    const { spec } = podOf(['/bin/busybox sleep 1000000']);
    const manifest = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'static', namespace: 'default' },
      spec,
    };
    await writeFile(join(node.manifests, 'static.yaml'), JSON.stringify(manifest));
    const containerId = () =>
      succeeds(
        kubectl(['get', 'pod', 'static-real-1', '-o', 'jsonpath={.status.containerStatuses[0].containerID}']),
      );
    const before = await eventually('the static pod to run', async () => {
      const id = await containerId();
      expect(id).toMatch(/^containerd:/);
      return id;
    });
    for (const program of ['kubelet', 'containerd', 'logind'] as const) {
      const crashed = node.pid(program);
      await node.kill(program);
      await eventually(`${program} to run again`, () => {
        expect(node.pid(program)).toEqual(expect.any(Number));
        expect(node.pid(program)).not.toBe(crashed);
      });
    }
    await node.ready();
    expect(await containerId()).toBe(before);
    await node.reboot();
    await eventually('another container', async () => expect(await containerId()).not.toBe(before));
  },
);

withContainers('a shutdown waits for inhibitor locks, and systemctl reboots the node', async () => {
  const node = sandbox.realNode('real-1');
  await node.ready();
  const before = node.bootId();
  const lock = node.run(
    'systemd-inhibit',
    '--what=shutdown',
    '--mode=delay',
    '--who=test',
    'sh',
    '-c',
    waiting,
  );
  const ended = lock.catch(() => 'the lock is released');
  const locks = () => node.run('systemd-inhibit', '--list');
  await eventually('the lock', async () => expect(await locks()).toMatch(/test.*shutdown/));
  await node.shutdown('Reboot');
  // logind answers in order: it has asked for the shutdown.
  expect(await locks()).toMatch(/test.*shutdown/);
  expect(node.bootId()).toBe(before);
  await node.run('touch', '/run/released');
  await eventually('the next boot', () => expect(node.bootId()).not.toBe(before));
  expect(await ended).toBe('the lock is released');
  await node.ready();
  const second = node.bootId();
  await eventually('systemctl to reach logind', () => node.run('systemctl', 'reboot'));
  await eventually('one more boot', () => expect(node.bootId()).not.toBe(second));
  await node.ready();
});

/** Ends with an error, so that the end of the node and its own end look the same to the test. */
const waiting = 'until [ -e /run/released ]; do sleep 0.1; done; exit 1';

withContainers('a node that is powered off stays off', async () => {
  const node = sandbox.realNode('real-1');
  await node.shutdown('PowerOff');
  await eventually('the node to be off', () => expect(node.isOn()).toBe(false));
  await expect(node.run('true')).rejects.toThrow('real-1 is off');
  await node.powerOn();
  await node.ready();
});

withContainers('a service that is disabled does not run after a boot', async () => {
  const node = sandbox.realNode('real-1');
  await node.disable('kube-proxy');
  await node.powerLoss();
  expect(node.isOn()).toBe(false);
  await node.powerOn();
  await node.ready();
  expect(node.pid('kube-proxy')).toBeUndefined();
  await node.enable('kube-proxy');
  expect(() => sandbox.realNode('real-2')).toThrow(`The sandbox in ${sandbox.dir} has no node real-2`);
});

withContainers('an imported image can be run', async () => {
  const archive = join(dir, 'nodes', 'pause.tar');
  await sandbox.importImage(archive);
  await writeFile(join(dir, 'not-an-image.tar'), 'no');
  await expect(sandbox.importImage(join(dir, 'not-an-image.tar'))).rejects.toThrow(/not-an-image\.tar/);
});

withContainers('down leaves nothing behind', async () => {
  expect(await command('down', '--dir', dir)).toContain('real-1');
  expect(network()).toEqual([]);
});
