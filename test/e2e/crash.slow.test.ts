import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { History } from '@temporalio/common/lib/proto-utils.js';
import { rowsOf } from '../../cli/maintenance/historyRows.ts';
import { resources } from '../../kube/resources.ts';
import { eventuallyHolds } from '../kit/eventually.ts';
import { startNextWorker, startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World, stageStarted } from '../kit/world.ts';

let world: World;
let worker: WorkerProcess;

beforeAll(async () => {
  world = await createWorld({ nodes: 4 });
  await world.kube.create(
    {
      group: 'scheduling.k8s.io',
      version: 'v1',
      plural: 'priorityclasses',
      kind: 'PriorityClass',
      namespaced: false,
    },
    {
      metadata: { name: 'important' },
      value: 5000,
    } as never,
  );
  worker = startWorker(world.sandbox);
  await worker.ready();
});
afterAll(async () => {
  await worker?.kill();
  await world?.close();
});

/** Kills the worker, makes a change while there is none, and starts another, which finds no Lease of the first one. */
async function crash(change: () => Promise<unknown> = async () => undefined): Promise<void> {
  await worker.kill();
  await change();
  worker = await startNextWorker(world);
}

describe('a worker that is killed', () => {
  let evicted: string[];
  let acceptedBefore: number;

  test('in Idle: the next one starts the stage that was requested while there was none', async () => {
    acceptedBefore = await acceptedEvictions();
    await world.deployment('web', 12);
    await world.deployment('db', 8, { priorityClassName: 'important' });
    await world.placePods('node-1', 3, {
      labels: { 'sandbox.nodemaintenance.k8s.io/slow-exit': 'true' },
      grace: 30,
    });
    await world.apply('crash', {
      nodes: ['node-1', 'node-2'],
      drainPlan: [
        { podType: 'Default', podPriority: 1000 },
        { podType: 'Default', podPriority: 5000 },
      ],
    });
    await world.eventually('crash', 'Idle has started', (observed) => stageStarted(observed, 'Idle'));
    expect((await world.node('node-1')).spec.unschedulable).toBeUndefined();
    await crash(() => world.patch('crash', { stage: 'Cordon' }));
    await eventuallyHolds(
      'node-1 to be cordoned',
      () => world.node('node-1'),
      (node) => node.spec.unschedulable === true,
    );
    await eventuallyHolds(
      'node-2 to be cordoned',
      () => world.node('node-2'),
      (node) => node.spec.unschedulable === true,
    );
  });

  test('in Cordon: a node that was uncordoned while there was none is cordoned again, and the drain starts', async () => {
    evicted = [...(await world.podsOn('node-1')), ...(await world.podsOn('node-2'))].map(
      (pod) => pod.metadata.uid ?? '',
    );
    await crash(async () => {
      await world.kube.mergePatch(resources.nodes, { name: 'node-2' }, { spec: { unschedulable: false } });
      await world.patch('crash', { stage: 'Drain' });
    });
    await eventuallyHolds(
      'Evacuations to be created',
      async () => world.record.evacuations.size,
      (made) => made > 0,
    );
    expect((await world.node('node-2')).spec.unschedulable).toBe(true);
  });

  test('in the middle of a tier: the next one finishes it, as soon as it leads or a heartbeat of the first is missing', async () => {
    await eventuallyHolds(
      'some pods of the tier to be gone, not all',
      async () => world.record.gone.length,
      (gone) => gone > 0,
    );
    await worker.kill();
    // It waits for the Lease of the first one to expire, as after every crash.
    worker = startWorker(world.sandbox);
    await world.eventually('crash', 'the maintenance is drained', drained);
    const reasons = await reasonsOfRetries();
    expect(reasons).not.toEqual([]);
    expect(reasons.filter((reason) => reason !== 'WorkerDied' && reason !== 'missing heartbeat')).toEqual([]);
    expect([...(await world.podsOn('node-1')), ...(await world.podsOn('node-2'))]).toEqual([]);
  });

  test('when drained: the next one evacuates a pod that appeared while there was none', async () => {
    await crash(() => world.placePods('node-2', 1));
    await eventuallyHolds(
      'node-2 to be empty again',
      () => world.podsOn('node-2'),
      (pods) => pods.length === 0,
    );
    await world.eventually('crash', 'drained again', drained);
  });

  test('in Complete: the next one uncordons the nodes', async () => {
    await world.patch('crash', { stage: 'Complete' });
    await crash();
    await world.eventually('crash', 'the maintenance is finished', finished);
    for (const name of ['node-1', 'node-2'])
      expect((await world.node(name)).spec.unschedulable ?? false).toBe(false);
    // The object may be gone before the run has the result of its last activity.
    await eventuallyHolds(
      'the run to be completed',
      async () => (await world.temporal.workflow.getHandle('node-maintenance-crash').describe()).status.name,
      (status) => status === 'COMPLETED',
    );
  });

  test('appears in the history, and so does the next one', async () => {
    const rows = rowsOf({ events: await world.history('crash') } as History);
    expect(rows.map(({ what }) => what)).toEqual(
      expect.arrayContaining([expect.stringMatching(/^retried drain, attempt \d+: /)]),
    );
    const workers = rows.flatMap(({ who, what }) => (/^started stage|^retried/.test(what) ? who : []));
    expect(new Set(workers).size).toBeGreaterThan(1);
  });

  test('never created a second Evacuation for a pod, evicted none twice, and left no Evacuation', async () => {
    for (const made of world.record.evacuations.values()) expect(made.size).toBe(1);
    expect(evicted.filter((uid) => !world.record.evacuations.has(uid))).toEqual([]);
    // Less, if a kill cut off the answer to an accepted eviction.
    const accepted = (await acceptedEvictions()) - acceptedBefore;
    expect(accepted).toBeLessThanOrEqual(world.record.evacuations.size);
    await eventuallyHolds(
      'no Evacuation to be left',
      async () => (await world.kube.list(resources.evacuations)).items,
      (left) => left.length === 0,
    );
  });
});

