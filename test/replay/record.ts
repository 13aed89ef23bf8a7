import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { WorkflowHandle } from '@temporalio/client';
import type { MaintenanceWindowSpec } from '../../api/maintenanceWindow.ts';
import { WINDOW_LABEL } from '../../api/names.ts';
import {
  notificationWorkflowIdOf,
  TASK_QUEUE,
  windowWorkflowIdOf,
  workflowIdOf,
} from '../kit/temporalNames.ts';
import { resources } from '../../kube/resources.ts';
import type { Progress } from '../../workflows/maintenance/run.ts';
import type { WindowRunProgress } from '../../workflows/windows/run.ts';
import { eventuallyHolds } from '../kit/eventually.ts';
import { startTestEndpoint } from '../kit/notificationEndpoint.ts';
import { FakeMaintenance } from '../kit/fakeMaintenance.ts';
import { clusterRoles, selectNodes } from '../kit/resources.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { ownTemporal, workflowLab } from '../kit/workflows.ts';
import { createWorld, drained, finished, stageStarted } from '../kit/world.ts';

/**
 * `node test/replay/record.ts [SHAPE...]` records the histories that replay.test.ts replays, from real runs, into
 * test/replay/histories/: one of each distinct course that the workflows can take. Without arguments it records those
 * that are missing. Once a workflow is released, a change of its commands needs `patched` and a further shape: the
 * histories of released versions stay as they are.
 */
const folder = fileURLToPath(new URL('histories/', import.meta.url));

const plan = [
  { podType: 'Default' as const, podPriority: -1 },
  { podType: 'Default' as const, podPriority: 1000 },
];
const slowPods = { labels: { 'sandbox.nodemaintenance.k8s.io/slow-exit': 'true' }, grace: 30 };

const endpoint = await startTestEndpoint();
/** The response to the first notification of a maintenance, by its name. */
const responses = new Map<string, (attempt: number) => number>();
endpoint.respondWith(({ data }, attempt) => ({
  status: responses.get(data.object.name)?.(attempt) ?? 204,
}));

/** A short Lease, so that activities that only wait soon time out if their worker is killed. */
const env = { NODE_LEASE_DURATION: '6', NOTIFY_URL: endpoint.url };

const world = await createWorld({ nodes: 3 });
let worker: WorkerProcess = startWorker(world.sandbox, { env });

/** Makes a run of this shape, under the name of the shape, and returns where its history is. */
type Shape = (name: string) => Promise<Run>;

interface Run {
  workflowId: string;
  /** Address of a Temporal other than the world's; its history must be saved before it closes. */
  address?: string;
  close?: () => Promise<void>;
}

