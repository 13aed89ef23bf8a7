import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { stringify } from 'yaml';
import type { Node } from '../../../api/core.ts';
import type { Evacuation, EvacuationStatus } from '../../../api/evacuation.ts';
import {
  AGENT_COMPONENT,
  AGENT_LEASE_NAMESPACE,
  EVACUATION_NODE_LABEL,
  IdentityAnnotation,
} from '../../../api/names.ts';
import type { DrainPlanEntry } from '../../../api/nodeMaintenance.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { AgentHost } from '../../kit/agent.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import { UnreliableNetwork } from '../../kube/unreliableNetwork.ts';

// The agent as a process of its own, with a token of its node and the permissions of deploy/. What the worker writes, the test writes.

let sandbox: Sandbox;
let c: TestCluster;
const open: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'agent' });
});

afterEach(async () => {
  for (const one of open.splice(0)) await one.close();
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

const everyStaticPod: DrainPlanEntry[] = [{ podType: 'Static', podPriority: 2_147_483_647 }];
const kubelet = { activeEvacuatorClass: 'kubelet.k8s.io' };
const consent = { 'nodemaintenance.k8s.io/evacuate-control-plane': 'true' };
const etcdLabels = { component: 'etcd', tier: 'control-plane' };

async function hostNamed(what: string): Promise<AgentHost> {
  const node = await c.nodeNamed(what);
  const host = await AgentHost.of(c.admin, { node, kubeconfig: sandbox.kubeconfig });
  open.push(host);
  return host;
}

interface ManifestDiffers {
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  priority?: number;
  image?: string;
}

const manifest = (name: string, { priority, image = 'fake', ...metadata }: ManifestDiffers = {}) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: c.namespace, ...metadata },
  spec: {
    containers: [{ name: 'main', image }],
    terminationGracePeriodSeconds: 60,
    ...(priority !== undefined && { priority }),
  },
});

/** Writes the conditions of a node in maintenance, or without. */
async function conditions(node: string, status: 'True' | 'False'): Promise<void> {
  const all = ['MaintenanceInProgress', 'DrainInProgress'].map((type) => ({
    type,
    status,
    reason: 'AdminRequested',
    message: '',
    lastTransitionTime: new Date().toISOString(),
  }));
  const object = { metadata: { name: node }, status: { conditions: all } } as unknown as Node;
  await c.admin.apply(resources.nodes, object, { fieldManager: 'test', force: true, subresource: 'status' });
}

/** Drains a node as far as its static pods, as the worker does. Returns the name of the maintenance. */
async function draining(node: string, targets = everyStaticPod): Promise<string> {
  const made = await c.applied(c.maintenance({ nodes: [node], stage: 'Drain', reason: 'OS upgrade' }));
  const { name } = made.metadata;
  const nodeStatuses = [{ nodeRef: { name: node }, drainTargets: targets }];
  await c.admin.mergePatch(
    resources.nodeMaintenances,
    { name },
    { status: { nodeStatuses } },
    {
      subresource: 'status',
    },
  );
  await conditions(node, 'True');
  return name;
}

async function completed(node: string, name: string): Promise<void> {
  await c.staged(name, 'Complete');
  await conditions(node, 'False');
}

/** Creates the Evacuation of a static pod, as the worker does. */
async function evacuated(
  node: string,
  name: string,
  status: Partial<EvacuationStatus> = kubelet,
): Promise<Evacuation['metadata']> {
  const uid = crypto.randomUUID();
  const pod = {
    metadata: { name: `${name}-${node}`, namespace: c.namespace, uid },
    spec: {},
    status: { ready: true },
  };
  const made = c.evacuation(pod);
  const labels = { [EVACUATION_NODE_LABEL]: node };
  const { metadata } = await c.admin.create(resources.evacuations, {
    ...made,
    metadata: { ...made.metadata, labels },
  });
  const key = { namespace: c.namespace, name: metadata.name };
  await c.admin.mergePatch(resources.evacuations, key, { status }, { subresource: 'status' });
  return metadata;
}

async function statusOf({ name, namespace = '' }: Evacuation['metadata']) {
  return (await c.admin.get(resources.evacuations, { namespace, name }))?.status;
}

const eventuallyHeld = (host: AgentHost, want: string[]) =>
  eventually(`${want.join(', ')} to be held`, async () => expect(await host.held()).toEqual(want));

