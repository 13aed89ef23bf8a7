import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';

import type { MaintenanceWindowSpec } from '../../api/maintenanceWindow.ts';
import type { KubeObject } from '../../api/core.ts';
import { temporalNames, WINDOW_LABEL } from '../../api/names.ts';
import { resources } from '../../kube/resources.ts';
import { eventually } from '../kit/eventually.ts';
import { startTestEndpoint, type TestEndpoint } from '../kit/notificationEndpoint.ts';
import { startNextWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';

let world: World;
let endpoint: TestEndpoint;
let worker: WorkerProcess;

const startNotifyingWorker = async () => {
  const env = { NOTIFY_URL: endpoint.url, NOTIFY_TIMEOUT: '2', NODE_MAINTENANCE_CLUSTER: 'lab' };
  worker = await startNextWorker(world, { env });
  await worker.ready();
};

beforeAll(async () => {
  endpoint = await startTestEndpoint();
  world = await createWorld({ nodes: 3 });
  await startNotifyingWorker();
});

afterAll(async () => {
  await worker?.kill();
  await endpoint?.close();
  await world?.close();
});

/** Returns the types of the accepted notifications about an object, without their common prefix. */
const typesOf = (name: string): string[] =>
  endpoint
    .accepted()
    .filter(({ data }) => data.object.name === name || data.window === name)
    .map(({ type, data }) => {
      const short = /^io\.k8s\.nodemaintenance\.(.*)\.v1$/.exec(type)?.[1] ?? type;
      return short === 'maintenance.stage-started' ? `${short} ${data.stage}` : short;
    });

const stages = (...names: string[]) => names.map((name) => `maintenance.stage-started ${name}`);

const eventuallyNotified = (name: string, want: string[]) =>
  eventually(`the notifications of ${name}`, () => expect(typesOf(name).toSorted()).toEqual(want.toSorted()));

async function eventsAbout({ metadata: { uid } }: KubeObject, reason: string): Promise<string[]> {
  const fieldSelector = `involvedObject.uid=${uid},reason=${reason}`;
  const { items } = await world.kube.list(resources.events, { namespace: 'default', fieldSelector });
  return items.map(({ message }) => message);
}

test('each stage is reported by a notification, and by Events on the object and its nodes', async () => {
  const rack = await world.apply('rack', { nodes: ['node-1', 'node-2'], reason: 'firmware' });
  await eventuallyNotified('rack', stages('Idle'));
  await world.patch('rack', { stage: 'Drain' });
  await world.eventually('rack', 'it is drained', drained);
  await world.patch('rack', { stage: 'Complete' });
  await world.eventually('rack', 'it is finished', finished);
  await eventuallyNotified('rack', [
    ...stages('Idle', 'Cordon', 'Drain', 'Complete'),
    'maintenance.drained',
    'maintenance.completed',
  ]);
  const [first] = endpoint.accepted();
  expect(first).toMatchObject({
    source: '//lab/apis/nodemaintenance.k8s.io/v1alpha1/nodemaintenances/rack',
    data: { reason: 'firmware', nodes: { count: 2, names: ['node-1', 'node-2'] } },
  });
  const started = ['Idle', 'Cordon', 'Drain', 'Complete'].map((stage) => `Stage ${stage}`);
  await eventually('the Events', async () => {
    expect((await eventsAbout(rack, 'StageStarted')).toSorted()).toEqual(
      started.map((stage) => `${stage} started; 2 nodes selected.`).toSorted(),
    );
    for (const node of ['node-1', 'node-2'])
      expect((await eventsAbout(await world.node(node), 'StageStarted')).toSorted()).toEqual(
        started.map((stage) => `${stage} of NodeMaintenance rack started: firmware`).toSorted(),
      );
  });
});

test('an endpoint that hangs delays no drain, and gets all notifications later, even after the worker died', async () => {
  endpoint.respondWith(() => 'Hangs');
  await world.placePods('node-2', 2);
  await world.apply('night', { nodes: ['node-2'], stage: 'Drain' });
  await world.eventually('night', 'it is drained', drained);
  await world.patch('night', { stage: 'Complete' });
  await world.eventually('night', 'it is finished', finished);
  await eventually('an attempt', () =>
    expect(endpoint.requests.some(({ event }) => event.data.object.name === 'night')).toBe(true),
  );
  expect(typesOf('night')).toEqual([]);
  const attempted = endpoint.requests
    .map(({ event }) => event)
    .filter(({ data }) => data.object.name === 'night');
  await worker.kill();
  endpoint.respondWith(() => ({ status: 200 }));
  await startNotifyingWorker();
  await eventuallyNotified('night', [
    ...stages('Cordon', 'Drain', 'Complete'),
    'maintenance.drained',
    'maintenance.completed',
  ]);
  const accepted = new Map(endpoint.accepted().map((event) => [event.id, event]));
  for (const event of attempted) expect(accepted.get(event.id)).toEqual(event);
});

test('a blocked drain is reported once, also by another worker; a drain that is ended early is cancelled', async () => {
  const [pod = ''] = await world.placePods('node-1', 1, { labels: { app: 'single' } });
  await world.budget('single', { app: 'single' }, { minAvailable: 1 });
  await world.apply('stuck', { nodes: ['node-1'], stage: 'Drain' });
  const before = [...stages('Cordon', 'Drain'), 'maintenance.blocked'];
  await eventuallyNotified('stuck', before);
  const notification = endpoint.accepted().find(({ type }) => type.includes('blocked'));
  expect(notification).toMatchObject({
    subject: 'node-1',
    data: {
      severity: 'warning',
      message: expect.stringContaining(`Pod default/${pod} cannot be evacuated from node node-1`),
      blocker: { pod: `default/${pod}`, node: 'node-1', reason: 'DisruptionBudgetNeverAllows' },
    },
  });
  await worker.kill();
  await startNotifyingWorker();
  await world.patch('stuck', { stage: 'Complete' });
  await world.eventually('stuck', 'it is finished', finished);
  await eventuallyNotified('stuck', [...before, ...stages('Complete'), 'maintenance.cancelled']);
  // A worker that dies between the response and its record delivers once more, with the same id.
  const reports = endpoint.requests.filter(({ event }) => event.type === notification?.type);
  expect(new Set(reports.map(({ event }) => event.id))).toEqual(new Set([notification?.id]));
});

describe('a window', () => {
  test('requests its approval, reports the node that is not in service, and its progress', async () => {
    const fields = { key: 'metadata.name', operator: 'In' as const, values: ['node-3'] };
    const spec = {
      schedule: { timeZone: 'UTC', duration: '1h', calendar: [{ time: '02:00', years: [2099] }] },
      nodeSelector: { nodeSelectorTerms: [{ matchFields: [fields] }] },
      rollout: { readyTimeoutSeconds: 1 },
      approval: 'PerWindow',
    } as unknown as MaintenanceWindowSpec;
    const window = await world.kube.create(resources.maintenanceWindows, {
      metadata: { name: 'patch' },
      spec,
    });
    const run = await world.temporal.workflow.start('maintenanceWindow', {
      workflowId: temporalNames('lab').windowId('patch'),
      taskQueue: temporalNames('lab').taskQueue,
      args: [{ name: 'patch' }],
    });
    await eventuallyNotified('patch', ['window.opened', 'window.approval-needed']);
    await run.executeUpdate('approve');
    const [maintenance = ''] = await eventually('the node to be drained', async () => {
      const { items } = await world.kube.list(resources.nodeMaintenances, {
        labelSelector: `${WINDOW_LABEL}=patch`,
      });
      expect(items.map(drained)).toEqual([true]);
      return items.map(({ metadata }) => metadata.name);
    });
    // A taint of another component: the node is not in service until it is removed.
    const taints = [{ key: 'readiness.k8s.io/gates', value: 'theirs', effect: 'NoSchedule' }];
    await world.kube.mergePatch(resources.nodes, { name: 'node-3' }, { spec: { taints } });
    await world.patch(maintenance, { stage: 'Complete' });
    const ofMaintenance = [
      ...stages('Cordon', 'Drain', 'Complete'),
      'maintenance.drained',
      'maintenance.completed',
    ];
    const opened = ['window.opened', 'window.approval-needed'];
    await eventuallyNotified('patch', [...opened, ...ofMaintenance, 'node.not-in-service']);
    await run.executeUpdate('advance', { args: [{ node: 'node-3' }] });
    await run.result();
    await eventuallyNotified('patch', [...opened, ...ofMaintenance, 'node.not-in-service', 'window.closed']);
    expect(endpoint.accepted().at(-1)).toMatchObject({
      subject: 'patch',
      data: { message: 'MaintenanceWindow patch has closed: 1 of 1 nodes done, 0 failed, 0 remaining.' },
    });
    for (const reason of ['WindowOpened', 'ApprovalNeeded', 'NodeStarted', 'NodeFailed', 'WindowClosed'])
      await eventually(`the Event ${reason}`, async () =>
        expect(await eventsAbout(window, reason)).toHaveLength(1),
      );
  });
});

test('the metrics count what was sent and what failed', async () => {
  const port = /"metrics":(\d+)/.exec(worker.log())?.[1];
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const count = (outcome: string) =>
    Number(
      new RegExp(`^node_maintenance_notifications_total\\{outcome="${outcome}"\\} (\\d+)$`, 'm').exec(
        text,
      )?.[1],
    );
  expect(count('sent')).toBeGreaterThan(5);
  expect(count('dropped')).toBe(0);
});