const shapes: Record<string, Shape> = {
  async 'idle-cordon-drain-complete'(name) {
    await world.apply(name, { nodes: ['node-1'], drainPlan: plan });
    await reached(name, 'Idle');
    await world.patch(name, { stage: 'Cordon' });
    await reached(name, 'Cordon');
    await world.patch(name, { stage: 'Drain' });
    return completed(name);
  },

  'pause-resume-cancel': pausedResumedAndCancelled,

  'requests-in-order': pausedResumedAndCancelled,

  async 'worker-killed'(name) {
    await world.placePods('node-1', 3, slowPods);
    await world.apply(name, { nodes: ['node-1'], stage: 'Drain', drainPlan: plan });
    await reached(name, 'Drain');
    await worker.kill();
    await startedWorker();
    return completed(name);
  },

  async blocked(name) {
    await world.placePods('node-3', 2, { labels: { app: name } });
    await world.budget(name, { app: name }, { minAvailable: 2 });
    await world.apply(name, { nodes: ['node-3'], stage: 'Drain', drainPlan: plan });
    const run = world.temporal.workflow.getHandle(workflowIdOf(name));
    await signalled(run, 'refreshDetails');
    await waiting(run);
    const spec = { minAvailable: 0 };
    await world.kube.mergePatch(resources.podDisruptionBudgets, { namespace: 'default', name }, { spec });
    return completed(name);
  },

  async 'drain-deadline'(name) {
    await world.placePods('node-1', 2, { labels: { app: name } });
    await world.budget(name, { app: name }, { minAvailable: 2 });
    await world.apply(name, {
      nodes: ['node-1'],
      stage: 'Drain',
      drainDeadline: { after: '8s', onDeadline: 'Delete', steps: [{ before: '4s', action: 'Notify' }] },
    });
    return completed(name);
  },

  async 'deleted-in-drain'(name) {
    const { metadata } = await world.apply(name, { nodes: ['node-2'], stage: 'Drain' });
    await world.eventually(name, 'it to be drained', drained);
    await world.kube.delete(resources.nodeMaintenances, { name }, { uid: metadata.uid ?? '' });
    return ended(workflowIdOf(name));
  },

  async 'cancelled-from-temporal'(name) {
    await startMaintenance(name, { nodes: ['node-1'], stage: 'Drain' });
    await world.eventually(name, 'it to be drained', drained);
    await world.temporal.workflow.getHandle(workflowIdOf(name)).cancel();
    await world.eventually(name, 'it to be finished', finished);
    return ended(workflowIdOf(name));
  },

  async 'stage-changed-while-idle-starts'(name) {
    const fake = new FakeMaintenance({ name });
    const release = fake.block('startStage');
    return withoutCluster(fake, async (run) => {
      await called(fake, 'startStage Idle');
      await run.signal('observe', fake.edited('Complete'));
      await signalled(run, 'observe');
      release();
    });
  },

  async 'cancelled-during-admission'(name) {
    const fake = new FakeMaintenance({ name, stage: 'Drain' });
    const release = fake.block('admit');
    return withoutCluster(fake, async (run) => {
      await called(fake, 'admit');
      await run.cancel();
      release();
    });
  },

  async rejected(name) {
    await startMaintenance(name, { nodes: ['no-such-node'] });
    return ended(workflowIdOf(name));
  },

  /** Uses a Temporal of its own, which suggests to continue as new after a few events. */
  async 'continued-as-new'(name) {
    await worker.kill();
    const temporal = await ownTemporal(world.sandbox, { 'limit.historyCount.suggestContinueAsNew': 15 });
    await startedWorker({ TEMPORAL_ADDRESS: temporal.address });
    await world.apply(name, { nodes: ['node-3'], drainPlan: plan });
    await reached(name, 'Idle');
    const handle = temporal.client.workflow.getHandle(workflowIdOf(name));
    const first = (await handle.describe()).runId;
    await world.patch(name, { stage: 'Drain' });
    await eventuallyHolds(
      'the run to continue as new',
      async () => (await handle.describe()).runId,
      (runId) => runId !== first,
    );
    const close = async () => {
      await worker.kill();
      await temporal.teardown();
      await startedWorker();
    };
    return { ...(await completed(name)), address: temporal.address, close };
  },

  async 'window-done'(name) {
    const containers = [{ name: 'work', image: 'none' }];
    const job = { template: { spec: { containers } }, timeoutSeconds: 600, retries: 0 };
    await createWindow(name, { work: { type: 'Job', job } });
    return ended((await openWindow(name)).workflowId);
  },

  'window-approved-and-cancelled': approvedAndCancelled,

  'window-requests-in-order': approvedAndCancelled,

  async 'window-held'(name) {
    await createWindow(name, { onWindowEnd: 'HoldCurrent' });
    await (await openWindow(name, { duration: '1m' })).result();
    const next = await openWindow(name);
    await inProgress(next, 'node-1');
    await next.cancel();
    await next.result();
    await completeMaintenances(name);
    return { workflowId: next.workflowId };
  },

  /** The endpoint accepts the notification of the first stage at the second attempt. */
  async 'notification-retried'(name) {
    responses.set(name, (attempt) => (attempt === 1 ? 503 : 204));
    const { metadata } = await world.apply(name, { nodes: ['node-1'] });
    const id = `${metadata.uid}.stage-idle`;
    await eventuallyHolds(
      'the notification',
      () => endpoint.requests.some(({ event }) => event.id === id),
      (isSent) => isSent,
    );
    return ended(notificationWorkflowIdOf(id));
  },
};

