import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { windowWorkflowIdOf } from '../../api/names.ts';
import type { MaintenanceWindowSpec } from '../../api/maintenanceWindow.ts';
import type { KubeObject } from '../../api/core.ts';
import { WINDOW_LABEL } from '../../api/names.ts';
import { resources } from '../../kube/resources.ts';
import { eventually } from '../kit/eventually.ts';
import { startReceiver, type TestReceiver } from '../kit/receiver.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from './world.ts';

let world: World;
let receiver: TestReceiver;
let worker: WorkerProcess;

const begin = async () => {
  const env = { NOTIFY_URL: receiver.url, NOTIFY_TIMEOUT: '2', CLUSTER_NAME: 'lab' };
  worker = startWorker(world.sandbox, { env });
  await worker.ready();
};

beforeAll(async () => {
  receiver = await startReceiver();
  world = await createWorld({ nodes: 3 });
  await begin();
});

afterAll(async () => {
  await worker?.kill();
  await receiver?.close();
  await world?.close();
});

/** What the receiver has taken about an object, without the common part of its types. */
const toldOf = (name: string): string[] =>
  receiver
    .taken()
    .filter(({ data }) => data.object.name === name || data.window === name)
    .map(({ type, data }) => {
      const short = /^io\.k8s\.nodemaintenance\.(.*)\.v1$/.exec(type)?.[1] ?? type;
      return short === 'maintenance.stage-begun' ? `${short} ${data.stage}` : short;
    });

const stages = (...names: string[]) => names.map((name) => `maintenance.stage-begun ${name}`);

const eventuallyTold = (name: string, want: string[]) =>
  eventually(`what is told of ${name}`, () => expect(toldOf(name).toSorted()).toEqual(want.toSorted()));

async function eventsAbout({ metadata: { uid } }: KubeObject, reason: string): Promise<string[]> {
  const fieldSelector = `involvedObject.uid=${uid},reason=${reason}`;
  const { items } = await world.kube.list(resources.events, { namespace: 'default', fieldSelector });
  return items.map(({ message }) => message);
}

test('each stage is told to the receiver, and by Events on the object and on its nodes', async () => {
  const rack = await world.apply('rack', { nodes: ['node-1', 'node-2'], reason: 'firmware' });
  await eventuallyTold('rack', stages('Idle'));
  await world.patch('rack', { stage: 'Drain' });
  await world.eventually('rack', 'it is drained', drained);
  await world.patch('rack', { stage: 'Complete' });
  await world.eventually('rack', 'it is finished', finished);
  await eventuallyTold('rack', [
    ...stages('Idle', 'Cordon', 'Drain', 'Complete'),
    'maintenance.drained',
    'maintenance.completed',
  ]);
  const [first] = receiver.taken();
  expect(first).toMatchObject({
    source: '//lab/apis/nodemaintenance.k8s.io/v1alpha1/nodemaintenances/rack',
    data: { reason: 'firmware', nodes: { count: 2, names: ['node-1', 'node-2'] } },
  });
  const begun = ['Idle', 'Cordon', 'Drain', 'Complete'].map((stage) => `Stage ${stage}`);
  await eventually('the Events', async () => {
    expect((await eventsAbout(rack, 'StageStarted')).toSorted()).toEqual(
      begun.map((stage) => `${stage} started; 2 nodes are selected.`).toSorted(),
    );
    for (const node of ['node-1', 'node-2'])
      expect((await eventsAbout(await world.node(node), 'StageStarted')).toSorted()).toEqual(
        begun.map((stage) => `${stage} of NodeMaintenance rack started: firmware`).toSorted(),
      );
  });
});

