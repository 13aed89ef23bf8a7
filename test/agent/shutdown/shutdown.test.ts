import { afterAll, afterEach, beforeAll, beforeEach, describe, expect } from '@jest/globals';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import type { ShutdownOptions } from '../../../agent/shutdown/shutdown.ts';
import { agentUser, NODE_NAME_EXTRA, REQUESTER_ANNOTATION, SYSTEM_NAMESPACE } from '../../../api/names.ts';
import { shutdownMaintenance } from '../../../domain/shutdown/maintenance.ts';
import { connectKube } from '../../../kube/client.ts';
import { silentLog } from '../../../kube/log.ts';
import { resources } from '../../../kube/resources.ts';
import { kubectlOf } from '../../api/kubectl.ts';
import { eventuallyHolds, throughout } from '../../kit/eventually.ts';
import { startWorker, type WorkerProcess } from '../../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../../kit/world.ts';
import {
  agentKubeconfig,
  createAgentAccount,
  grantOperator,
  removeAgentAccount,
} from '../kit/agentAccount.ts';
import { type ApiserverRoute, routeTo } from '../kit/apiserverRoute.ts';
import { missingForBus, off, PrivateBus, type Running, toHaveLogged, withBus } from '../kit/privateBus.ts';

/** Shutdowns with a bus, a logind, an apiserver and a worker. */

let world: World;
let worker: WorkerProcess;
let bus: PrivateBus;
let route: ApiserverRoute;
let boots = 0;

beforeAll(async () => {
  if (missingForBus !== undefined) return;
  world = await createWorld({ nodes: 2 });
  await createAgentAccount(world);
  const { clusters } = parse(await readFile(world.sandbox.kubeconfig, 'utf8')) as {
    clusters: [{ cluster: { server: string } }];
  };
  route = await routeTo(clusters[0].cluster.server);
  worker = startWorker(world.sandbox);
  await worker.ready();
});

beforeEach(async () => {
  if (missingForBus !== undefined) return;
  bus = await PrivateBus.start();
  route.open();
});

afterEach(async () => {
  if (missingForBus !== undefined) return;
  await bus.stop();
  const left = await world.maintenance('shutdown-node-1');
  if (left === undefined) return;
  const { uid = '' } = left.metadata;
  await world.kube.delete(resources.nodeMaintenances, { name: 'shutdown-node-1' }, { uid });
  await eventuallyHolds(
    'the maintenance to be gone',
    () => world.maintenance('shutdown-node-1'),
    (one) => one === undefined,
  );
});

afterAll(async () => {
  if (missingForBus !== undefined) return;
  await worker?.stop();
  route?.dispose();
  await removeAgentAccount(world);
  await world.close();
});

/** Writes what the kubelet reports of a new boot. */
async function bootNode(): Promise<string> {
  const bootID = `boot-${(boots += 1)}`;
  await world.kube.mergePatch(
    resources.nodes,
    { name: 'node-1' },
    { status: { nodeInfo: { bootID } } },
    { subresource: 'status' },
  );
  return bootID;
}

async function startAgent(bootId: string, options: Partial<ShutdownOptions> = {}): Promise<Running> {
  // A boot empties it.
  const runDirectory = join(bus.dir, bootId);
  await mkdir(runDirectory, { recursive: true });
  const kubeconfig = await agentKubeconfig(world, bus.dir, { node: 'node-1', server: route.url });
  const shutdown: ShutdownOptions = {
    priorities: [{ priority: 1000, seconds: 30 }],
    limitSeconds: 60,
    kubeletPeriodSeconds: 5,
    apiserverTimeoutSeconds: 30,
    busAddress: bus.address,
    runDirectory,
    ...options,
  };
  const agent = bus.startAgent({ kubeconfig, node: 'node-1', bootId, shutdown });
  await eventuallyHolds(
    'the agent to delay shutdowns',
    () => bus.delayedBy(),
    (by) => by.includes('node-maintenance-agent'),
  );
  return agent;
}

const inShutdown = (fact: string, holds: Parameters<World['eventually']>[2]) =>
  world.eventually('shutdown-node-1', fact, holds);