/** Makes a run whose activities have no cluster behind them: only so can one be held while a message arrives. */
async function withoutCluster(
  fake: FakeMaintenance,
  act: (run: WorkflowHandle) => Promise<void>,
): Promise<Run> {
  const lab = await workflowLab(world.sandbox.temporalAddress);
  const run = await lab.startMaintenance(fake);
  await act(run);
  await run.result();
  const close = async () => {
    await lab.clear();
    await lab.close();
  };
  return { workflowId: run.workflowId, close };
}

async function called(fake: FakeMaintenance, call: string): Promise<void> {
  await eventuallyHolds(
    `the call ${call}`,
    () => fake.calls,
    (calls) => calls.includes(call),
  );
}

async function startedWorker(extra: NodeJS.ProcessEnv = {}): Promise<void> {
  worker = startWorker(world.sandbox, { env: { ...env, ...extra } });
  await worker.ready();
}

async function reached(name: string, stage: string): Promise<void> {
  await world.eventually(name, `${stage} to have started`, (one) => stageStarted(one, stage));
}

/** Waits until the maintenance is drained, and completes it. */
async function completed(name: string): Promise<Run> {
  await world.eventually(name, 'it to be drained', drained);
  await world.patch(name, { stage: 'Complete' });
  await world.eventually(name, 'it to be finished', finished);
  return { workflowId: workflowIdOf(name) };
}

/** Waits for the end of the latest run, however it ends. */
async function ended(workflowId: string): Promise<Run> {
  const result = world.temporal.workflow.getHandle(workflowId).result();
  await result.catch(() => undefined);
  return { workflowId };
}

async function startMaintenance(name: string, input: object): Promise<void> {
  const options = { workflowId: workflowIdOf(name), taskQueue: TASK_QUEUE, args: [{ name, ...input }] };
  await world.temporal.workflow.start('nodeMaintenance', options);
}

/** Creates a window of two nodes, which only this program opens. */
async function createWindow(name: string, differs: Partial<MaintenanceWindowSpec>): Promise<void> {
  const spec = {
    schedule: { timeZone: 'UTC', duration: '1h', calendar: [{ time: '02:00', years: [2099] }] },
    nodeSelector: selectNodes(['node-1', 'node-2']),
    ...differs,
  } as MaintenanceWindowSpec;
  await world.kube.create(resources.maintenanceWindows, { metadata: { name }, spec });
}

function openWindow(name: string, input: object = {}): Promise<WorkflowHandle> {
  const args = [{ name, ...input }];
  const options = { workflowId: windowWorkflowIdOf(name), taskQueue: TASK_QUEUE, args };
  return world.temporal.workflow.start('maintenanceWindow', options);
}

async function inProgress(run: WorkflowHandle, node: string): Promise<void> {
  await eventuallyHolds(
    `${node} to be in progress`,
    () => run.query<WindowRunProgress>('progress'),
    ({ state }) => state?.inProgress.some((one) => one.node === node) ?? false,
  );
}

/** Cancels the run as a user who may not maintain its nodes: the cancellation is rejected. */
async function rejectedCancellation(run: WorkflowHandle): Promise<void> {
  await allowTemporalUsers(['another']);
  await run.cancel();
  await eventuallyHolds(
    'the cancellation to be rejected',
    () => run.fetchHistory(),
    ({ events }) => events?.some((event) => event.activityTaskFailedEventAttributes) ?? false,
  );
  await allowTemporalUsers(undefined);
}

/** Sets the nodes that users of Temporal may maintain; undefined: all nodes. */
async function allowTemporalUsers(resourceNames: string[] | undefined): Promise<void> {
  const rules = [{ apiGroups: [''], resources: ['nodes'], verbs: ['delete'], resourceNames }];
  await world.kube.mergePatch(clusterRoles, { name: 'node-maintenance-temporal' }, { rules });
}

