import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { WorkflowHandle } from '@temporalio/client';
import { TestWorkflowEnvironment } from '@temporalio/testing';
import type { MaintenanceWindowSpec } from '../../api/maintenanceWindow.ts';
import {
  NODE_LEASE_NAMESPACE,
  noticeWorkflowIdOf,
  WINDOW_LABEL,
  windowWorkflowIdOf,
  workflowIdOf,
} from '../../api/names.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import { NodeLeases } from '../../node-lease/nodeLeases.ts';
import { declaredNamespace } from '../../temporal-config/namespace.ts';
import { eventuallyHolds } from '../kit/holds.ts';
import { startReceiver } from '../kit/receiver.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import type { WindowAnswer } from '../../workflows/windowRun.ts';
import { begun, createWorld, drained, finished, type World } from '../e2e/world.ts';

/**
 * Records one history of every shape that the workflows can take, those of windows under names that begin with `window-` and those of
 * notices under names that begin with `notice-`, from real runs, into test/replay/histories/. Run it (`node test/replay/record.ts [SHAPE...]`) after a change of the workflow that is guarded by
 * `patched`, and commit the new file beside the old ones: old histories must go on replaying.
 */
const folder = fileURLToPath(new URL('histories/', import.meta.url));

interface Scene {
  world: World;
  worker(): WorkerProcess;
  restart(): Promise<void>;
}

const clusterRoles: Resource = {
  group: 'rbac.authorization.k8s.io',
  version: 'v1',
  plural: 'clusterroles',
  kind: 'ClusterRole',
  namespaced: false,
};

const plan = [
  { podType: 'Default' as const, podPriority: -1 },
  { podType: 'Default' as const, podPriority: 1000 },
];

