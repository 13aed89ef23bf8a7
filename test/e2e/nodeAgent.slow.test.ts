import { afterAll, afterEach, beforeAll, expect } from '@jest/globals';
import { resources } from '../../kube/resources.ts';
import { eventually } from '../kit/eventually.ts';
import { NodeProcesses, uptime } from '../kit/nodeProcesses.ts';
import { missingForContainers, withContainers } from '../kit/realNodes.ts';
import {
  controllers,
  startAdmission,
  startNextWorker,
  startWorker,
  type WorkerProcess,
} from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';

let world: World;
let worker: WorkerProcess;
let admission: WorkerProcess;
let processes: NodeProcesses;
let serial = 0;

const all = ['critical', 'daemon', 'default', 'static'];
const manifests = ['critical.yaml', 'static.yaml'];
const critical = { priorityClassName: 'system-node-critical', priority: 2_000_001_000 };

beforeAll(async () => {
  if (missingForContainers !== undefined) return;
  world = await createWorld({ nodes: 1, realNodes: 1 });
  admission = startAdmission(world.sandbox);
  worker = startWorker(world.sandbox, controllers);
  await Promise.all([admission.ready(), worker.ready()]);
  processes = new NodeProcesses(world, world.sandbox.realNode('real-1'));
  // Long enough for a drain to end in the meantime.
  processes.staticPod('static', { stopSeconds: 6 });
  processes.staticPod('critical', { spec: critical });
  await processes.daemonSet('daemon');
}, 600_000);

/** So that the next test finds the node in service, although this one failed. */
afterEach(async () => {
  const left = world === undefined ? undefined : await world.maintenance(`real-${serial}`);
  if (left !== undefined && !finished(left)) await deleted(`real-${serial}`);
});

afterAll(async () => {
  await worker?.kill();
  await admission?.kill();
  await world?.close();
});

/** Starts to drain the node, on which all processes run, and returns the name of the maintenance and the time on the clock of the processes. */
async function drain(): Promise<{ name: string; from: number }> {
  serial += 1;
  const name = `real-${serial}`;
  await processes.pod('default');
  await processes.eventuallyRunning(all);
  const from = uptime();
  await world.apply(name, { nodes: ['real-1'], stage: 'Drain' });
  return { name, from };
}

/** Ends the maintenance when everything is stopped, and waits until everything that is to return has. */
async function complete(name: string, from: number): Promise<void> {
  await world.eventually(name, 'it is drained', drained);
  expect(processes.running()).toEqual([]);
  expect(processes.manifests()).toEqual([]);
  // Nothing has returned in the meantime, not even for a moment.
  const started = processes.entries().filter(({ at, what }) => at > from && what === 'start');
  expect(started).toEqual([]);
  await world.patch(name, { stage: 'Complete' });
  await processes.eventuallyRunning(['critical', 'daemon', 'static']);
  await eventually('the manifests to be back', () => expect(processes.manifests()).toEqual(manifests));
  await world.eventually(name, 'it is finished', finished);
  processes.expectNoneStartedTwice();
}

withContainers('the processes of a node end tier by tier, and return after the maintenance', async () => {
  const { name, from } = await drain();
  await world.eventually(name, 'it is drained', drained);
  await processes.expectEndedTierByTier(from);
  await complete(name, from);
});

for (const service of ['agent', 'kubelet', 'containerd'] as const)
  withContainers(`a drain continues after ${service} is killed`, async () => {
    const { name, from } = await drain();
    await processes.eventuallyLogs('static', 'term', from);
    await processes.node.kill(service);
    await world.eventually(name, 'it is drained', drained);
    // When a kubelet starts, it gives processes of pods that it has no manifest of one second.
    if (service === 'kubelet') processes.logKilled();
    await complete(name, from);
  });

withContainers('a drain continues after the worker is killed', async () => {
  const { name, from } = await drain();
  await processes.eventuallyLogs('static', 'term', from);
  await worker.kill();
  worker = await startNextWorker(world, controllers);
  await complete(name, from);
});

withContainers('static pods return when the maintenance ended while the agent was down', async () => {
  const { name } = await drain();
  await world.eventually(name, 'it is drained', drained);
  await processes.node.disable('agent');
  await world.patch(name, { stage: 'Complete' });
  await processes.node.enable('agent');
  await processes.eventuallyRunning(['critical', 'daemon', 'static']);
  await world.eventually(name, 'it is finished', finished);
  processes.expectNoneStartedTwice();
});

