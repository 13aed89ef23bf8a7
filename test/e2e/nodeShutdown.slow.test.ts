import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, expect } from '@jest/globals';
import { READINESS_TAINT, RebootAnnotation } from '../../api/names.ts';
import { isTrue } from '../../domain/common/conditions.ts';
import { workResultOf } from '../../domain/windows/nodeResult.ts';
import { resources } from '../../kube/resources.ts';
import type { RealNode } from '../../sandbox/realNodes/realNode.ts';
import { BootWatch } from '../kit/bootWatch.ts';
import { eventually, eventuallyHolds, throughout } from '../kit/eventually.ts';
import { type Entry, NodeProcesses, uptime } from '../kit/nodeProcesses.ts';
import { gate, ofPool, ReadinessPolicies, readinessPolicy } from '../kit/readiness.ts';
import { missingForContainers, withContainers } from '../kit/realNodes.ts';
import { controllers, startAdmission, startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';
import { Windows } from './windows.ts';

// A host with kubelet, containerd, node agent and logind is shut down. Its processes take 5 s to stop, which the end of a machine does not wait for.

let world: World;
let worker: WorkerProcess;
let admission: WorkerProcess;
let node: RealNode;
let processes: NodeProcesses;

const all = ['critical', 'daemon', 'default', 'static'];
const manifests = ['critical.yaml', 'static.yaml'];
const maintenance = 'shutdown-real-1';
const stopSeconds = 5;
const criticalStopSeconds = 10;

beforeAll(async () => {
  if (missingForContainers !== undefined) return;
  world = await createWorld({
    nodes: 1,
    realNodes: 1,
    realNodeOptions: {
      kubelet: { shutdownGracePeriod: '40s', shutdownGracePeriodCriticalPods: '20s' },
      inhibitDelayMaxSeconds: 300,
      agentArguments: [
        '--kubelet-shutdown-period=40',
        '--shutdown-priorities=0:120,2000001000:120',
        // Long enough to end the agent while its command runs.
        '--reboot-command=sleep 3; systemctl reboot',
      ],
    },
  });
  admission = startAdmission(world.sandbox);
  worker = startWorker(world.sandbox, controllers);
  await Promise.all([admission.ready(), worker.ready()]);
  node = world.sandbox.realNode('real-1');
  processes = new NodeProcesses(world, node, { stopSeconds });
  const spec = { priorityClassName: 'system-node-critical', priority: 2_000_001_000 };
  processes.staticPod('static');
  processes.staticPod('critical', { stopSeconds: criticalStopSeconds, spec });
  await processes.daemonSet('daemon');
}, 600_000);

afterEach(async () => {
  if (missingForContainers !== undefined) return;
  await connect();
  const { uid = '' } = (await world.maintenance(maintenance))?.metadata ?? {};
  if (uid !== '') await world.kube.delete(resources.nodeMaintenances, { name: maintenance }, { uid });
  await eventually('the maintenance to be gone', async () =>
    expect(await world.maintenance(maintenance)).toBeUndefined(),
  );
});

afterAll(async () => {
  await worker?.kill();
  await admission?.kill();
  await world?.close();
});

interface Shutdown {
  /** The boot that ends. */
  bootId: string;
  /** When it began, by the clock of the processes. */
  from: number;
  /** Length of the agent's log then. */
  logged: number;
}

const kubeletNotified = '"cause":"NoApiserver","msg":"Kubelet was notified of the shutdown"';

const agentLog = () => readFileSync(node.log('agent'), 'utf8');

/** Waits until the agent has logged this since the shutdown began. */
const agentLogs = (text: string, { logged }: Shutdown) =>
  eventuallyHolds(
    `the agent to log ${text}`,
    () => agentLog().slice(logged),
    (log) => log.includes(text),
  );

/** Waits until all processes run, and both the kubelet and the agent delay shutdowns. */
async function inService(): Promise<void> {
  const key = { namespace: 'default', name: 'default' };
  if ((await world.kube.get(resources.pods, key)) === undefined) await processes.pod('default');
  await processes.eventuallyRunning(all);
  await eventually('both to delay shutdowns', async () => {
    const list = await node.run('systemd-inhibit', '--list', '--no-legend');
    for (const who of ['kubelet', 'node-maintenance-agent'])
      expect(list).toMatch(new RegExp(`^${who} .* delay`, 'm'));
  });
}

async function shutDown(): Promise<Shutdown> {
  const shutdown = { bootId: node.bootId() ?? '', from: uptime(), logged: agentLog().length };
  await node.shutdown('Reboot');
  return shutdown;
}

/** Waits for the next boot, before which all processes have ended by themselves, and none has started. */
async function booted({ bootId, from }: Shutdown): Promise<void> {
  await eventually('the next boot', () => {
    expect(node.bootId()).toBeDefined();
    expect(node.bootId()).not.toBe(bootId);
  });
  const histories = Object.fromEntries(all.map((name) => [name, processes.history(name, { bootId, from })]));
  const ended: Entry['what'][] = ['term', 'end'];
  expect(histories).toEqual(Object.fromEntries(all.map((name) => [name, ended])));
}

/** Waits until everything runs again, after a shutdown with a maintenance: everything but the pod that no controller owns. */
async function returned({ bootId }: Shutdown): Promise<void> {
  await world.eventually(maintenance, 'the maintenance to be complete', finished);
  await processes.eventuallyRunning(['critical', 'daemon', 'static']);
  await eventually('the manifests to be back', () => expect(processes.manifests()).toEqual(manifests));
  for (const name of ['critical', 'static']) expect(processes.history(name)).toEqual(['start']);
  processes.expectNoneStartedTwice();
  await backInService(bootId);
}

/** Waits until the Node is Ready in another boot, and accepts pods. */
async function backInService(before: string): Promise<void> {
  await eventually('the Node to be back in service', async () => {
    const { spec, status } = await world.node('real-1');
    expect(isTrue(status?.conditions, 'Ready')).toBe(true);
    expect(status?.nodeInfo?.bootID).toBe(node.bootId());
    expect(spec.unschedulable ?? false).toBe(false);
  });
  expect(node.bootId()).not.toBe(before);
}

/** Drops all packets between the node and this host, where the apiserver is. */
async function disconnect(): Promise<void> {
  for (const rule of routes()) await node.run('iptables', '--insert', ...rule);
}

/** Ends that. Does nothing the second time. */
async function connect(): Promise<void> {
  for (const rule of routes()) {
    const isDropped = await node.run('iptables', '--check', ...rule).then(
      () => true,
      () => false,
    );
    if (isDropped) await node.run('iptables', '--delete', ...rule);
  }
}

function routes(): string[][] {
  const [host = ''] = world.sandbox.temporalAddress.split(':');
  return [
    ['OUTPUT', '--destination', host, '--jump', 'DROP'],
    ['INPUT', '--source', host, '--jump', 'DROP'],
  ];
}

withContainers(
  'a reboot waits until all processes have ended tier by tier, and the maintenance for the Node in the next boot',
  async () => {
    await inService();
    const shutdown = await shutDown();
    node.disableFromNextBoot('kubelet');
    await booted(shutdown);
    await processes.expectEndedTierByTier(shutdown.from);
    await agentLogs('the kubelet has not reported this boot', shutdown);
    await throughout('the maintenance is not completed', 3_000, async () => {
      const { spec, status } = (await world.maintenance(maintenance)) ?? {};
      expect([spec?.stage, isTrue(status?.conditions, 'Drained')]).toEqual(['Drain', true]);
      expect(processes.running()).toEqual([]);
    });
    await node.enable('kubelet');
    await returned(shutdown);
    expect(agentLog().slice(shutdown.logged)).toContain('"because":"Booted"');
  },
);

withContainers('a shutdown continues where it stood when the agent is killed', async () => {
  await inService();
  const shutdown = await shutDown();
  await processes.eventuallyLogs('static', 'term', shutdown.from);
  const { uid } = (await world.maintenance(maintenance))?.metadata ?? {};
  await node.kill('agent');
  await booted(shutdown);
  await processes.expectEndedTierByTier(shutdown.from);
  expect((await world.maintenance(maintenance))?.metadata.uid).toBe(uid);
  await returned(shutdown);
});

withContainers('without an apiserver the kubelet terminates the pods of a shutdown itself', async () => {
  await inService();
  await disconnect();
  const shutdown = await shutDown();
  await booted(shutdown);
  const log = agentLog().slice(shutdown.logged);
  expect(log).toContain(kubeletNotified);
  expect(await world.maintenance(maintenance)).toBeUndefined();
  await connect();
  await backInService(shutdown.bootId);
  await processes.eventuallyRunning(all);
  expect(await world.maintenance(maintenance)).toBeUndefined();
  processes.expectNoneStartedTwice();
});

withContainers('a shutdown goes over to a maintenance when an apiserver is back', async () => {
  await inService();
  await disconnect();
  const shutdown = await shutDown();
  await agentLogs(kubeletNotified, shutdown);
  await connect();
  await world.eventually(maintenance, 'the node to be drained', drained);
  await booted(shutdown);
  expect(agentLog().slice(shutdown.logged)).toContain(
    '"cause":"Drained","msg":"Releasing the shutdown inhibitor"',
  );
  await returned(shutdown);
});

withContainers(
  'a window reboots the node once although its agent is killed, and uncordons it when its gate is open',
  async () => {
    const windows = await Windows.in(world, { real: ['real-1'] });
    const policies = new ReadinessPolicies(world.kube);
    const boots = new BootWatch(node);
    try {
      await policies.applied(
        readinessPolicy('real', ofPool('real'), [gate({ name: 'daemon', namespace: 'default' })]),
        { pool: 'real' },
      );
      await inService();
      const before = node.bootId() ?? '';
      const from = uptime();
      await windows.applied('reboots', {
        pool: 'real',
        work: { type: 'Reboot', reboot: { policy: 'Always' } },
      });
      const run = await windows.open('reboots');
      await eventually('the reboot to start', async () =>
        expect((await world.node('real-1')).metadata.annotations).toMatchObject({
          [RebootAnnotation.Started]: before,
        }),
      );
      expect(processes.running()).toEqual([]);
      await node.kill('agent');
      expect(await run.result()).toMatchObject({ done: 1, failed: [], remaining: 0 });
      const ofWindow = await windows.maintenanceOf('reboots', 'real-1');
      expect(workResultOf(ofWindow)).toMatchObject({ status: 'True', reason: 'Rebooted' });
      await world.eventually(
        ofWindow.metadata.name,
        'the maintenance of the window to be complete',
        finished,
      );
      await returned({ bootId: before, from, logged: 0 });
      expect((await world.node('real-1')).spec.taints ?? []).not.toContainEqual(
        expect.objectContaining({ key: READINESS_TAINT.key }),
      );
      const { items } = await world.kube.list(resources.events, { fieldSelector: 'reason=RebootFailed' });
      expect(items.map(({ message }) => message)).toEqual([]);
      expect(boots.seen()).toEqual([before, node.bootId()]);
    } finally {
      boots.close();
      await policies.allDropped();
      windows.close();
    }
  },
);
