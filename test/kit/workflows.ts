import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Context } from '@temporalio/activity';
import { Client, Connection, type WorkflowHandle, WorkflowNotFoundError } from '@temporalio/client';
import { defaultPayloadConverter, defineSearchAttributeKey } from '@temporalio/common';
import { TestWorkflowEnvironment } from '@temporalio/testing';
import { DefaultLogger, NativeConnection, Runtime, Worker, type WorkflowBundle } from '@temporalio/worker';
import {
  type Activities,
  longRunningActivities,
  type NotificationActivities,
} from '../../activities/contract.ts';
import { longRunningTaskQueueOf } from '../../api/names.ts';
import { windowWorkflowIdOf, workflowIdOf } from './temporalNames.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { tunedArguments } from '../../temporal-config/devServer.ts';
import { declaredNamespace } from '../../temporal-config/namespace.ts';
import type { Progress } from '../../workflows/maintenance/run.ts';
import type { maintenanceWindow } from '../../workflows/windows/maintenanceWindow.ts';
import type { nodeMaintenance } from '../../workflows/maintenance/nodeMaintenance.ts';
import type { WindowRun } from '../../workflows/windows/run.ts';
import { bundleWorkflows } from '../../worker/bundle.ts';
import { eventually } from './eventually.ts';
import { FakeMaintenance } from './fakeMaintenance.ts';
import { FakeWindow } from './fakeWindow.ts';

export type Handle = WorkflowHandle<typeof nodeMaintenance>;
export type WindowHandle = WorkflowHandle<typeof maintenanceWindow>;

/** A Temporal server, and the workflows of this project on it. */
export interface WorkflowLab {
  client: Client;
  /** Starts workers that run our workflows, or those of another build, with these activities; no workflows if all of them are long-running. */
  worker(
    taskQueue: string,
    activities: Partial<Activities & NotificationActivities>,
    build?: string,
  ): Promise<void>;
  /** Task queue of the workers that the runs of all tests share: to start one costs more than most tests do. */
  taskQueue: string;
  /** Starts a workflow on the shared workers. Each run calls its own activities. */
  start(type: string, options: StartOptions): Promise<WorkflowHandle>;
  /** Starts the workflow of a window; `previousRun` is the state of the run that it continues. */
  startWindow(fake: FakeWindow, previousRun?: WindowRun): Promise<WindowHandle>;
  /** Starts the workflow of a maintenance. */
  startMaintenance(fake: FakeMaintenance, input?: object): Promise<Handle>;
  /** Ends every run that was started here, and every worker but the shared ones; to be called after each test. */
  clear(): Promise<void>;
  close(): Promise<void>;
}

interface RunningWorker {
  worker: Worker;
  ended: Promise<void>;
}

interface StartOptions {
  workflowId: string;
  args: unknown[];
  activities?: Partial<Activities & NotificationActivities>;
  cronSchedule?: string;
}

/** Silences Temporal's log, which contains failures that tests expect. */
export function quietTemporal(): void {
  Runtime.install({
    logger: new DefaultLogger('ERROR'),
    shutdownSignals: [],
    telemetryOptions: { logging: { forward: {}, filter: 'ERROR' } },
  });
}

/** Starts a Temporal for one test file, in memory, with the sandbox's binary; `settings` are dynamic configuration. */
export function ownTemporal(
  { bin }: Sandbox,
  settings: Record<string, number | string> = {},
): Promise<TestWorkflowEnvironment> {
  const changed = Object.entries(settings).map(
    ([key, value]) => `--dynamic-config-value=${key}=${JSON.stringify(value)}`,
  );
  return TestWorkflowEnvironment.createLocal({
    server: {
      executable: { type: 'existing-path', path: join(bin, 'temporal') },
      extraArgs: [...tunedArguments(), ...changed],
      searchAttributes: Object.entries(declaredNamespace().searchAttributes).map(([name, type]) =>
        defineSearchAttributeKey(name, type === 'Keyword' ? 'KEYWORD' : 'KEYWORD_LIST'),
      ),
    },
  });
}

/** Returns the workflows as `npm test` bundled them for all test files, or bundles them; with `traces`, those of a worker that exports traces. */
export async function workflowBundle(
  { traces } = { traces: false },
): Promise<WorkflowBundle & { code: string }> {
  const file = process.env['WORKFLOW_BUNDLE'];
  if (!file) return bundleWorkflows({ traces });
  return { code: await readFile(traces ? join(dirname(file), 'workflows-traces.js') : file, 'utf8') };
}