withContainers('they return when the maintenance was deleted while the agent was down', async () => {
  const { name } = await drain();
  await world.eventually(name, 'it is drained', drained);
  await processes.node.disable('agent');
  await deleted(name);
  expect(processes.manifests()).toEqual([]);
  await processes.node.enable('agent');
  await expectReturned();
});

const endings = [
  { how: 'completed', end: (name: string) => world.patch(name, { stage: 'Complete' }) },
  { how: 'deleted', end: deleted },
];

for (const { how, end } of endings)
  withContainers(
    `a static pod whose process still ends when the maintenance is ${how} starts once more, after its end`,
    async () => {
      const { name, from } = await drain();
      await processes.eventuallyLogs('static', 'term', from);
      await end(name);
      await eventually('the manifest to be back', () =>
        expect(processes.manifests()).toContain('static.yaml'),
      );
      expect(processes.history('static', { from })).toEqual(['term']);
      await eventually('the next process', () =>
        expect(processes.history('static', { from })).toEqual(['term', 'end', 'start']),
      );
      await expectReturned();
    },
  );

for (const service of ['agent', 'kubelet', 'containerd'] as const)
  withContainers(`static pods return although ${service} is killed at the same time`, async () => {
    const { name, from } = await drain();
    await world.eventually(name, 'it is drained', drained);
    await world.patch(name, { stage: 'Complete' });
    await eventually('the first manifest to be back', () => expect(processes.manifests()).not.toEqual([]));
    await processes.node.kill(service);
    await expectReturned();
    await world.eventually(name, 'it is finished', finished);
    for (const process of ['critical', 'static'])
      expect(processes.history(process, { from })).toEqual(['term', 'end', 'start']);
  });

/** Deletes the maintenance, as a user does. */
async function deleted(name: string): Promise<void> {
  const { uid = '' } = (await world.maintenance(name))?.metadata ?? {};
  await world.kube.delete(resources.nodeMaintenances, { name }, { uid });
}

/** Waits until everything runs again but the pod that no controller owns. */
async function expectReturned(): Promise<void> {
  await processes.eventuallyRunning(['critical', 'daemon', 'static']);
  await eventually('the manifests to be back', () => expect(processes.manifests()).toEqual(manifests));
  processes.expectNoneStartedTwice();
}

withContainers(
  'a node that boots again in the middle starts no process that the drain has stopped',
  async () => {
    const { name, from } = await drain();
    await processes.eventuallyLogs('static', 'term', from);
    await processes.node.reboot();
    await expectStopped('static');
    await processes.node.ready();
    await finish(name);
  },
);

withContainers('neither does one that has lost its power', async () => {
  const { name, from } = await drain();
  await processes.eventuallyLogs('static', 'term', from);
  await processes.node.powerLoss();
  await processes.node.powerOn();
  await expectStopped('static');
  await processes.node.ready();
  await finish(name);
});

/** The manifest is held since before the boot, so the kubelet of this boot has never seen it. */
async function expectStopped(name: string): Promise<void> {
  await eventually('the kubelet to run', () => expect(processes.node.pid('kubelet')).toBeDefined());
  expect(processes.manifests()).not.toContain(`${name}.yaml`);
}

/** Does the same as `complete` after a boot: what had not been stopped before it has started once more, and is stopped. */
async function finish(name: string): Promise<void> {
  await world.eventually(name, 'it is drained', drained);
  await eventually('all processes to end', () => expect(processes.running()).toEqual([]));
  const bootId = processes.node.bootId();
  const started = (process: string) =>
    processes
      .entries()
      .filter((entry) => entry.bootId === bootId && entry.name === process && entry.what === 'start').length;
  expect(started('static')).toBe(0);
  expect(processes.manifests()).toEqual([]);
  await world.patch(name, { stage: 'Complete' });
  await processes.eventuallyRunning(['critical', 'daemon', 'static']);
  await eventually('the manifests to be back', () => expect(processes.manifests()).toEqual(manifests));
  expect(started('static')).toBe(1);
  await world.eventually(name, 'it is finished', finished);
  processes.expectNoneStartedTwice();
}