const eventuallyPresent = (host: AgentHost, want: string[]) =>
  eventually(`${want.join(', ')} to be present`, async () => {
    expect({ present: await host.present(), held: await host.held() }).toEqual({ present: want, held: [] });
  });

test('a static pod is stopped for the drain of its node, reported, and started after it', async () => {
  const host = await hostNamed('whole');
  const { node } = host;
  await host.placed('web.yaml', manifest('web'));
  await host.placed('other.yaml', manifest('other'));
  const before = await readFile(join(host.manifests, 'web.yaml'), 'utf8');
  const agent = host.start();
  const lease = () => c.admin.get(resources.leases, { namespace: AGENT_LEASE_NAMESPACE, name: node });
  const eventuallyReported = (held: string | undefined) =>
    eventually(`${held ?? 'no'} held manifest on the Lease`, async () =>
      expect((await lease())?.metadata.annotations?.[IdentityAnnotation.HeldStaticPods]).toBe(held),
    );
  await eventually('the identity Lease', async () => {
    expect(await lease()).toMatchObject({
      metadata: {
        labels: { 'k8s.io/component': AGENT_COMPONENT },
        // Without a reboot command, it does not reboot its node.
        annotations: { [IdentityAnnotation.Capabilities]: 'static-pods' },
      },
      spec: { leaseDurationSeconds: 60, holderIdentity: expect.stringMatching(`^${node}_`) },
    });
  });

  const name = await draining(node);
  const evacuation = await evacuated(node, 'web');
  await eventuallyHeld(host, ['web.yaml']);
  expect(await host.present()).toEqual(['other.yaml']);
  await eventuallyReported('1');
  await eventually('the progress to be reported', async () => {
    const status = await statusOf(evacuation);
    expect(status).toMatchObject({
      activeEvacuatorCompleted: false,
      message: 'web is terminating the pod due to node maintenance (OS upgrade).',
    });
    const [from, to] = [status?.evacuationProgressTimestamp, status?.expectedEvacuationFinishTime];
    expect(Date.parse(to ?? '') - Date.parse(from ?? '')).toBe(60_000);
  });

  await completed(node, name);
  await eventuallyPresent(host, ['other.yaml', 'web.yaml']);
  await eventuallyReported(undefined);
  expect(await readFile(join(host.manifests, 'web.yaml'), 'utf8')).toBe(before);
  await eventually('the Events', async () => {
    const events = await c.eventsAbout(await c.node(node));
    expect(events.join('\n')).toMatch(/StaticPodHeld: Static pod .*\/web is stopped for NodeMaintenance/);
    expect(events.join('\n')).toMatch(/StaticPodReturned: Manifest web\.yaml/);
  });
  expect(await agent.stop()).toBe(0);
});

test('what is held while the agent is down is put back at its next start, if the maintenance was deleted', async () => {
  const host = await hostNamed('down');
  await host.placed('web.yaml', manifest('web'));
  const name = await draining(host.node);
  await evacuated(host.node, 'web');
  const first = host.start();
  await eventuallyHeld(host, ['web.yaml']);
  await first.kill();
  const { uid = '' } = (await c.maintenanceNow(name)).metadata;
  await c.admin.delete(resources.nodeMaintenances, { name }, { uid });
  host.start();
  await eventuallyPresent(host, ['web.yaml']);
});

describe('killed with SIGKILL, the agent continues at its next start', () => {
  test.each(['rename:before', 'rename:after'])('while it stops a pod: %s', async (killAt) => {
    const host = await hostNamed('kill-hold');
    await host.placed('web.yaml', manifest('web'));
    await draining(host.node);
    await evacuated(host.node, 'web');
    await host.start({ killAt }).exited();
    const found = [...(await host.present()), ...(await host.held())];
    expect(found).toEqual(['web.yaml']);
    host.start();
    await eventuallyHeld(host, ['web.yaml']);
    expect(await host.present()).toEqual([]);
  });

  test.each(['link:before', 'link:after', 'unlink:before', 'unlink:after'])(
    'while it starts a pod: %s',
    async (killAt) => {
      const host = await hostNamed('kill-return');
      await host.placed('web.yaml', manifest('web'));
      const name = await draining(host.node);
      await evacuated(host.node, 'web');
      const first = host.start();
      await eventuallyHeld(host, ['web.yaml']);
      await first.kill();
      await completed(host.node, name);
      await host.start({ killAt }).exited();
      expect([...(await host.present()), ...(await host.held())]).toContain('web.yaml');
      host.start();
      await eventuallyPresent(host, ['web.yaml']);
      expect(await host.aside()).toEqual([]);
    },
  );
});