test('a receiver that hangs delays no drain, and learns of all of it once it is back, though the worker died', async () => {
  receiver.answersWith(() => 'Hangs');
  await world.placePods('node-2', 2);
  await world.apply('night', { nodes: ['node-2'], stage: 'Drain' });
  await world.eventually('night', 'it is drained', drained);
  await world.patch('night', { stage: 'Complete' });
  await world.eventually('night', 'it is finished', finished);
  await eventually('an attempt', () =>
    expect(receiver.requests.some(({ event }) => event.data.object.name === 'night')).toBe(true),
  );
  expect(toldOf('night')).toEqual([]);
  const tried = receiver.requests
    .map(({ event }) => event)
    .filter(({ data }) => data.object.name === 'night');
  await worker.kill();
  receiver.answersWith(() => ({ status: 200 }));
  await begin();
  await eventuallyTold('night', [
    ...stages('Cordon', 'Drain', 'Complete'),
    'maintenance.drained',
    'maintenance.completed',
  ]);
  const taken = new Map(receiver.taken().map((event) => [event.id, event]));
  for (const event of tried) expect(taken.get(event.id)).toEqual(event);
});

test('what blocks a drain is told once, also by another worker; one that is given up was cancelled', async () => {
  const [pod = ''] = await world.placePods('node-1', 1, { labels: { app: 'single' } });
  await world.budget('single', { app: 'single' }, { minAvailable: 1 });
  await world.apply('stuck', { nodes: ['node-1'], stage: 'Drain' });
  const before = [...stages('Cordon', 'Drain'), 'maintenance.blocked'];
  await eventuallyTold('stuck', before);
  const told = receiver.taken().find(({ type }) => type.includes('blocked'));
  expect(told).toMatchObject({
    subject: 'node-1',
    data: {
      severity: 'warning',
      message: expect.stringContaining(`Pod default/${pod} cannot leave node node-1`),
      blocker: { pod: `default/${pod}`, node: 'node-1', reason: 'DisruptionBudgetNeverAllows' },
    },
  });
  await worker.kill();
  await begin();
  await world.patch('stuck', { stage: 'Complete' });
  await world.eventually('stuck', 'it is finished', finished);
  await eventuallyTold('stuck', [...before, ...stages('Complete'), 'maintenance.cancelled']);
  expect(receiver.requests.filter(({ event }) => event.id === told?.id)).toHaveLength(1);
});

describe('a window', () => {
  test('asks for its approval, tells of the node that is not back, and what it has come to', async () => {
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
      workflowId: windowWorkflowIdOf('patch'),
      taskQueue: 'node-maintenance',
      args: [{ name: 'patch' }],
    });
    await eventuallyTold('patch', ['window.opened', 'window.approval-needed']);
    await run.executeUpdate('approve');
    const [turn = ''] = await eventually('the turn to be drained', async () => {
      const { items } = await world.kube.list(resources.nodeMaintenances, {
        labelSelector: `${WINDOW_LABEL}=patch`,
      });
      expect(items.map(drained)).toEqual([true]);
      return items.map(({ metadata }) => metadata.name);
    });
    // Somebody else's: the node takes no pods until it goes.
    const taints = [{ key: 'readiness.k8s.io/gates', value: 'theirs', effect: 'NoSchedule' }];
    await world.kube.mergePatch(resources.nodes, { name: 'node-3' }, { spec: { taints } });
    await world.patch(turn, { stage: 'Complete' });
    const turns = [...stages('Cordon', 'Drain', 'Complete'), 'maintenance.drained', 'maintenance.completed'];
    const opened = ['window.opened', 'window.approval-needed'];
    await eventuallyTold('patch', [...opened, ...turns, 'node.not-back']);
    await run.executeUpdate('advance', { args: [{ node: 'node-3' }] });
    await run.result();
    await eventuallyTold('patch', [...opened, ...turns, 'node.not-back', 'window.closed']);
    expect(receiver.taken().at(-1)).toMatchObject({
      subject: 'patch',
      data: { message: 'MaintenanceWindow patch has closed: of 1 nodes 1 are done, 0 failed, 0 remain.' },
    });
    for (const reason of ['WindowOpened', 'ApprovalNeeded', 'TurnBegun', 'TurnFailed', 'WindowClosed'])
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
      new RegExp(`^node_maintenance_notices_total\\{outcome="${outcome}"\\} (\\d+)$`, 'm').exec(text)?.[1],
    );
  expect(count('sent')).toBeGreaterThan(5);
  expect(count('given_up')).toBe(0);
});
