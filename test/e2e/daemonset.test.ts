import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import { resources } from '../../kube/resources.ts';
import { generationOf, isHeld, TestDaemonSet } from '../kit/daemonSet.ts';
import { eventuallyHolds, throughout } from '../kit/eventually.ts';
import {
  controllers,
  deathNoticedSoon,
  startAdmission,
  startNextWorker,
  startWorker,
  type WorkerProcess,
} from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';

const mortal = { ...controllers, env: deathNoticedSoon };

let world: World;
let worker: WorkerProcess;
let admission: WorkerProcess;
let daemons: TestDaemonSet;

beforeAll(async () => {
  world = await createWorld({ nodes: 3 });
  admission = startAdmission(world.sandbox);
  worker = startWorker(world.sandbox, mortal);
  await Promise.all([admission.ready(), worker.ready()]);
  daemons = new TestDaemonSet(world);
  await daemons.create();
  await eventuallyOn(['node-1', 'node-2', 'node-3'], '1');
});

afterAll(async () => {
  await worker?.kill();
  await admission?.kill();
  await world?.close();
});

const eventuallyOn = (nodes: string[], generation: string) => daemons.eventuallyOn(nodes, generation);
const eventuallyHeld = (fact: string, holds?: (pod: Pod) => boolean) =>
  daemons.eventuallyHeld(fact, 'node-1', holds);