/** Waits until a drain has started to wait. */
async function waiting(run: WorkflowHandle): Promise<void> {
  await eventuallyHolds(
    'the drain to wait',
    () => run.fetchHistory(),
    ({ events }) => {
      const scheduled = (events ?? []).map((event) => event.activityTaskScheduledEventAttributes);
      return scheduled.filter((activity) => activity?.activityType?.name === 'drain').length > 1;
    },
  );
}

async function signalled(run: WorkflowHandle, name: string): Promise<void> {
  await eventuallyHolds(
    `signal ${name}`,
    () => run.fetchHistory(),
    ({ events }) =>
      (events ?? []).some((event) => event.workflowExecutionSignaledEventAttributes?.signalName === name),
  );
}

/** Completes the maintenances of a window that has held them, so that the nodes are free for the next shape. */
async function completeMaintenances(window: string): Promise<void> {
  const labelSelector = `${WINDOW_LABEL}=${window}`;
  const { items } = await world.kube.list(resources.nodeMaintenances, { labelSelector });
  for (const { metadata } of items) await world.patch(metadata.name, { stage: 'Complete' });
}

async function save(shape: string, { workflowId, address }: Run): Promise<void> {
  const from = ['--output', 'json', '--address', address ?? world.sandbox.temporalAddress];
  const { stdout } = await promisify(execFile)(
    `${world.sandbox.bin}/temporal`,
    ['workflow', 'show', '--workflow-id', workflowId, ...from],
    { maxBuffer: 64 * 1024 * 1024 },
  );
  await writeFile(`${folder}${shape}.json`, `${JSON.stringify(withoutMachine(JSON.parse(stdout)))}\n`);
  process.stdout.write(`${shape}: recorded\n`);
}

/** Removes everything about the machine on which a history was recorded. */
function withoutMachine(value: unknown, key = ''): unknown {
  if (key === 'identity') return 'worker';
  if (key === 'stackTrace') return '';
  if (Array.isArray(value)) return value.map((item) => withoutMachine(item));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, withoutMachine(inner, name)]),
  );
}

function isWanted(shape: string): boolean {
  const wanted = process.argv.slice(2);
  return wanted.length === 0 ? !existsSync(`${folder}${shape}.json`) : wanted.includes(shape);
}

try {
  await worker.ready();
  await mkdir(folder, { recursive: true });
  await world.deployment('web', 6);
  for (const [shape, record] of Object.entries(shapes).filter(([name]) => isWanted(name))) {
    const run = await record(shape);
    await save(shape, run);
    await run.close?.();
  }
} finally {
  await worker.kill();
  await endpoint.close();
  await world.close();
}

async function pausedResumedAndCancelled(name: string): Promise<Run> {
  await world.placePods('node-2', 3, slowPods);
  await world.apply(name, { nodes: ['node-2'], stage: 'Drain' });
  const run = world.temporal.workflow.getHandle(workflowIdOf(name));
  await reached(name, 'Drain');
  await run.executeUpdate('pause');
  await run.signal('resume');
  // The run learns of it after the object says so.
  await eventuallyHolds(
    'the run to be drained',
    () => run.query<Progress>('progress'),
    (progress) => progress.drained,
  );
  await run.signal('advance', { to: 'nonsense' });
  await run.executeUpdate('cancel');
  await world.eventually(name, 'it to be finished', finished);
  return { workflowId: run.workflowId };
}

async function approvedAndCancelled(name: string): Promise<Run> {
  await createWindow(name, { approval: 'PerWindow' });
  const run = await openWindow(name);
  await run.signal('advance');
  await run.executeUpdate('approve');
  await inProgress(run, 'node-1');
  await run.executeUpdate('advance', { args: [{ node: 'node-1' }] });
  await inProgress(run, 'node-2');
  await run.signal('pause');
  await run.executeUpdate('resume');
  await rejectedCancellation(run);
  await run.executeUpdate('cancel');
  return ended(run.workflowId);
}
