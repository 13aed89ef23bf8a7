import { hostname } from 'node:os';
import { COMPONENT_LABEL, SYSTEM_NAMESPACE } from '../../api/names.ts';
import { connectKube, type Kube } from '../../kube/client.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { silentLog } from '../kit/cluster.ts';
import { eventuallyHolds } from '../kit/holds.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';

let sandbox: Sandbox;
let admin: Kube;
let workers: WorkerProcess[];

/** A Lease that somebody wrote by hand under our label. */
const nonsense = { namespace: SYSTEM_NAMESPACE, name: 'written-by-hand' };

beforeAll(async () => {
  sandbox = await testSandbox();
  admin = connectKube({ kubeconfig: sandbox.kubeconfig, userAgent: 'node-maintenance-test', log: silentLog });
  workers = [startWorker(sandbox), startWorker(sandbox, { args: ['--admission-only'] })];
  await Promise.all(workers.map((worker) => worker.ready()));
  const metadata = { ...nonsense, labels: { [COMPONENT_LABEL]: 'x' }, annotations: { 'a/b': '\n' } };
  await admin.create(resources.leases, { metadata, spec: { renewTime: '9999-12-31T23:59:59.999999Z' } });
}, 180_000);

afterAll(async () => {
  await Promise.all((workers ?? []).map((worker) => worker.stop()));
  const uid = (await admin?.get(resources.leases, nonsense))?.metadata.uid;
  if (uid !== undefined) await admin.delete(resources.leases, nonsense, { uid });
  await admin?.close();
  await releaseSandbox(sandbox);
}, 60_000);

interface Seen {
  component: string;
  host: string;
  state: string;
  leader: boolean;
  polls?: { workflow?: string; activity?: string };
}

test('every process is listed, with its state, the leader, and what Temporal sees of it', async () => {
  const list = async () => {
    const answer = await succeeds(kubectlOf(sandbox)(['maintenance', 'workers', '-o', 'json']));
    return (JSON.parse(answer) as { items: Seen[] }).items;
  };
  const isOurs = (component: string) => (one: Seen) => one.component === component && one.state === 'Live';
  const seen = await eventuallyHolds('the worker leads and polls', list, (items) =>
    items.some(
      (one) => isOurs('node-maintenance-worker')(one) && one.leader && one.polls?.activity !== undefined,
    ),
  );
  expect(seen.find((one) => isOurs('node-maintenance-worker')(one) && one.leader)).toMatchObject({
    host: hostname(),
    version: '0.1.0',
    temporal: { taskQueue: 'node-maintenance', namespace: 'default' },
    polls: { workflow: expect.any(String), activity: expect.any(String) },
  });
  const admission = seen.find(isOurs('node-maintenance-admission'));
  expect(admission).toMatchObject({ host: hostname(), leader: false });
  expect(admission).not.toHaveProperty('polls');
});

test('without Temporal the rest is told', async () => {
  const env = { ...sandbox.env, TEMPORAL_ADDRESS: '127.0.0.1:1' };
  const { code, stdout, stderr } = await kubectlOf({ ...sandbox, env })(['maintenance', 'workers']);
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr:
      'warning: Temporal at 127.0.0.1:1 does not answer: check TEMPORAL_ADDRESS; TASK QUEUE is not known\n',
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
    'Silent',
    expect.any(String),
    'no',
    '<none>',
    '<none>',
  ]);
});

test.each([
  { namespace: 'elsewhere', code: 0, says: 'No processes found in namespace elsewhere.\n' },
  { namespace: '../../nodes', code: 2, says: 'expected the name of a namespace' },
])('in namespace $namespace: $says', async ({ namespace, code, says }) => {
  const answer = await kubectlOf(sandbox)(['maintenance', 'workers', '--namespace', namespace]);
  expect(answer).toEqual({ code, stdout: '', stderr: expect.stringContaining(says) });
});