describe('The pods of a DaemonSet', () => {
  let last: Pod;

  test('leave last, when all other pods are gone', async () => {
    await world.deployment('web', 6);
    await world.placePods('node-1', 2);
    const before = await world.podsOn('node-1');
    last = before.find(({ metadata }) => metadata.labels?.['app'] === daemons.name) as Pod;
    await world.apply('os-upgrade', { nodes: ['node-1'], stage: 'Drain', reason: 'OS upgrade' });
    await eventuallyHolds(
      'the evacuator reports',
      async () => (await world.kube.list(resources.evacuations, { namespace: daemons.namespace })).items,
      ([evacuation]) => evacuation?.status?.expectedEvacuationFinishTime !== undefined,
    ).then(([evacuation]) => expectAsInTheKep(evacuation as Evacuation));
    const others = before
      .map(({ metadata }) => metadata.uid ?? '')
      .filter((uid) => uid !== last.metadata.uid);
    expect(others.filter((uid) => !world.record.gone.includes(uid))).toEqual([]);
  });

  /** KEP-4212 > DaemonSet Controller, field by field. */
  function expectAsInTheKep({ metadata, spec, status }: Evacuation): void {
    const uid = last.metadata.uid ?? '';
    expect(metadata).toMatchObject({
      finalizers: ['evacuation.coordination.k8s.io/instigator_nodemaintenance.k8s.io'],
      labels: daemons.labels,
      name: `${uid}-${last.metadata.name}`,
      namespace: daemons.namespace,
    });
    expect(spec).toEqual({
      podRef: { name: last.metadata.name, uid },
      progressDeadlineSeconds: 1800,
      evacuators: [{ evacuatorClass: 'daemonset.apps.k8s.io', priority: 10_000, role: 'controller' }],
    });
    expect(status).toEqual({
      activeEvacuatorClass: 'daemonset.apps.k8s.io',
      activeEvacuatorCompleted: false,
      // Not in the KEP: our own field.
      activeEvacuatorSince: expect.any(String),
      evacuationProgressTimestamp: expect.any(String),
      expectedEvacuationFinishTime: expect.any(String),
      failedEvictionCounter: 0,
      message: 'critical-ds is terminating the pod due to node maintenance (OS upgrade).',
      conditions: [],
    });
    const { evacuationProgressTimestamp = '', expectedEvacuationFinishTime = '' } = status ?? {};
    expect(Date.parse(expectedEvacuationFinishTime) - Date.parse(evacuationProgressTimestamp)).toBe(60_000);
  }

  test('wait for the end of the maintenance, while the node counts as drained', async () => {
    await eventuallyHeld('a pod waits for node-1');
    const { status } = await world.eventually('os-upgrade', 'it is drained', drained);
    expect(status?.conditions.find(({ type }) => type === 'Drained')).toMatchObject({
      reason: 'AllPodsTerminated',
    });
    expect(status?.podsRemaining).toBe(0);
    expect(await world.podsOn('node-1')).toEqual([]);
    await eventuallyHolds(
      'no Evacuation is left',
      async () => (await world.kube.list(resources.evacuations)).items,
      (left) => left.length === 0,
    );
  });

  test('are still updated on the other nodes', async () => {
    const { name, namespace } = daemons;
    const key = { namespace, name };
    const template = { metadata: { annotations: { 'example.com/revision': '2' } } };
    await world.kube.mergePatch(resources.daemonSets, key, { spec: { template } });
    await eventuallyOn(['node-2', 'node-3'], '2');
    await eventuallyHeld('the waiting pod is shown as it is', (pod) => {
      return generationOf(pod) === '2' && !pod.status.ready;
    });
    expect(drained((await world.maintenance('os-upgrade')) as never)).toBe(true);
  });

  test('stay away while every worker is dead', async () => {
    await worker.kill();
    const held = await eventuallyHeld('a pod waits for node-1');
    const { uid = '' } = held.metadata;
    await world.kube.delete(
      resources.pods,
      { namespace: daemons.namespace, name: held.metadata.name },
      { uid },
    );
    const next = await eventuallyHeld('another pod waits for node-1', (pod) => pod.metadata.uid !== uid);
    await throughout('no pod runs there', 2_000, async () =>
      expect(await world.podsOn('node-1')).toEqual([]),
    );
    expect(next.spec.nodeName).toBeUndefined();
  });

  test('are gated again when one that runs there is deleted while every worker is dead', async () => {
    const held = await eventuallyHeld('a pod waits for node-1');
    const key = { namespace: daemons.namespace, name: held.metadata.name };
    await world.kube.mergePatch(resources.pods, key, { spec: { schedulingGates: [] } });
    await eventuallyOn(['node-1', 'node-2', 'node-3'], '2');
    const { uid = '' } = held.metadata;
    await world.kube.delete(resources.pods, key, { uid });
    await eventuallyHeld('another pod waits for node-1', (pod) => pod.metadata.uid !== uid);
    expect(await world.podsOn('node-1')).toEqual([]);
  });

  test('run again when the maintenance is complete and the next worker has removed the gate', async () => {
    const held = await eventuallyHeld('a pod waits for node-1');
    await world.patch('os-upgrade', { stage: 'Complete' });
    worker = await startNextWorker(world, mortal);
    const running = await eventuallyOn(['node-1', 'node-2', 'node-3'], '2');
    expect(running.map(({ metadata }) => metadata.uid)).toContain(held.metadata.uid);
    await world.eventually('os-upgrade', 'it is finished', finished);
  });

  test('are not touched when the maintenance is cancelled before their tier', async () => {
    await world.placePods('node-2', 1, { labels: { app: 'stubborn' } });
    await world.budget('stubborn', { app: 'stubborn' }, { minAvailable: 1 });
    const before = await eventuallyOn(['node-1', 'node-2', 'node-3'], '2');
    await world.apply('cancelled', { nodes: ['node-2'], stage: 'Drain' });
    await world.eventually('cancelled', 'it is blocked', ({ status }) => status?.podsBlocked === 1);
    await world.patch('cancelled', { stage: 'Complete' });
    await world.eventually('cancelled', 'it is finished', finished);
    const after = await eventuallyOn(['node-1', 'node-2', 'node-3'], '2');
    const uids = (pods: Pod[]) => new Set(pods.map(({ metadata }) => metadata.uid));
    expect(uids(after)).toEqual(uids(before));
  });

  test('come back when the maintenance is cancelled while they leave', async () => {
    await world.apply('short', { nodes: ['node-3'], stage: 'Drain' });
    await eventuallyHolds(
      'the pod of node-3 to be terminating',
      async () => (await daemons.pods()).map(({ spec }) => spec.nodeName),
      (nodes) => !nodes.includes('node-3'),
    );
    await world.patch('short', { stage: 'Complete' });
    await eventuallyOn(['node-1', 'node-2', 'node-3'], '2');
    await world.eventually('short', 'it is finished', finished);
    expect((await daemons.pods()).filter(isHeld)).toEqual([]);
  });
});
