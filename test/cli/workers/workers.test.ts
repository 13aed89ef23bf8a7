import { hostname } from 'node:os';
import type { Lease } from '../../../api/core.ts';
import { COMPONENT_LABEL, SYSTEM_NAMESPACE } from '../../../api/names.ts';
import { connectKube, type Kube } from '../../../kube/client.ts';
import { microTime } from '../../../kube/leaseRecord.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { kubectlOf, succeeds } from '../../api/kubectl.ts';
import { silentLog } from '../../kit/cluster.ts';
import { eventuallyHolds } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import { startWorker, type WorkerProcess } from '../../kit/worker.ts';

let sandbox: Sandbox;
let admin: Kube;
let workers: WorkerProcess[];

const polling = (namespace: string, taskQueue: string) => ({
  'nodemaintenance.k8s.io/temporal-identity': '1@nowhere',
  'nodemaintenance.k8s.io/temporal-namespace': namespace,
  'nodemaintenance.k8s.io/task-queue': taskQueue,
});

/** Leases with our label that were written manually. */
const manualLeases: Lease[] = [
  {
    metadata: { name: 'long-gone', annotations: polling('deleted', 'node-maintenance') },
    spec: { renewTime: '2026-01-01T00:00:00.000000Z' },
  },
  {
    metadata: { name: 'moved', annotations: polling('elsewhere', 'node-maintenance') },
    spec: { renewTime: '9999-12-31T23:59:59.999999Z' },
  },
  {
    metadata: { name: 'nonsense', annotations: polling('../..\n\u001B[31mred', 'no\u009Bqueue') },
    spec: { renewTime: '9999-12-31T23:59:59.999999Z' },
  },
];
const keyOf = ({ metadata: { name } }: Lease) => ({ namespace: SYSTEM_NAMESPACE, name });

beforeAll(async () => {
  sandbox = await testSandbox();
  admin = connectKube({ kubeconfig: sandbox.kubeconfig, userAgent: 'node-maintenance-test', log: silentLog });
  // As in a cluster, where each has a Deployment.
  workers = ['controllers', 'admission'].map((name) =>
    startWorker(sandbox, { args: ['--components', name] }),
  );
  await Promise.all(workers.map((worker) => worker.ready()));
  for (const lease of manualLeases) {
    const metadata = { ...lease.metadata, ...keyOf(lease), labels: { [COMPONENT_LABEL]: 'x' } };
    await admin.create(resources.leases, { ...lease, metadata });
  }
});

afterAll(async () => {
  await Promise.all((workers ?? []).map((worker) => worker.stop()));
  for (const lease of manualLeases) {
    const uid = (await admin?.get(resources.leases, keyOf(lease)))?.metadata.uid;
    if (uid !== undefined) await admin.delete(resources.leases, keyOf(lease), { uid });
  }
  await admin?.close();
  await releaseSandbox(sandbox);
});

interface Row {
  component: string;
  host: string;
  state: string;
  leader: boolean;
  polls?: { workflow?: string; activity?: string; longRunning?: string };
}

const workersAs = (format: string) => kubectlOf(sandbox)(['maintenance', 'workers', '-o', format]);
const list = async () => (JSON.parse(await succeeds(workersAs('json'))) as { items: Row[] }).items;

test('every process is listed with its state, the leader, and its polls', async () => {
  const isOurs = (component: string) => (one: Row) => one.component === component && one.state === 'Live';
  const rows = await eventuallyHolds('the worker leads and polls', list, (items) =>
    items.some(
      (one) => isOurs('node-maintenance-worker')(one) && one.leader && one.polls?.longRunning !== undefined,
    ),
  );
  expect(rows.find((one) => isOurs('node-maintenance-worker')(one) && one.leader)).toMatchObject({
    host: hostname(),
    version: '0.1.0',
    temporal: { taskQueue: 'node-maintenance', namespace: 'default' },
    polls: {
      workflow: expect.any(String),
      activity: expect.any(String),
      longRunning: expect.any(String),
    },
  });
  const admission = rows.find(isOurs('node-maintenance-admission'));
  expect(admission).toMatchObject({ host: hostname(), leader: false });
  expect(admission).not.toHaveProperty('polls');
});