test('a pod whose return was interrupted is stopped once by the next drain', async () => {
  const host = await hostNamed('twice');
  await host.placed('web.yaml', manifest('web'));
  const name = await draining(host.node);
  await evacuated(host.node, 'web');
  const first = host.start();
  await eventuallyHeld(host, ['web.yaml']);
  await first.kill();
  await completed(host.node, name);
  await host.start({ killAt: 'link:after' }).exited();
  expect([await host.present(), await host.held()]).toEqual([['web.yaml'], ['web.yaml']]);
  await draining(host.node);
  host.start();
  await eventually('the manifest to be in the hold directory alone', async () =>
    expect([await host.present(), await host.held(), await host.aside()]).toEqual([[], ['web.yaml'], []]),
  );
});

describe('a newer manifest of a held pod', () => {
  test('is held, too, and put back in place of the older one, which is kept', async () => {
    const host = await hostNamed('newer');
    await host.placed('web.yaml', manifest('web', { image: 'old' }));
    const name = await draining(host.node);
    await evacuated(host.node, 'web');
    host.start();
    await eventuallyHeld(host, ['web.yaml']);
    await host.placed('web.yaml', manifest('web', { image: 'new' }));
    await eventually('the older one to be set aside', async () => {
      expect({ aside: await host.aside(), present: await host.present(), held: await host.held() }).toEqual({
        aside: ['web.yaml'],
        present: [],
        held: ['web.yaml'],
      });
    });
    await completed(host.node, name);
    await eventuallyPresent(host, ['web.yaml']);
    expect(await readFile(join(host.manifests, 'web.yaml'), 'utf8')).toContain('new');
    expect(await readFile(join(host.hold, 'set-aside/web.yaml'), 'utf8')).toContain('old');
  });

  test('stays where it is if the drain ended while the agent was down', async () => {
    const host = await hostNamed('newer-down');
    await host.placed('web.yaml', manifest('web', { image: 'old' }));
    const name = await draining(host.node);
    await evacuated(host.node, 'web');
    const first = host.start();
    await eventuallyHeld(host, ['web.yaml']);
    await first.kill();
    await completed(host.node, name);
    await host.placed('renamed.yaml', manifest('web', { image: 'new' }));
    host.start();
    await eventuallyPresent(host, ['renamed.yaml']);
    expect(await host.aside()).toEqual(['web.yaml']);
  });
});

test('a pod keeps running, and its Evacuation says why, if it may not be stopped', async () => {
  const host = await hostNamed('left');
  const { node } = host;
  await host.placed('etcd.yaml', manifest('etcd', { labels: etcdLabels }));
  await host.placed('high.yaml', manifest('high', { priority: 7_001 }));
  await host.placed('web.yaml', manifest('web', { priority: 7_000 }));
  await writeFile(join(host.manifests, 'notes.txt'), 'not a manifest: [');
  await draining(node, [{ podType: 'Static', podPriority: 7_000 }]);
  const [etcd, high] = [await evacuated(node, 'etcd'), await evacuated(node, 'high')];
  await evacuated(node, 'web');
  host.start();
  await eventuallyHeld(host, ['web.yaml']);
  await eventually('the reasons', async () => {
    const [ofEtcd, ofHigh] = [await statusOf(etcd), await statusOf(high)];
    expect(ofEtcd?.message).toMatch(
      /^etcd belongs to the control plane and keeps running: add the annotation/,
    );
    expect(ofHigh?.message).toMatch(/^The drain targets of the node do not include high/);
    expect([ofEtcd?.evacuationProgressTimestamp, ofHigh?.evacuationProgressTimestamp]).toEqual([
      undefined,
      undefined,
    ]);
  });
  expect(await host.present()).toEqual(['etcd.yaml', 'high.yaml', 'notes.txt']);
});