describe('a worker that is killed between the steps of an escalation', () => {
  const stepsInHistory = async () =>
    rowsOf({ events: await world.history('deadline') } as History).flatMap(({ what }) =>
      what.startsWith('drain deadline: ') ? what.slice('drain deadline: '.length).split(', ') : [],
    );
  const stepsDone = (count: number) =>
    eventuallyHolds(`${count} steps to be done`, stepsInHistory, ({ length }) => length >= count);

  test('does each of them once, and deletes what a budget keeps at the deadline', async () => {
    // A drain that ends before a worker has started again has no steps left: the finalizer keeps the node from being drained.
    const finalizer = 'example.com/kept';
    const held = await world.placePods('node-4', 2, {
      labels: { app: 'held' },
      grace: 2,
      finalizers: [finalizer],
    });
    await world.budget('held', { app: 'held' }, { minAvailable: 2 });
    const steps = [
      { before: '20s', action: 'Notify' as const },
      { before: '10s', action: 'Notify' as const },
    ];
    await world.apply('deadline', {
      nodes: ['node-4'],
      stage: 'Drain',
      drainDeadline: { after: '25s', onDeadline: 'Delete', steps },
    });
    await stepsDone(1);
    await crash();
    await stepsDone(2);
    await crash();
    await eventuallyHolds(
      'the pods to be deleted',
      () => Promise.all(held.map((name) => world.kube.get(resources.pods, { namespace: 'default', name }))),
      (pods) => pods.every((pod) => pod?.metadata.deletionTimestamp !== undefined),
    );
    await stepsDone(3);
    for (const name of held)
      await world.kube.jsonPatch(resources.pods, { namespace: 'default', name }, [
        { op: 'remove', path: '/metadata/finalizers' },
      ]);
    const { status } = await world.eventually('deadline', 'the node to be drained', drained);
    expect((await world.podsOn('node-4')).map(({ metadata }) => metadata.labels?.['app'])).not.toContain(
      'held',
    );
    const specified = status?.drainDeadline?.steps.map(({ action, time }) => `${action} ${time}`);
    expect(await stepsInHistory()).toEqual(specified);
    await world.patch('deadline', { stage: 'Complete' });
    await world.eventually('deadline', 'the maintenance is finished', finished);
  });
});