export async function workflowLab(address: string, namespace = 'default'): Promise<WorkflowLab> {
  const [native, connection, bundle] = await Promise.all([
    NativeConnection.connect({ address }),
    Connection.connect({ address }),
    workflowBundle(),
  ]);
  const client = new Client({ connection, namespace });
  const running: RunningWorker[] = [];
  const handles: WorkflowHandle[] = [];
  const taskQueue = `lab-${crypto.randomUUID()}`;
  /** Workflow id -> its activities. */
  const activitiesOf = new Map<string, StartOptions['activities']>();
  let shared: Promise<RunningWorker[]> | undefined;

  const started = async (
    queue: string,
    activities: Partial<Activities & NotificationActivities>,
    build: { code: string } = bundle,
  ): Promise<RunningWorker[]> => {
    const common = {
      connection: native,
      namespace,
      activities,
      // A cancellation reaches an activity with the answer to a heartbeat.
      maxHeartbeatThrottleInterval: 50,
      defaultHeartbeatThrottleInterval: 50,
    };
    const longRunning = Object.keys(activities).filter(isLongRunning);
    const workers: Worker[] = [];
    if (longRunning.length === 0 || longRunning.length < Object.keys(activities).length)
      workers.push(await Worker.create({ ...common, taskQueue: queue, workflowBundle: build }));
    if (longRunning.length > 0)
      workers.push(await Worker.create({ ...common, taskQueue: longRunningTaskQueueOf(queue) }));
    return workers.map((worker) => ({ worker, ended: worker.run() }));
  };
  const start: WorkflowLab['start'] = async (type, { workflowId, args, activities, cronSchedule }) => {
    shared ??= started(taskQueue, dispatching(activitiesOf));
    await shared;
    activitiesOf.set(workflowId, activities);
    await client.workflow.start(type, {
      workflowId,
      taskQueue,
      args,
      ...(cronSchedule !== undefined && { cronSchedule }),
    });
    const latest = client.workflow.getHandle(workflowId);
    handles.push(latest);
    return latest;
  };
  return {
    client,
    taskQueue,
    start,
    worker: async (queue, activities, build) => {
      const workflows = build === undefined ? undefined : { code: build };
      running.push(...(await started(queue, activities, workflows)));
    },
    startMaintenance: async (fake, input = { name: fake.name }) => {
      const workflowId = workflowIdOf(fake.name);
      const { activities } = fake;
      return (await start('nodeMaintenance', { workflowId, args: [input], activities })) as Handle;
    },
    startWindow: async (fake, previousRun) => {
      const workflowId = windowWorkflowIdOf(fake.name);
      const { activities } = fake;
      const args = [{ name: fake.name }, previousRun];
      return (await start('maintenanceWindow', { workflowId, args, activities })) as WindowHandle;
    },
    clear: async () => {
      await Promise.all(handles.splice(0).map((handle) => terminated(handle)));
      await stopped(running.splice(0));
    },
    close: async () => {
      await stopped((await shared) ?? []);
      await connection.close();
      await native.close();
    },
  };
}

async function stopped(workers: readonly RunningWorker[]): Promise<void> {
  for (const { worker } of workers) if (worker.getState() === 'RUNNING') worker.shutdown();
  await Promise.all(workers.map(({ ended }) => ended));
}

/** Returns activities that call those of the run that they belong to. */
function dispatching(activitiesOf: ReadonlyMap<string, StartOptions['activities']>): Partial<Activities> {
  const names = [new FakeMaintenance(), new FakeWindow()].flatMap(({ activities }) =>
    Object.keys(activities),
  );
  const dispatch = (name: string) => {
    return (...args: unknown[]) => {
      const { workflowId = '' } = Context.current().info.workflowExecution ?? {};
      const activities = activitiesOf.get(workflowId) as Record<string, (...args: unknown[]) => unknown>;
      const activity = activities?.[name];
      if (activity === undefined) throw new Error(`Run ${workflowId} has no activity ${name}`);
      return activity(...args);
    };
  };
  return Object.fromEntries(
    [...names, 'deliver', 'recordDropped'].map((name) => [name, dispatch(name)]),
  ) as Partial<Activities>;
}

function isLongRunning(activity: string): boolean {
  return longRunningActivities.some((longRunning) => longRunning === activity);
}

/** Terminates a run, unless it has ended. */
export async function terminated(handle: WorkflowHandle): Promise<void> {
  try {
    await handle.terminate();
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
}

/** Waits until the run's `progress` contains all of this. */
export async function eventuallyProgress(
  handle: WorkflowHandle,
  expected: Partial<Progress>,
): Promise<Progress> {
  return eventually(`progress ${JSON.stringify(expected)}`, async () => {
    const progress = await handle.query<Progress>('progress');
    expect(progress).toMatchObject(expected);
    return progress;
  });
}

/** Returns the types of the events of a run's history, in order. */
export async function eventsOf(handle: WorkflowHandle): Promise<string[]> {
  const { events } = await handle.fetchHistory();
  return (events ?? []).map(({ eventType }) => String(eventType));
}

/** Workflow tasks: scheduled, started, completed, timed out. They are no effects of the workflow. */
const workflowTaskTypes = ['5', '6', '7', '8'];

/** Returns the types of the events of a run's history without workflow tasks. */
export async function effectsOf(handle: WorkflowHandle): Promise<string[]> {
  return (await eventsOf(handle)).filter((type) => !workflowTaskTypes.includes(type));
}

/** Returns the inputs of a run's signals of this name, oldest first. */
export async function signalsTo(handle: WorkflowHandle, name: string): Promise<unknown[]> {
  const { events } = await handle.fetchHistory();
  return (events ?? [])
    .map(({ workflowExecutionSignaledEventAttributes: signal }) => signal)
    .filter((signal) => signal?.signalName === name)
    .flatMap((signal) => signal?.input?.payloads ?? [])
    .map((payload) => defaultPayloadConverter.fromPayload(payload));
}
