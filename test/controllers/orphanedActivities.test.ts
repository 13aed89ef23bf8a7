import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { NativeConnection, Worker } from '@temporalio/worker';
import { longRunningTaskQueueOf } from '../../api/names.ts';
import { runOrphanedActivitiesController } from '../../controllers/orphanedActivities.ts';
import { temporalIdentity } from '../../domain/leases/identityLease.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { SettableAvailability } from '../kit/availability.ts';
import { silentLog } from '../kit/cluster.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import { FakeMaintenance } from '../kit/fakeMaintenance.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { type CountingClient, countingClient } from '../kit/temporalCalls.ts';
import { testScope } from '../kit/temporalNames.ts';
import {
  type Handle,
  ownTemporal,
  quietTemporal,
  workflowBundle,
  workflowLab,
  type WorkflowLab,
} from '../kit/workflows.ts';

let sandbox: Sandbox;
let temporal: TestWorkflowEnvironment;
let lab: WorkflowLab;
let native: NativeConnection;
let calls: CountingClient;
const workers: { worker: Worker; ended: Promise<void> }[] = [];
let controller: { abort: AbortController; ended: Promise<void> } | undefined;

const { taskQueue, maintenanceId } = testScope.names;
const dead = {
  id: 'deadbeef',
  identity: temporalIdentity('17@gone', 'deadbeef-0000-4000-8000-000000000000'),
};
const living = {
  id: '11111111',
  identity: temporalIdentity('18@here', '11111111-0000-4000-8000-000000000000'),
};

beforeAll(async () => {
  quietTemporal();
  sandbox = await testSandbox();
  temporal = await ownTemporal(sandbox);
  native = await NativeConnection.connect({ address: temporal.address });
  calls = await countingClient(temporal.address);
  lab = await workflowLab(temporal.address);
});

afterEach(async () => {
  controller?.abort.abort();
  await controller?.ended;
  controller = undefined;
  await lab.clear();
  for (const { worker } of workers) worker.shutdown();
  await Promise.all(workers.splice(0).map(({ ended }) => ended));
});

afterAll(async () => {
  await calls?.close();
  await lab?.close();
  await native?.close();
  await temporal?.teardown();
  await releaseSandbox(sandbox);
});

async function work(options: Omit<Parameters<typeof Worker.create>[0], 'connection'>): Promise<void> {
  const worker = await Worker.create({ ...options, connection: native, namespace: 'default' });
  workers.push({ worker, ended: worker.run() });
}

/** Starts a maintenance whose activity the dead worker has taken, of which nothing more is heard. */
async function orphaned(fake: FakeMaintenance): Promise<Handle> {
  const { identity } = living;
  const longRunning = { name: longRunningTaskQueueOf(taskQueue) };
  await work({ taskQueue, identity, workflowBundle: await workflowBundle(), activities: fake.activities });
  await lab.client.workflow.start('nodeMaintenance', {
    workflowId: maintenanceId(fake.name),
    taskQueue,
    args: [{ name: fake.name }],
  });
  await eventually('the dead worker to have the activity', async () => {
    const poll = { namespace: 'default', taskQueue: longRunning, identity: dead.identity };
    const { taskToken } = await lab.client.withDeadline(Date.now() + 30_000, () =>
      lab.client.workflowService.pollActivityTaskQueue(poll),
    );
    expect(taskToken?.length).toBeGreaterThan(0);
  });
  await work({ taskQueue: longRunning.name, identity, activities: fake.activities });
  return lab.client.workflow.getHandle(maintenanceId(fake.name));
}

/** Each wait for what must not happen lasts for several checks. */
const checkEveryMs = 100;

/** Runs the controller. `found` is what it learns of dead workers, by and by. */
function controlling(found: Set<string>, availability = new SettableAvailability()): void {
  const abort = new AbortController();
  const known = {
    isDead: (id: string) => found.has(id),
    dead: () => [...found],
    forget: () => undefined,
  };
  const client = { temporal: calls.client, availability, scope: testScope };
  const deps = { ...client, workers: known, log: silentLog, checkEveryMs };
  controller = { abort, ended: runOrphanedActivitiesController(deps, abort.signal) };
}

async function pendingOf(handle: Handle) {
  const { raw } = await handle.describe();
  return (raw.pendingActivities ?? []).map(({ attempt, lastWorkerIdentity, lastFailure }) => ({
    attempt,
    worker: lastWorkerIdentity,
    failure: lastFailure?.applicationFailureInfo?.type,
  }));
}

test.each([
  { stage: 'Cordon', call: 'keepCordoned Cordon' },
  { stage: 'Drain', call: 'drain 0' },
] as const)(
  'in $stage the activity of a dead worker is started again on a living one, long before its heartbeat times out',
  async ({ stage, call }) => {
    const fake = new FakeMaintenance({ stage });
    const handle = await orphaned(fake);
    controlling(new Set([dead.id]));
    await fake.inProgress(call);
    expect(await pendingOf(handle)).toEqual([{ attempt: 2, worker: living.identity, failure: 'WorkerDied' }]);
    await handle.executeUpdate('cancel', { args: [] });
    expect(await handle.result()).toMatchObject({ name: fake.name });
  },
);

test('an activity is not started again as long as its worker lives, and is started again when that dies', async () => {
  const fake = new FakeMaintenance({ stage: 'Cordon' });
  const handle = await orphaned(fake);
  const found = new Set<string>();
  const before = calls.count('DescribeWorkflowExecution');
  controlling(found);
  await eventually('the first search', () =>
    expect(calls.count('DescribeWorkflowExecution')).toBeGreaterThan(before),
  );
  await throughout('it stays where it is', 500, async () =>
    expect(await pendingOf(handle)).toMatchObject([{ attempt: 1, worker: dead.identity }]),
  );
  found.add(dead.id);
  await fake.inProgress('keepCordoned Cordon');
  const searched = calls.count('DescribeWorkflowExecution');
  await throughout('each death is searched for once at first', 500, () =>
    expect(calls.count('DescribeWorkflowExecution')).toBe(searched),
  );
  // It was only believed to be dead, lives for a while, and dies.
  found.delete(dead.id);
  await throughout('nothing is searched for it', 500, () =>
    expect(calls.count('DescribeWorkflowExecution')).toBe(searched),
  );
  found.add(dead.id);
  await eventually('another search', () =>
    expect(calls.count('DescribeWorkflowExecution')).toBeGreaterThan(searched),
  );
  await handle.executeUpdate('cancel', { args: [] });
  await handle.result();
});

test('during an outage of Temporal nothing is searched; afterwards the activities of dead workers are', async () => {
  const fake = new FakeMaintenance({ stage: 'Cordon' });
  const handle = await orphaned(fake);
  const availability = new SettableAvailability();
  availability.down();
  const before = calls.count('ListWorkflowExecutions');
  controlling(new Set([dead.id]), availability);
  await throughout('nothing is sent', 500, () => expect(calls.count('ListWorkflowExecutions')).toBe(before));
  availability.up();
  await fake.inProgress('keepCordoned Cordon');
  await handle.executeUpdate('cancel', { args: [] });
  await handle.result();
});