/** Name of the history -> how it comes about. Each uses a maintenance of its own name. */
const shapes: Record<string, (scene: Scene, name: string) => Promise<void>> = {
  async 'idle-cordon-drain-complete'({ world }, name) {
    await world.apply(name, { nodes: ['node-1'], drainPlan: plan });
    await world.eventually(name, 'Idle is begun', (seen) => begun(seen, 'Idle'));
    await world.patch(name, { stage: 'Cordon' });
    await world.eventually(name, 'Cordon is begun', (seen) => begun(seen, 'Cordon'));
    await world.patch(name, { stage: 'Drain' });
    await world.eventually(name, 'it is drained', drained);
    await world.patch(name, { stage: 'Complete' });
    await world.eventually(name, 'it is finished', finished);
  },

  async 'pause-resume-cancel'({ world }, name) {
    await world.placePods('node-2', 3, {
      labels: { 'sandbox.nodemaintenance.k8s.io/slow-exit': 'true' },
      grace: 30,
    });
    await world.apply(name, { nodes: ['node-2'], stage: 'Drain' });
    const run = world.temporal.workflow.getHandle(workflowIdOf(name));
    await world.eventually(name, 'Drain is begun', (seen) => begun(seen, 'Drain'));
    await run.executeUpdate('pause');
    await run.signal('resume');
    await world.eventually(name, 'it is drained', drained);
    await run.signal('advance', { to: 'nonsense' });
    await run.executeUpdate('cancel');
    await world.eventually(name, 'it is finished', finished);
  },

  async 'worker-killed'({ world, worker, restart }, name) {
    await world.placePods('node-1', 3, {
      labels: { 'sandbox.nodemaintenance.k8s.io/slow-exit': 'true' },
      grace: 30,
    });
    await world.apply(name, { nodes: ['node-1'], stage: 'Drain', drainPlan: plan });
    await world.eventually(name, 'Drain is begun', (seen) => begun(seen, 'Drain'));
    await worker().kill();
    await restart();
    await world.eventually(name, 'it is drained', drained);
    await world.patch(name, { stage: 'Complete' });
    await world.eventually(name, 'it is finished', finished);
  },

  async 'deleted-in-drain'({ world }, name) {
    const { metadata } = await world.apply(name, { nodes: ['node-2'], stage: 'Drain' });
    await world.eventually(name, 'it is drained', drained);
    await world.kube.delete(resources.nodeMaintenances, { name }, { uid: metadata.uid ?? '' });
    await ended(world, name);
  },

  async 'deleted-in-idle'({ world }, name) {
    const { metadata } = await world.apply(name, { nodes: ['node-2'] });
    await world.eventually(name, 'Idle is begun', (seen) => begun(seen, 'Idle'));
    await world.kube.delete(resources.nodeMaintenances, { name }, { uid: metadata.uid ?? '' });
    await ended(world, name);
  },

  async 'cancelled-from-temporal'({ world }, name) {
    await startFromTemporal(world, name, { name, nodes: ['node-1'], stage: 'Cordon' });
    await world.eventually(name, 'Cordon is begun', (seen) => begun(seen, 'Cordon'));
    await world.temporal.workflow.getHandle(workflowIdOf(name)).cancel();
    await world.eventually(name, 'it is finished', finished);
  },

  async 'leases-renewed-and-lost'({ world }, name) {
    await world.apply(name, { nodes: ['node-1', 'node-2'], stage: 'Drain', drainPlan: plan });
    await world.eventually(name, 'it is drained', drained);
    await renewed(world, 'node-1', 3);
    const other = new NodeLeases({ kube: world.kube, holder: 'another', leaseDurationSeconds: 60 });
    const lease = { namespace: NODE_LEASE_NAMESPACE, name: 'node-2' };
    await world.kube.mergePatch(resources.leases, lease, { spec: { holderIdentity: other.holder } });
    await world.eventually(name, 'it waits', (seen) => !drained(seen));
    await world.patch(name, { stage: 'Complete' });
    await eventuallyHolds(
      'node-1 is given back',
      () => world.node('node-1'),
      ({ spec }) => spec.unschedulable !== true,
    );
    await other.release('node-2');
    await world.eventually(name, 'it is finished', finished);
  },

  async 'leases-cancelled-from-temporal'({ world }, name) {
    await startFromTemporal(world, name, { name, nodes: ['node-1'], stage: 'Drain' });
    await world.eventually(name, 'it is drained', drained);
    await renewed(world, 'node-1', 2);
    await world.temporal.workflow.getHandle(workflowIdOf(name)).cancel();
    await world.eventually(name, 'it is finished', finished);
  },

  async 'told-what-blocks'({ world }, name) {
    await world.placePods('node-3', 2, { labels: { app: name } });
    await world.budget(name, { app: name }, { minAvailable: 2 });
    await world.apply(name, { nodes: ['node-3'], stage: 'Drain', drainPlan: plan });
    const run = world.temporal.workflow.getHandle(workflowIdOf(name));
    await eventuallyHolds(
      'the run is told',
      () => run.fetchHistory(),
      ({ events }) =>
        (events ?? []).some(
          (event) => event.workflowExecutionSignaledEventAttributes?.signalName === 'glance',
        ),
    );
    await world.kube.mergePatch(resources.podDisruptionBudgets, { namespace: 'default', name }, budgetOfNone);
    await world.eventually(name, 'it is drained', drained);
    await world.patch(name, { stage: 'Complete' });
    await world.eventually(name, 'it is finished', finished);
  },

  async 'window-done'({ world }, name) {
    const containers = [{ name: 'work', image: 'none' }];
    const work = {
      type: 'Job' as const,
      job: { template: { spec: { containers } }, timeoutSeconds: 600, retries: 0 },
    };
    await windowed(world, name, { work });
    await (await opened(world, name)).result();
  },

  async 'window-approved-and-cancelled'({ world }, name) {
    await windowed(world, name, { approval: 'PerWindow' });
    const run = await opened(world, name);
    await run.signal('advance');
    await run.executeUpdate('approve');
    await turnUnderWay(run, 'node-1');
    await run.executeUpdate('advance', { args: [{ node: 'node-1' }] });
    await turnUnderWay(run, 'node-2');
    await run.signal('pause');
    await run.executeUpdate('resume');
    await run.executeUpdate('cancel');
    await run.result();
  },

  async 'window-held'({ world }, name) {
    await windowed(world, name, { onWindowEnd: 'HoldCurrent' });
    const run = await opened(world, name, { duration: '1m' });
    await run.result();
    const next = await opened(world, name);
    await turnUnderWay(next, 'node-1');
    await next.cancel();
    await next.result();
  },

  async 'window-held-again'({ world }, name) {
    await windowed(world, name, { onWindowEnd: 'HoldCurrent' });
    await (await opened(world, name, { duration: '1m' })).result();
    const next = await opened(world, name, { duration: '1m' });
    await turnUnderWay(next, 'node-1');
    await cancelledInVain(world, next);
    await next.result();
    await completed(world, name);
  },

  async 'window-told'({ world }, name) {
    await windowed(world, name, { onWindowEnd: 'HoldCurrent' });
    await (await opened(world, name, { duration: '1m' })).result();
    await completed(world, name);
  },

  async 'window-cancelled-from-temporal'({ world }, name) {
    await windowed(world, name, {});
    const run = await opened(world, name);
    await turnUnderWay(run, 'node-1');
    await run.cancel();
    await run.result();
  },

  async 'window-cancel-ignored'({ world }, name) {
    await windowed(world, name, {});
    const run = await opened(world, name);
    await turnUnderWay(run, 'node-1');
    await cancelledInVain(world, run);
    await run.executeUpdate('cancel');
    await run.result();
  },

  async 'window-refused'({ world }, name) {
    await (await opened(world, name)).result().catch(() => undefined);
  },

  async 'notice-taken'({ world }, name) {
    await noticed(world, name, (attempt) => (attempt === 1 ? 503 : 204));
  },

  async 'notice-refused'({ world }, name) {
    await noticed(world, name, () => 400);
  },

  async refused({ world }, name) {
    await startFromTemporal(world, name, { name, nodes: ['no-such-node'] });
    await ended(world, name);
  },
};

