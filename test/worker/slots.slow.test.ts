import { Client, Connection } from '@temporalio/client';
import { NativeConnection, type Worker } from '@temporalio/worker';
import type { Activities, MaintenanceRef, NodeMaintenanceActivities } from '../../activities/contract.ts';
import { temporalNames } from '../../api/names.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { createWorkers } from '../../worker/temporal.ts';
import { SettableAvailability } from '../kit/availability.ts';
import { eventually } from '../kit/eventually.ts';
import { FakeMaintenance } from '../kit/fakeMaintenance.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { quietTemporal, terminated, workflowBundle } from '../kit/workflows.ts';

/** Open stages of one worker: more than it has slots for short activities, and caches runs. */
const stages = 400;
const workflowCache = 250;
/** A busy server loses a start now and then, which the controllers notice; this test has none. */
const leastOpen = 380;
const concurrentStarts = 10;

const scope = { name: 'slots', uid: '5a1c7f02-0000-4000-8000-000000000001', names: temporalNames('slots') };

let sandbox: Sandbox;
let connection: Connection;
let native: NativeConnection;
let client: Client;
let workers: Worker[] = [];
let running: Promise<unknown> = Promise.resolve();

beforeAll(async () => {
  quietTemporal();
  sandbox = await testSandbox();
  const address = { address: sandbox.temporalAddress };
  [connection, native] = await Promise.all([Connection.connect(address), NativeConnection.connect(address)]);
  client = new Client({ connection, namespace: sandbox.temporalNamespace });
});

afterAll(async () => {
  for (const worker of workers) worker.shutdown();
  await running;
  await connection?.close();
  await native?.close();
  await releaseSandbox(sandbox);
});

/** Returns the activities of all these maintenances. */
function activitiesOf(fakes: readonly FakeMaintenance[]): Activities {
  const byName = new Map(fakes.map((fake) => [fake.name, fake.activities]));
  const names = Object.keys(new FakeMaintenance().activities) as (keyof NodeMaintenanceActivities)[];
  const dispatched = names.map((name) => [
    name,
    (first: Partial<MaintenanceRef> & { input?: { name: string } }, ...rest: unknown[]) => {
      const activities = byName.get(first.input?.name ?? first.name ?? '');
      const act = activities?.[name] as ((...args: unknown[]) => unknown) | undefined;
      return act?.(first, ...rest);
    },
  ]);
  return Object.fromEntries(dispatched) as Activities;
}

test(`${stages} open stages of one worker delay neither an order nor a start`, async () => {
  const newFake = () => new FakeMaintenance({ stage: 'Cordon', heartbeatMs: 60_000 });
  const fakes = Array.from({ length: stages }, newFake);
  const late = newFake();
  workers = await createWorkers(
    { identity: 'slots', namespace: sandbox.temporalNamespace, connection: native, dataConverter: {} },
    scope,
    activitiesOf([...fakes, late]),
    {
      workflows: await workflowBundle(),
      workflowCache,
      workerDeployment: undefined,
      tracing: undefined,
      answers: { check: async () => undefined, availability: new SettableAvailability() },
    },
  );
  running = Promise.all(workers.map((worker) => worker.run()));
  const start = ({ name }: FakeMaintenance) =>
    client.workflow.start('nodeMaintenance', {
      workflowId: scope.names.maintenanceId(name),
      taskQueue: scope.names.taskQueue,
      args: [{ name }],
    });
  try {
    await forEachBounded(concurrentStarts, fakes, start);
    const open = () => fakes.filter(({ calls }) => calls.includes('keepCordoned Cordon'));
    await eventually('the stages to be open', () => expect(open().length).toBeGreaterThanOrEqual(leastOpen), {
      timeoutMs: 500_000,
    });
    const [, inLasting] = workers.map((worker) => worker.getStatus().numInFlightActivities);
    expect(inLasting).toBeGreaterThanOrEqual(leastOpen);

    const [first] = open() as [FakeMaintenance];
    const handle = client.workflow.getHandle(scope.names.maintenanceId(first.name));
    await handle.executeUpdate('cancel', { args: [] });
    expect(await handle.result()).toMatchObject({ name: first.name });
    await start(late);
    await late.inProgress('keepCordoned Cordon');
  } finally {
    await forEachBounded(concurrentStarts, [...fakes, late], ({ name }) =>
      terminated(client.workflow.getHandle(scope.names.maintenanceId(name))),
    );
  }
}, 900_000);
