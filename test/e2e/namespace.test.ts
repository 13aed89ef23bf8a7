import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { parseAllDocuments } from 'yaml';
import { resources } from '../../kube/resources.ts';
import { type Kubectl, kubectlOf, succeeds } from '../api/kubectl.ts';
import { kubeconfigOf } from '../kit/account.ts';
import { eventually } from '../kit/eventually.ts';
import { clusterRoleBindings, selectNodes } from '../kit/resources.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';

// A whole installation in another namespace than the default one.

const namespace = 'berlin';
const accountIn = (where: string) => `system:serviceaccount:${where}:node-maintenance-worker`;

let world: World;
let kubectl: Kubectl;
let worker: WorkerProcess;

beforeAll(async () => {
  world = await createWorld({ nodes: 2, install: false, ownServers: true });
  kubectl = kubectlOf(world.sandbox);
  const args = ['manifests/main.ts', '--namespace', namespace, '--webhook-host', '127.0.0.1'];
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 16 * 1024 * 1024 });
  const items = parseAllDocuments(stdout).map((document) => document.toJS() as unknown);
  const list = { apiVersion: 'v1', kind: 'List', items };
  await eventually('the manifests to be applied', () =>
    succeeds(kubectl(['apply', '--server-side', '-f', '-'], list)),
  );
  worker = startWorker(world.sandbox, { args: ['--namespace', namespace], env: await credentials() });
  await worker.ready();
  await nobodyElseIsTheWorker();
});

afterAll(async () => {
  await worker?.stop();
  await world?.close();
});

async function credentials(): Promise<NodeJS.ProcessEnv> {
  const [own, admission] = await Promise.all(
    ['node-maintenance-worker', 'node-maintenance-admission'].map((name) =>
      kubeconfigOf(world.sandbox, { namespace, name }, world.sandbox.dir),
    ),
  );
  return { KUBECONFIG: own, ADMISSION_KUBECONFIG: admission };
}

/** Gives ServiceAccounts of other namespaces what the worker may do, and waits until they may. */
async function nobodyElseIsTheWorker(): Promise<void> {
  const group = 'rbac.authorization.k8s.io';
  for (const where of ['node-maintenance', 'tenant']) {
    const metadata = { name: `${where}-as-worker` };
    const subjects = [{ apiGroup: group, kind: 'User', name: accountIn(where) }];
    const roleRef = { apiGroup: group, kind: 'ClusterRole', name: 'node-maintenance-worker' };
    await world.kube.create(clusterRoleBindings, { metadata, roleRef, subjects } as never);
  }
  await eventually('the permissions to be known', async () =>
    expect((await kubectl(['get', 'nodes', '--as', accountIn('tenant')])).code).toBe(0),
  );
}

const maintenanceNamed = (name: string, metadata: object = {}) => ({
  apiVersion: 'nodemaintenance.k8s.io/v1alpha1',
  kind: 'NodeMaintenance',
  metadata: { name, ...metadata },
  spec: { nodeSelector: selectNodes(['node-2']), stage: 'Idle' },
});

test('drains, and serves admission', async () => {
  await world.deployment('web', 4);
  await world.apply('drain', { nodes: ['node-1'], stage: 'Drain' });
  await world.eventually('drain', 'it is drained', drained);
  await world.patch('drain', { stage: 'Complete' });
  await world.eventually('drain', 'it is finished', finished);
  const election = { namespace, name: 'node-maintenance-admission' };
  expect((await world.kube.get(resources.leases, election))?.spec.holderIdentity).toBeTruthy();
});

describe('the worker of this namespace', () => {
  const as = ['--as', accountIn(namespace)];

  test('may not delete a pod that belongs to no DaemonSet', async () => {
    const [pod = ''] = await world.placePods('node-2', 1);
    const { code, stderr } = await kubectl(['delete', 'pod', pod, ...as]);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringContaining('the worker may only delete pods of DaemonSets'),
    });
    await succeeds(kubectl(['delete', 'pod', pod]));
  });

  test('may not label a node', async () => {
    const { code, stderr } = await kubectl(['label', 'node', 'node-2', 'tier=secure', ...as]);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringContaining('the worker may not change the labels'),
    });
  });
});

describe.each(['node-maintenance', 'tenant'])(
  'a ServiceAccount node-maintenance-worker in namespace %s, with the permissions of the worker,',
  (where) => {
    const create = ['create', '--dry-run=server', '-f', '-', '--as', accountIn(where)];

    test('cannot pose as the worker on the objects of a window', async () => {
      const labels = { 'nodemaintenance.k8s.io/window': 'w' };
      const { code, stderr } = await kubectl(create, maintenanceNamed('forged', { labels }));
      expect({ code, stderr }).toEqual({
        code: 1,
        stderr: expect.stringContaining(
          'only the worker may set, change or remove nodemaintenance.k8s.io/window',
        ),
      });
    });

    test('is asked for the right to delete the nodes of a maintenance', async () => {
      const { code, stderr } = await kubectl(create, maintenanceNamed('asked'));
      expect({ code, stderr }).toEqual({
        code: 1,
        stderr: expect.stringContaining(`user "${accountIn(where)}" may not delete node "node-2"`),
      });
    });
  },
);

test('a worker of another namespace than that of the policies waits, and names both and the remedy', async () => {
  const other = startWorker(world.sandbox, { env: { KUBECONFIG: world.sandbox.kubeconfig } });
  const problem =
    'the installed policies apply to the worker in namespace berlin, not in node-maintenance: start it with --namespace berlin, or install for this namespace';
  await eventually('the problem to be logged', () => expect(other.log()).toContain(problem));
  expect(other.log()).not.toContain('Informers synced');
  expect(await other.stop()).toBe(0);
});

test('uninstall finds the namespace', async () => {
  const { items } = JSON.parse(
    await succeeds(kubectl(['maintenance', 'uninstall', '--plan', '-o', 'json'])),
  ) as { items: { kind: string; namespace?: string; name: string; action: string }[] };
  expect(items).toContainEqual({
    phase: 'Installation',
    kind: 'Namespace',
    name: namespace,
    action: 'delete',
    left: false,
  });
  expect(items.filter(({ kind }) => kind === 'ServiceAccount').map((one) => one.namespace)).toEqual([
    namespace,
    namespace,
    namespace,
  ]);
});
