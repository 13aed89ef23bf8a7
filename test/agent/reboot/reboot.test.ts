import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { RebootAnnotation } from '../../../api/names.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually, throughout } from '../../kit/eventually.ts';
import { RebootingHost } from '../../kit/rebootingHost.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

// The part of the node agent that reboots its host. The test writes what the worker would write. Each test has a node of its own, and waits most of the
// time: they run side by side.

const { Required, Requested, Started } = RebootAnnotation;

let sandbox: Sandbox;
let c: TestCluster;
const hosts: RebootingHost[] = [];

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'agent-reboot' });
});

afterAll(async () => {
  for (const host of hosts) await host.close();
  await c?.close();
  await releaseSandbox(sandbox);
});

interface Machine {
  node: string;
  host: RebootingHost;
}

async function machine(): Promise<Machine> {
  const node = await c.nodeNamed('n');
  const host = await RebootingHost.start({ kube: c.admin, node, env: sandbox.env });
  hosts.push(host);
  return { node, host };
}

const annotated = (name: string, annotations: Record<string, string | null>) =>
  c.admin.mergePatch(resources.nodes, { name }, { metadata: { annotations } });

const annotationsOf = async (name: string): Promise<Record<string, string>> =>
  (await c.node(name)).metadata.annotations ?? {};

/** Says that a maintenance has drained the node. */
async function drained(name: string, status: 'True' | 'False' = 'True'): Promise<void> {
  await c.admin.mergePatch(resources.nodes, { name }, { spec: { unschedulable: true } });
  const lastTransitionTime = new Date().toISOString();
  const condition = { type: 'Drained', status, reason: 'DrainCompleted', message: '', lastTransitionTime };
  await c.admin.apply(
    resources.nodes,
    { metadata: { name }, status: { conditions: [condition] } } as object as { metadata: { name: string } },
    { fieldManager: 'test-conditions', force: true, subresource: 'status' },
  );
}

const noReboot = (host: RebootingHost) =>
  throughout('no reboot', 1_000, async () => expect(await host.reboots()).toEqual([]));

describe('a host', () => {
  test.concurrent('is rebooted once for a request, when its node is drained, and ignores the request afterwards', async () => {
    const { node, host } = await machine();
    const { bootId } = host;
    await annotated(node, { [Requested]: bootId });
    await noReboot(host);
    await drained(node, 'False');
    await noReboot(host);
    await drained(node);
    await eventually('the reboot', async () => expect(await host.reboots()).toHaveLength(1));
    await eventually('the next boot', () => expect(host.bootId).not.toBe(bootId));
    await throughout('no second reboot', 1_000, async () => expect(await host.reboots()).toHaveLength(1));
    expect(await annotationsOf(node)).toMatchObject({ [Requested]: bootId, [Started]: bootId });
    const events = await c.admin.list(resources.events, {
      fieldSelector: `involvedObject.name=${node},reason=RebootStarted`,
    });
    expect(events.items).toHaveLength(1);
  });

  test.concurrent('is not rebooted for the boot before, nor for a node that accepts pods', async () => {
    const { node, host } = await machine();
    await drained(node);
    await annotated(node, { [Requested]: 'an-earlier-boot' });
    await noReboot(host);
    await c.admin.mergePatch(resources.nodes, { name: node }, { spec: { unschedulable: false } });
    await annotated(node, { [Requested]: host.bootId });
    await noReboot(host);
    expect(await annotationsOf(node)).not.toHaveProperty([Started]);
  });

  test.concurrent('is rebooted by an agent that was killed before it ran the command', async () => {
    const { node, host } = await machine();
    await host.stopAgent();
    await drained(node);
    await annotated(node, { [Requested]: host.bootId, [Started]: host.bootId });
    host.startAgent();
    await eventually('the reboot', async () => expect(await host.reboots()).toHaveLength(1));
  });

  test.concurrent('is not rebooted if the request was withdrawn while its agent did not run', async () => {
    const { node, host } = await machine();
    await host.stopAgent();
    await drained(node);
    await annotated(node, { [Requested]: host.bootId });
    await annotated(node, { [Requested]: null });
    host.startAgent();
    await noReboot(host);
  });

  test.concurrent('that shuts down already is rebooted only if that is cancelled', async () => {
    const { node, host } = await machine();
    host.isShuttingDown = true;
    await drained(node);
    await annotated(node, { [Requested]: host.bootId });
    await noReboot(host);
    expect(await annotationsOf(node)).not.toHaveProperty([Started]);
    host.isShuttingDown = false;
    await eventually('the reboot', async () => expect(await host.reboots()).toHaveLength(1));
  });

  test.concurrent('whose reboot command fails reports that, and can be withdrawn; the command is repeated until it succeeds', async () => {
    const { node, host } = await machine();
    await host.commandFails(true);
    await drained(node);
    await annotated(node, { [Requested]: host.bootId });
    await eventually('the Event', async () => {
      const { items } = await c.admin.list(resources.events, {
        fieldSelector: `involvedObject.name=${node},reason=RebootFailed`,
      });
      expect(items.map(({ message }) => message)).toEqual([
        expect.stringMatching(/failed, and is retried: exit code 4: Failed to connect to bus\. Check it/),
      ]);
    });
    await eventually('the request to be free', async () =>
      expect(await annotationsOf(node)).not.toHaveProperty([Started]),
    );
    await host.commandFails(false);
    await eventually('the reboot', async () => expect(await host.reboots()).toHaveLength(1));
  });

  test.concurrent('that survives a successful command is rebooted once for each request', async () => {
    const { node, host } = await machine();
    await host.ignoresReboots();
    await drained(node);
    await annotated(node, { [Requested]: host.bootId });
    await eventually('the command', async () => expect(await host.reboots()).toHaveLength(1));
    await drained(node, 'False');
    await drained(node);
    await throughout('no second command', 1_000, async () => expect(await host.reboots()).toHaveLength(1));
    await annotated(node, { [Requested]: null, [Started]: null });
    await annotated(node, { [Requested]: host.bootId });
    await eventually('the second command', async () => expect(await host.reboots()).toHaveLength(2));
  });
});

describe('the annotation that a node needs a reboot', () => {
  const required = async (node: string, value: string | undefined) =>
    eventually(`the annotation to be ${value}`, async () =>
      expect((await annotationsOf(node))[Required]).toBe(value),
    );

  test.concurrent('follows the sentinel file, also across a restart of the agent', async () => {
    const { node, host } = await machine();
    await host.needsReboot('linux-image-6.12\n');
    await required(node, 'packages: linux-image-6.12');
    await host.needsReboot('linux-image-6.12\nlibc6\n');
    await required(node, 'packages: linux-image-6.12, libc6');
    await host.stopAgent();
    await host.noLongerNeedsReboot();
    host.startAgent();
    await required(node, undefined);
  });

  test.concurrent('stays as a user has written it, with or without the file, until the user removes it', async () => {
    const { node, host } = await machine();
    await annotated(node, { [Required]: 'new BIOS' });
    await host.needsReboot('');
    await throughout('the annotation of the user', 1_000, async () =>
      expect((await annotationsOf(node))[Required]).toBe('new BIOS'),
    );
    await annotated(node, { [Required]: null });
    await required(node, `${host.sentinel} exists`);
    await annotated(node, { [Required]: 'new BIOS' });
    await host.noLongerNeedsReboot();
    await throughout('the annotation of the user', 1_000, async () =>
      expect((await annotationsOf(node))[Required]).toBe('new BIOS'),
    );
  });
});