describe('a shutdown', () => {
  withBus(
    'waits until the node is drained, and the maintenance until it is Ready after the boot',
    async () => {
      const first = await bootNode();
      const kubelet = await bus.startKubelet(bus.address.replace(/bus$/, 'bus'), 0);
      expect(kubelet.output()).not.toContain('True');
      const [blocked = ''] = await world.placePods('node-1', 1, { finalizers: ['test.example.com/blocks'] });
      await world.placePods('node-1', 2);
      await startAgent(first);
      await bus.powerOff();
      const draining = await inShutdown(
        'the maintenance to drain',
        ({ status }) => (status?.podsEvacuating ?? 0) > 0,
      );
      expect(draining.metadata.annotations).toMatchObject({
        'nodemaintenance.k8s.io/shutdown-boot-id': first,
      });
      expect(draining.spec.stage).toBe('Drain');
      expect(draining.spec.drainPlan?.filter(({ podPriority }) => podPriority === 1000)).toEqual([
        { podPriority: 1000, podType: 'Default' },
        { podPriority: 1000, podType: 'DaemonSet' },
        { podPriority: 1000, podType: 'Static' },
      ]);
      expect(JSON.parse(draining.metadata.annotations?.[REQUESTER_ANNOTATION] ?? '')).toMatchObject({
        username: agentUser(SYSTEM_NAMESPACE),
        extra: { [NODE_NAME_EXTRA]: ['node-1'] },
      });
      expect(await bus.delayedBy()).toContain('node-maintenance-agent');
      expect(await bus.poweredOff()).toBe('');
      await unblock(blocked);
      await inShutdown('the node to be drained', drained);
      await off(bus, 'NothingDelays');
      await bus.stop();

      bus = await PrivateBus.start();
      const agent = await startAgent('boot-after');
      await toHaveLogged(agent, 'the kubelet has not reported this boot');
      await throughout('it is not completed', 2_000, async () => {
        expect((await world.maintenance('shutdown-node-1'))?.spec.stage).toBe('Drain');
      });
      await world.kube.mergePatch(
        resources.nodes,
        { name: 'node-1' },
        { status: { nodeInfo: { bootID: 'boot-after' } } },
        { subresource: 'status' },
      );
      await inShutdown('the node to be back in service', finished);
      expect((await world.node('node-1')).spec.unschedulable ?? false).toBe(false);
    },
  );

  withBus('that is cancelled returns the node to service, and another one follows it', async () => {
    const boot = await bootNode();
    const [blocked = ''] = await world.placePods('node-1', 1, { finalizers: ['test.example.com/blocks'] });
    await startAgent(boot);
    await bus.powerOff();
    const { metadata } = await inShutdown(
      'the maintenance to drain',
      ({ status }) => (status?.podsEvacuating ?? 0) > 0,
    );
    await bus.cancelShutdown();
    await inShutdown('the node to be back in service', finished);
    expect(await bus.delayedBy()).toEqual(['node-maintenance-agent']);
    await unblock(blocked);
    await bus.powerOff();
    const second = await inShutdown('the node to be drained', drained);
    expect(second.metadata.uid).not.toBe(metadata.uid);
    await off(bus, 'NothingDelays');
  });

  withBus('goes over to the maintenance when an apiserver is back', async () => {
    const boot = await bootNode();
    await world.placePods('node-1', 1);
    const kubelet = await bus.startKubelet(bus.address, 3_600);
    const agent = await startAgent(boot, { apiserverTimeoutSeconds: 1 });
    route.close();
    await bus.powerOff();
    await toHaveLogged(agent, 'Kubelet was notified of the shutdown","cause":"NoApiserver"');
    expect(await world.maintenance('shutdown-node-1')).toBeUndefined();
    route.open();
    await inShutdown('the node to be drained', drained);
    await toHaveLogged(agent, 'Releasing the shutdown inhibitor","cause":"Drained"');
    expect(await bus.delayedBy()).toEqual(['kubelet']);
    await kubelet.end('SIGKILL');
    await off(bus, 'NothingDelays');
  });

  withBus('continues where it stood when the agent is killed', async () => {
    const boot = await bootNode();
    const [blocked = ''] = await world.placePods('node-1', 1, { finalizers: ['test.example.com/blocks'] });
    const first = await startAgent(boot);
    await bus.powerOff();
    const { metadata } = await inShutdown(
      'the maintenance to drain',
      ({ status }) => (status?.podsEvacuating ?? 0) > 0,
    );
    await first.end('SIGKILL');
    await startAgent(boot);
    await unblock(blocked);
    const { metadata: last } = await inShutdown('the node to be drained', drained);
    expect(last.uid).toBe(metadata.uid);
    await off(bus, 'NothingDelays');
  });

  withBus('joins the maintenance of an earlier boot that still drains', async () => {
    // The kubelet has not reported this boot, so that the maintenance of the one before is not over.
    const boot = 'boot-unreported';
    const before = shutdownMaintenance({ node: 'node-1', bootId: 'boot-0', drainPlan: [] });
    const { metadata } = await world.kube.create(resources.nodeMaintenances, before);
    await inShutdown('the node to be drained', drained);
    await startAgent(boot);
    await bus.powerOff();
    await off(bus, 'NothingDelays');
    const joined = await inShutdown('it to be that of this boot', (one) => drained(one));
    expect(joined.metadata).toMatchObject({
      uid: metadata.uid,
      annotations: { 'nodemaintenance.k8s.io/shutdown-boot-id': boot },
    });
  });

  withBus('follows the maintenance of a user that has its name and drains the node', async () => {
    const boot = await bootNode();
    const [blocked = ''] = await world.placePods('node-1', 1, { finalizers: ['test.example.com/blocks'] });
    const { metadata, spec } = shutdownMaintenance({ node: 'node-1', bootId: boot, drainPlan: [] });
    await world.kube.create(resources.nodeMaintenances, { metadata: { name: metadata.name }, spec });
    const agent = await startAgent(boot);
    await bus.powerOff();
    await inShutdown('the maintenance to drain', ({ status }) => (status?.podsEvacuating ?? 0) > 0);
    await unblock(blocked);
    await inShutdown('the node to be drained', drained);
    await off(bus, 'NothingDelays');
    await toHaveLogged(agent, 'Releasing the shutdown inhibitor","cause":"Drained"');
  });

  withBus('drains the node beside another maintenance that drains it', async () => {
    const boot = await bootNode();
    await world.placePods('node-1', 1);
    await world.apply('other', { nodes: ['node-1', 'node-2'], stage: 'Drain' });
    await world.eventually('other', 'its nodes to be drained', drained);
    await startAgent(boot);
    await bus.powerOff();
    await inShutdown('the node to be drained', drained);
    await off(bus, 'NothingDelays');
    await world.patch('other', { stage: 'Complete' });
    await world.eventually('other', 'the other node to be back in service', finished);
    expect((await world.node('node-1')).spec.unschedulable).toBe(true);
  });

  withBus('continues when a user completes the maintenance', async () => {
    const boot = await bootNode();
    const [blocked = ''] = await world.placePods('node-1', 1, { finalizers: ['test.example.com/blocks'] });
    const agent = await startAgent(boot);
    await bus.powerOff();
    await inShutdown('the maintenance to drain', ({ status }) => (status?.podsEvacuating ?? 0) > 0);
    await world.patch('shutdown-node-1', { stage: 'Complete' });
    await off(bus, 'NothingDelays');
    await toHaveLogged(agent, '"cause":"Ended"');
    await unblock(blocked);
  });
});