test('an invalid task queue is reported, unless the process has expired; the other rows are complete', async () => {
  const { stdout, stderr } = await workersAs('json');
  expect(stderr.split('\n')).toEqual([
    expect.stringMatching(
      /^warning: task queue no\\u009bqueue of Temporal namespace \S+: .*illegal characters$/,
    ),
    expect.stringMatching(
      /^warning: task queue node-maintenance of Temporal namespace elsewhere: .*not found/,
    ),
    '',
  ]);
  const { items } = JSON.parse(stdout) as { items: Row[] };
  const rows = items.map(({ component, state, polls }) => [component, state, polls !== undefined]);
  expect(rows).toContainEqual(['node-maintenance-worker', 'Live', true]);
  expect(rows.filter(([component]) => component === 'x')).toEqual([
    ['x', 'Expired', false],
    ['x', 'Stale', false],
    ['x', 'Stale', false],
  ]);
});

test('a leader that is not listed is reported', async () => {
  const namespace = 'default';
  const time = microTime(admin.now());
  const election = { namespace, name: 'node-maintenance-controllers' };
  const spec = { holderIdentity: 'of-an-older-release', renewTime: time, leaseDurationSeconds: 60 };
  const { metadata } = await admin.create(resources.leases, { metadata: election, spec });
  try {
    const answer = await kubectlOf(sandbox)(['maintenance', 'workers', '-n', namespace]);
    expect(answer.stderr.split('\n')).toEqual([
      'warning: the leader of the controllers, of-an-older-release, publishes no identity Lease: it runs with --identity-leases false, or is of another release',
      'No process publishes an identity Lease in namespace default: none runs for it, or all run with --identity-leases false.',
      '',
    ]);
  } finally {
    await admin.delete(resources.leases, election, { uid: metadata.uid ?? '' });
  }
});

test('without Temporal the other columns are printed', async () => {
  const env = { ...sandbox.env, TEMPORAL_ADDRESS: '127.0.0.1:1' };
  const { code, stdout, stderr } = await kubectlOf({ ...sandbox, env })(['maintenance', 'workers']);
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr:
      'warning: Temporal: address (TEMPORAL_ADDRESS): no response from 127.0.0.1:1 (ECONNREFUSED): correct the address, or start Temporal there; TASK QUEUE is unknown\n',
  });
  const cells = stdout
    .trim()
    .split('\n')
    .map((line) => line.split(/ {3,}/));
  expect(cells[0]).toEqual([
    'COMPONENT',
    'HOST',
    'HOLDER',
    'STATE',
    'RENEWED',
    'LEADER',
    'TASK QUEUE',
    'VERSION',
  ]);
  expect(cells).toContainEqual([
    'node-maintenance-worker',
    hostname(),
    expect.stringMatching(/^[0-9a-f]{8}$/),
    'Live',
    expect.stringMatching(/^\d+s$/),
    'yes',
    '<unknown>',
    '0.1.0',
  ]);
  expect(cells).toContainEqual([
    'x',
    '<none>',
    '<none>',
    'Stale',
    expect.any(String),
    'no',
    '<unknown>',
    '<none>',
  ]);
});

test.each([
  {
    namespace: 'elsewhere',
    code: 0,
    message:
      'No process publishes an identity Lease in namespace elsewhere: none runs for it, or all run with --identity-leases false.\n',
  },
  { namespace: '../../nodes', code: 2, message: 'expected the name of a namespace' },
])('in namespace $namespace: $message', async ({ namespace, code, message }) => {
  const answer = await kubectlOf(sandbox)(['maintenance', 'workers', '--namespace', namespace]);
  expect(answer).toEqual({ code, stdout: '', stderr: expect.stringContaining(message) });
});