test('without an apiserver, held pods stay so, the control plane returns, and is not stopped again in this drain', async () => {
  const host = await hostNamed('outage');
  const { node } = host;
  const { network, kubeconfig, close } = await UnreliableNetwork.before(host.kubeconfig);
  open.push({ close });
  await host.placed('etcd.yaml', manifest('etcd', { labels: etcdLabels, annotations: consent }));
  await host.placed('web.yaml', manifest('web'));
  const name = await draining(node);
  const evacuation = await evacuated(node, 'etcd');
  await evacuated(node, 'web');
  const first = host.start({ kubeconfig });
  await eventuallyHeld(host, ['etcd.yaml', 'web.yaml']);
  await first.kill();
  network.down();
  // Starts without an apiserver.
  host.start({ kubeconfig, args: ['--control-plane-return-after', '1'] });
  // For a moment it is in both folders.
  await eventually('the control plane to be put back', async () =>
    expect([await host.present(), await host.held()]).toEqual([['etcd.yaml'], ['web.yaml']]),
  );
  network.up();
  await eventually('the Event', async () => {
    const events = (await c.eventsAbout(await c.node(node))).join('\n');
    expect(events).toMatch(/StaticPodReturned: Static pod .*\/etcd was put back because no apiserver/);
  });
  await eventually('the Evacuation to say so', async () =>
    expect((await statusOf(evacuation))?.message).toMatch(/^etcd was put back because no apiserver answered/),
  );
  expect([await host.present(), await host.held()]).toEqual([['etcd.yaml'], ['web.yaml']]);
  await completed(node, name);
  await eventuallyPresent(host, ['etcd.yaml', 'web.yaml']);
  await draining(node);
  await eventuallyHeld(host, ['etcd.yaml', 'web.yaml']);
});

test('of two agents of a node, the earlier one ends with an error', async () => {
  const host = await hostNamed('two');
  const first = host.start();
  const key = { namespace: AGENT_LEASE_NAMESPACE, name: host.node };
  const holder = async () => (await c.admin.get(resources.leases, key))?.spec.holderIdentity;
  const one = await eventually('the first holder', async () => {
    const found = await holder();
    expect(found).toBeDefined();
    return found;
  });
  const second = host.start();
  await eventually('the second holder', async () => expect(await holder()).not.toBe(one));
  // A change of what it holds has the first one renew its Lease now, which shows the other one to it.
  await writeFile(join(host.hold, 'web.yaml'), stringify(manifest('web')));
  await host.placed('other.yaml', manifest('other'));
  expect(await first.exited()).toBe(1);
  expect(first.log()).toMatch(/another agent of node .* has started since/);
  expect(await second.stop()).toBe(0);
});

test('what is held is put back when the Node was deleted, after which the agent learns nothing more', async () => {
  const host = await hostNamed('deleted');
  const { node } = host;
  await host.placed('web.yaml', manifest('web'));
  await host.placed('etcd.yaml', manifest('etcd', { labels: etcdLabels, annotations: consent }));
  const agent = host.start();
  await draining(node);
  await evacuated(node, 'web');
  await evacuated(node, 'etcd');
  await eventuallyHeld(host, ['etcd.yaml', 'web.yaml']);
  const { uid = '' } = (await c.node(node)).metadata;
  await c.admin.delete(resources.nodes, { name: node }, { uid });
  await eventuallyPresent(host, ['etcd.yaml', 'web.yaml']);
  await eventually('the reason to be logged', () =>
    expect(agent.log()).toContain('was put back: the Node was deleted.'),
  );
  expect(await agent.stop()).toBe(0);
});

test('a hold directory on another file system is refused', async () => {
  const host = await hostNamed('elsewhere');
  const held = `/dev/shm/nm-${crypto.randomUUID()}`;
  const agent = host.start({ args: ['--hold-directory', held] });
  expect(await agent.exited()).toBe(1);
  expect(agent.log()).toContain('is on another file system than --static-pod-path');
});

test('without a folder of static pods, the agent waits for one, and its Lease says what it can do', async () => {
  const host = await hostNamed('none');
  const later = join(host.dir, 'later');
  await rename(host.manifests, later);
  const agent = host.start({ args: ['--reboot-command', 'true', '--reboot-sentinel', ''] });
  const eventuallyCapable = (capabilities: string) =>
    eventually(`the capabilities ${capabilities} on the Lease`, async () => {
      const key = { namespace: AGENT_LEASE_NAMESPACE, name: host.node };
      const { annotations } = (await c.admin.get(resources.leases, key))?.metadata ?? {};
      expect(annotations?.[IdentityAnnotation.Capabilities]).toBe(capabilities);
    });
  await eventually('the line in the log', () =>
    expect(agent.log()).toContain('Static pods are not managed until their folder exists'),
  );
  await eventuallyCapable('reboot');
  await rename(later, host.manifests);
  await eventuallyCapable('reboot,static-pods');
  expect(await agent.stop()).toBe(0);
});