const budgetOfNone = { spec: { minAvailable: 0 } };

/** What the receiver answers to the first notice of a maintenance. */
const answers = new Map<string, (attempt: number) => number>();

/** Resolves when the receiver has taken or refused what is told of the maintenance's first stage. */
async function noticed(world: World, name: string, answer: (attempt: number) => number): Promise<void> {
  answers.set(name, answer);
  const { metadata } = await world.apply(name, { nodes: ['node-1'] });
  const id = `${metadata.uid}.stage-idle`;
  workflowIds.set(name, noticeWorkflowIdOf(id));
  await eventuallyHolds(
    'the notice to be put out',
    () => receiver.requests.some(({ event }) => event.id === id),
    (seen) => seen,
  );
  await world.temporal.workflow
    .getHandle(noticeWorkflowIdOf(id))
    .result()
    .catch(() => undefined);
}

async function windowed(
  { kube }: World,
  name: string,
  differs: Partial<MaintenanceWindowSpec>,
): Promise<void> {
  const matchFields = ['node-1', 'node-2'].map((node) => [
    { key: 'metadata.name', operator: 'In' as const, values: [node] },
  ]);
  const spec = {
    schedule: { timeZone: 'UTC', duration: '1h', calendar: [{ time: '02:00', years: [2099] }] },
    nodeSelector: { nodeSelectorTerms: matchFields.map((fields) => ({ matchFields: fields })) },
    ...differs,
  } as MaintenanceWindowSpec;
  await kube.create(resources.maintenanceWindows, { metadata: { name }, spec });
}

/** Which nodes those who use Temporal may maintain; all of them by default. */
async function temporalMayDelete({ kube }: World, resourceNames?: string[]): Promise<void> {
  const rules = [{ apiGroups: [''], resources: ['nodes'], verbs: ['delete'], resourceNames }];
  await kube.mergePatch(clusterRoles, { name: 'node-maintenance-temporal' }, { rules });
}

/** By those who may not maintain the nodes. */
async function cancelledInVain(world: World, run: WorkflowHandle): Promise<void> {
  await temporalMayDelete(world, ['another']);
  await run.cancel();
  await eventuallyHolds(
    'the cancellation to be judged',
    () => run.fetchHistory(),
    ({ events }) => events?.some((event) => event.activityTaskFailedEventAttributes) ?? false,
  );
  await temporalMayDelete(world);
}

/** What the window left behind, so that the nodes are free for the next. */
async function completed({ kube, patch }: World, window: string): Promise<void> {
  const { items } = await kube.list(resources.nodeMaintenances, {
    labelSelector: `${WINDOW_LABEL}=${window}`,
  });
  for (const { metadata } of items) await patch(metadata.name, { stage: 'Complete' });
}

function opened({ temporal }: World, name: string, input: object = {}): Promise<WorkflowHandle> {
  const args = [{ name, ...input }];
  const options = { workflowId: windowWorkflowIdOf(name), taskQueue: 'node-maintenance', args };
  return temporal.workflow.start('maintenanceWindow', options);
}

async function turnUnderWay(run: WorkflowHandle, node: string): Promise<void> {
  await eventuallyHolds(
    `the turn of ${node}`,
    () => run.query<WindowAnswer>('progress'),
    ({ state }) => state?.underWay.some((turn) => turn.node === node) ?? false,
  );
}

async function renewed({ kube }: World, name: string, times: number): Promise<void> {
  const key = { namespace: NODE_LEASE_NAMESPACE, name };
  for (let count = 0; count < times; count++) {
    const before = (await kube.get(resources.leases, key))?.spec.renewTime;
    await eventuallyHolds(
      'the next renewal',
      () => kube.get(resources.leases, key),
      (lease) => lease?.spec.renewTime !== before,
    );
  }
}