describe('the agent of a node', () => {
  withBus('may not have another node maintained', async () => {
    const kubeconfig = await agentKubeconfig(world, bus.dir, { node: 'node-1' });
    const kube = connectKube({ kubeconfig, userAgent: 'test', log: silentLog });
    const own = shutdownMaintenance({ node: 'node-1', bootId: 'boot', drainPlan: [] });
    const other = shutdownMaintenance({ node: 'node-2', bootId: 'boot', drainPlan: [] });
    const disguised = { ...own, spec: other.spec };
    for (const object of [other, disguised])
      await expect(kube.create(resources.nodeMaintenances, object)).rejects.toMatchObject({
        kind: 'Forbidden',
      });
    const stored = await kube.create(resources.nodeMaintenances, own);
    await expect(
      kube.mergePatch(resources.nodeMaintenances, { name: stored.metadata.name }, { spec: other.spec }),
    ).rejects.toMatchObject({ kind: 'Forbidden' });
    await kube.close();
  });

  withBus('may not maintain any node with a token that is bound to none', async () => {
    const kubeconfig = await agentKubeconfig(world, bus.dir, {});
    const kube = connectKube({ kubeconfig, userAgent: 'test', log: silentLog });
    const own = shutdownMaintenance({ node: 'node-1', bootId: 'boot', drainPlan: [] });
    await expect(kube.create(resources.nodeMaintenances, own)).rejects.toMatchObject({ kind: 'Forbidden' });
    await kube.close();
  });

  withBus('alone says when its shutdown is over, and users who may delete the node', async () => {
    const own = shutdownMaintenance({ node: 'node-1', bootId: 'boot', drainPlan: [] });
    await world.kube.create(resources.nodeMaintenances, own);
    await grantOperator(world, 'mallory');
    const patch = JSON.stringify({
      metadata: { annotations: { 'nodemaintenance.k8s.io/shutdown-boot-id': 'other' } },
    });
    const args = ['patch', 'nm', 'shutdown-node-1', '--as', 'mallory', '--type=merge', '-p', patch];
    const { code, stderr } = await kubectlOf(world.sandbox)(args);
    expect({ code, stderr }).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('user "mallory" may not delete node "node-1"'),
    });
  });

  withBus('is nobody who only has its name', async () => {
    const kubectl = kubectlOf(world.sandbox);
    const own = shutdownMaintenance({ node: 'node-1', bootId: 'boot', drainPlan: [] });
    const object = { apiVersion: 'nodemaintenance.k8s.io/v1alpha1', kind: 'NodeMaintenance', ...own };
    const as = ['create', '--as', agentUser(SYSTEM_NAMESPACE), '-f', '-'];
    const { code, stderr } = await kubectl(as, object);
    expect({ code, stderr }).toMatchObject({ code: 1, stderr: expect.stringContaining('node-1') });
  });
});

async function unblock(name: string): Promise<void> {
  await world.kube.mergePatch(
    resources.pods,
    { namespace: 'default', name },
    { metadata: { finalizers: null } },
  );
}