describe('a worker that dies with activities that send few heartbeats', () => {
  let other: WorkerProcess;
  afterAll(() => other?.kill());

  test('loses no order: another one has them as soon as it leads', async () => {
    for (const [index, name] of ['advanced', 'cancelled'].entries()) {
      await world.apply(name, { nodes: [`node-${index + 3}`], stage: 'Cordon' });
      await world.eventually(name, 'Cordon has started', (observed) => stageStarted(observed, 'Cordon'));
    }
    const runOf = (name: string) => world.temporal.workflow.getHandle(`node-maintenance-${name}`);
    const activitiesOf = async (name: string) =>
      ((await runOf(name).describe()).raw.pendingActivities ?? []).map(
        (activity) => activity.activityType?.name,
      );
    for (const name of ['advanced', 'cancelled'])
      await eventuallyHolds(
        `${name} to keep its node cordoned`,
        () => activitiesOf(name),
        (activities) => activities.includes('keepCordoned'),
      );
    other = startWorker(world.sandbox, {
      args: ['--components', 'controllers', '--health-port', '0', '--metrics-port', '0'],
    });
    await other.ready();
    await worker.kill();
    await runOf('advanced').signal('advance');
    await runOf('cancelled').cancel();
    await world.eventually('advanced', 'it is drained', drained);
    await world.eventually('cancelled', 'the maintenance is finished', finished);
    for (const name of ['advanced', 'cancelled']) {
      const { events } = { events: await world.history(name) } as History;
      const ends = (events ?? []).filter(
        (event) => event.activityTaskTimedOutEventAttributes ?? event.activityTaskFailedEventAttributes,
      );
      expect(ends).toEqual([]);
      const failures = (events ?? []).flatMap(
        (event) => event.activityTaskStartedEventAttributes?.lastFailure?.applicationFailureInfo?.type ?? [],
      );
      expect(failures).toEqual(['WorkerDied']);
    }
    expect((await runOf('advanced').describe()).status.name).toBe('RUNNING');
    await eventuallyHolds(
      'the cancelled run to be completed',
      async () => (await runOf('cancelled').describe()).status.name,
      (status) => status === 'COMPLETED',
    );
  });
});

/** `TIMEOUT_TYPE_HEARTBEAT` of Temporal's API. */
const heartbeatTimeout = 4;

/** Returns why activities were retried. */
async function reasonsOfRetries(): Promise<string[]> {
  const { events } = { events: await world.history('crash') } as History;
  const failures = (events ?? []).flatMap(
    (event) => event.activityTaskStartedEventAttributes?.lastFailure ?? [],
  );
  return failures.map(({ message, applicationFailureInfo, timeoutFailureInfo }) =>
    Number(timeoutFailureInfo?.timeoutType) === heartbeatTimeout
      ? 'missing heartbeat'
      : `${applicationFailureInfo?.type ?? message}`,
  );
}

/** Counts all evictions that the apiserver has accepted since it started, from any client. */
async function acceptedEvictions(): Promise<number> {
  const text = await metrics();
  const lines = text
    .split('\n')
    .filter(
      (line) =>
        line.startsWith('apiserver_request_total') &&
        line.includes('subresource="eviction"') &&
        line.includes('code="201"'),
    );
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

async function metrics(): Promise<string> {
  const { execFile } = await import('node:child_process');
  const { promisify } = await import('node:util');
  const { stdout } = await promisify(execFile)(`${world.sandbox.bin}/kubectl`, ['get', '--raw', '/metrics'], {
    env: { ...process.env, ...world.sandbox.env },
    maxBuffer: 64 * 1024 * 1024,
  });
  return stdout;
}