async function startFromTemporal({ temporal }: World, name: string, input: object): Promise<void> {
  const options = { workflowId: workflowIdOf(name), taskQueue: 'node-maintenance', args: [input] };
  await temporal.workflow.start('nodeMaintenance', options);
}

async function ended({ temporal }: World, name: string): Promise<void> {
  await temporal.workflow
    .getHandle(workflowIdOf(name))
    .result()
    .catch(() => undefined);
}

/** Those that the arguments name, or all that have not been recorded: what is there tells how the workflow was once. */
function isWanted(shape: string): boolean {
  const wanted = process.argv.slice(2);
  return wanted.length === 0 ? !existsSync(`${folder}${shape}.json`) : wanted.includes(shape);
}

const receiver = await startReceiver();
receiver.answersWith(({ data }, attempt) => ({
  status: answers.get(data.object.name)?.(attempt) ?? 204,
}));
/** Of shapes whose workflow id does not follow from their name. */
const workflowIds = new Map<string, string>();

/** Short, so that histories have renewals in them. */
const env = { NODE_LEASE_DURATION: '6', NOTIFY_URL: receiver.url, CLUSTER_NAME: 'lab' };

const world = await createWorld({ nodes: 3 });
let worker = startWorker(world.sandbox, { env });
try {
  await worker.ready();
  await mkdir(folder, { recursive: true });
  await world.deployment('web', 6);
  const scene: Scene = {
    world,
    worker: () => worker,
    restart: async () => {
      worker = startWorker(world.sandbox, { env });
      await worker.ready();
    },
  };
  for (const [shape, run] of Object.entries(shapes).filter(([name]) => isWanted(name))) {
    await run(scene, shape);
    await save(shape, world.sandbox.temporalAddress);
  }
  if (isWanted('leases-continued-as-new')) await recordContinueAsNew('leases-continued-as-new');
} finally {
  await worker.kill();
  await receiver.close();
  await world.close();
}

/** A Temporal of its own, which suggests to continue as new after a few events. */
async function recordContinueAsNew(shape: string): Promise<void> {
  await worker.kill();
  const environment = await TestWorkflowEnvironment.createLocal({
    server: {
      executable: { type: 'existing-path', path: `${world.sandbox.bin}/temporal` },
      extraArgs: [
        '--dynamic-config-value',
        'limit.historyCount.suggestContinueAsNew=15',
        ...Object.entries(declaredNamespace().searchAttributes).flatMap(([name, type]) => [
          '--search-attribute',
          `${name}=${type}`,
        ]),
      ],
    },
  });
  try {
    worker = startWorker(world.sandbox, { env: { ...env, TEMPORAL_ADDRESS: environment.address } });
    await worker.ready();
    await world.apply(shape, { nodes: ['node-3'], drainPlan: plan });
    await world.eventually(shape, 'Idle is begun', (seen) => begun(seen, 'Idle'));
    const first = (await environment.client.workflow.getHandle(workflowIdOf(shape)).describe()).runId;
    await world.patch(shape, { stage: 'Drain' });
    await world.eventually(shape, 'it is drained', drained);
    await renewed(world, 'node-3', 2);
    await world.patch(shape, { stage: 'Complete' });
    await world.eventually(shape, 'it is finished', finished);
    await save(shape, environment.address);
    await save(`${shape}-before`, environment.address, { of: shape, runId: first });
  } finally {
    await worker.kill();
    await environment.teardown();
  }
}

async function save(
  shape: string,
  address: string,
  { of = shape, runId }: { of?: string; runId?: string } = {},
): Promise<void> {
  const which = runId === undefined ? [] : ['--run-id', runId];
  const { stdout } = await promisify(execFile)(
    `${world.sandbox.bin}/temporal`,
    [
      'workflow',
      'show',
      '--workflow-id',
      workflowIds.get(of) ?? (of.startsWith('window-') ? windowWorkflowIdOf(of) : workflowIdOf(of)),
      ...which,
      '--output',
      'json',
      '--address',
      address,
    ],
    { env: { ...process.env, TEMPORAL_ADDRESS: address }, maxBuffer: 64 * 1024 * 1024 },
  );
  await writeFile(
    `${folder}${shape}.json`,
    `${JSON.stringify(scrubbed(JSON.parse(stdout)), undefined, 1)}\n`,
  );
  process.stdout.write(`${shape}: recorded\n`);
}

/** Without what tells of the machine that it was recorded on. */
function scrubbed(value: unknown, key = ''): unknown {
  if (key === 'identity') return 'worker';
  if (key === 'stackTrace') return '';
  if (Array.isArray(value)) return value.map((item) => scrubbed(item));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, scrubbed(inner, name)]));
}
