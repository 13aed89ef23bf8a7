import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
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
import type { FakeMaintenance } from './fakeMaintenance.ts';
import type { FakeWindow } from './fakeWindow.ts';

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
  /** Starts the workflow of a window, with a worker of its own; `previousRun` is the state of the run that it continues. */
  startWindow(fake: FakeWindow, previousRun?: WindowRun): Promise<WindowHandle>;
  /** Starts the workflow of a maintenance, with a worker of its own. */
  startMaintenance(fake: FakeMaintenance, input?: object): Promise<Handle>;
  /** Ends every run and every worker that was started here; to be called after each test. */
  clear(): Promise<void>;
  close(): Promise<void>;
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
  settings: Record<string, number> = {},
): Promise<TestWorkflowEnvironment> {
  const changed = Object.entries(settings).map(([key, value]) => `--dynamic-config-value=${key}=${value}`);
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

/** Returns the workflows as `npm test` bundled them for all test files, or bundles them. */
export async function workflowBundle(): Promise<WorkflowBundle & { code: string }> {
  const file = process.env['WORKFLOW_BUNDLE'];
  if (file) return { code: await readFile(file, 'utf8') };
  return bundleWorkflows();
}

export async function workflowLab(address: string, namespace = 'default'): Promise<WorkflowLab> {
  const [native, connection, bundle] = await Promise.all([
    NativeConnection.connect({ address }),
    Connection.connect({ address }),
    workflowBundle(),
  ]);
  const client = new Client({ connection, namespace });
  const running: { worker: Worker; ended: Promise<void> }[] = [];
  const handles: WorkflowHandle[] = [];

  const worker: WorkflowLab['worker'] = async (taskQueue, activities, build) => {
    const common = {
      connection: native,
      namespace,
      activities,
      // A cancellation reaches an activity with the answer to a heartbeat.
      maxHeartbeatThrottleInterval: 50,
      defaultHeartbeatThrottleInterval: 50,
    };
    const workflows = build === undefined ? bundle : { code: build };
    const created: Worker[] = [];
    const longRunning = Object.keys(activities).filter(isLongRunning);
    if (longRunning.length === 0 || longRunning.length < Object.keys(activities).length)
      created.push(await Worker.create({ ...common, taskQueue, workflowBundle: workflows }));
    if (longRunning.length > 0)
      created.push(await Worker.create({ ...common, taskQueue: longRunningTaskQueueOf(taskQueue) }));
    for (const one of created) running.push({ worker: one, ended: one.run() });
  };
  return {
    client,
    worker,
    startMaintenance: async (fake, input = { name: fake.name }) => {
      const taskQueue = `queue-of-${fake.name}`;
      await worker(taskQueue, fake.activities);
      const workflowId = workflowIdOf(fake.name);
      const args: [never] = [input as never];
      const handle = await client.workflow.start<typeof nodeMaintenance>('nodeMaintenance', {
        workflowId,
        taskQueue,
        args,
      });
      const latest = client.workflow.getHandle<typeof nodeMaintenance>(handle.workflowId);
      handles.push(latest);
      return latest;
    },
    startWindow: async (fake, previousRun) => {
      const taskQueue = `queue-of-${fake.name}`;
      await worker(taskQueue, fake.activities);
      const { workflowId } = await client.workflow.start<typeof maintenanceWindow>('maintenanceWindow', {
        workflowId: windowWorkflowIdOf(fake.name),
        taskQueue,
        args: [{ name: fake.name }, previousRun],
      });
      const latest = client.workflow.getHandle<typeof maintenanceWindow>(workflowId);
      handles.push(latest);
      return latest;
    },
    clear: async () => {
      await Promise.all(handles.splice(0).map((handle) => terminated(handle)));
      for (const { worker: one } of running) if (one.getState() === 'RUNNING') one.shutdown();
      await Promise.all(running.splice(0).map(({ ended }) => ended));
    },
    close: async () => {
      await connection.close();
      await native.close();
    },
  };
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
