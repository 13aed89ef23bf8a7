import type { KubeObject, Pod } from '../../api/core.ts';
import {
  COMPLETED_LABEL,
  RELEASED_ANNOTATION,
  REQUESTER_ANNOTATION,
  REVISION_LABEL,
  STARTED_BY,
  WINDOW_LABEL,
  WindowAnnotation,
} from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { recordOfWindow } from '../../domain/common/requester.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { removeRegistration, resetRegistration } from '../kit/registration.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { usersDropped, userWith } from '../kit/users.ts';
import { type Answer, type Kubectl, kubectlOf } from './kubectl.ts';

let sandbox: Sandbox;
let c: TestCluster;
let kubectl: Kubectl;
let node: string;
/** Has the ClusterRole node-maintenance-operator, and may delete no node. */
let operator: string;
/** May create and patch pods, and neither evict nor delete them. */
let tenant: string;
const worker = 'system:serviceaccount:node-maintenance:node-maintenance-worker';

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
  c = await testCluster(sandbox, { prefix: 'marks' });
  // What holds without an admission server, which would reject the requests of these users.
  await removeRegistration(c.admin);
  node = await c.nodeNamed('n');
  operator = await userWith(c, { clusterRoles: ['node-maintenance-operator'] });
  const rules = [
    { apiGroups: [''], resources: ['pods'], verbs: ['get', 'create', 'update', 'patch'] },
    { apiGroups: [''], resources: ['pods/status'], verbs: ['get', 'patch'] },
    { apiGroups: [''], resources: ['pods/binding', 'bindings'], verbs: ['create'] },
  ];
  tenant = await userWith(c, { namespace: c.namespace, rules });
  await eventually('the permissions and the policies to take effect', async () => {
    const forged = await createdBy(operator, { labels: { [WINDOW_LABEL]: 'w' } });
    expect(forged.stderr).toContain('only the worker may');
    expect(await createdBy(operator, {})).toMatchObject({ code: 0 });
    expect((await podCreatedBy(tenant, release)).stderr).toContain('only the worker may');
    expect(await podCreatedBy(tenant, {})).toMatchObject({ code: 0 });
  });
});

afterAll(async () => {
  if (c !== undefined) await usersDropped(c);
  await resetRegistration(c.admin);
  await c?.close();
  await releaseSandbox(sandbox);
});

const release = { [RELEASED_ANNOTATION]: '{}' };

/** Creates a maintenance of no node with this metadata, without storing it. */
function createdBy(user: string, metadata: object): Promise<Answer> {
  const maintenance = c.maintenance({ nodes: { 'example.com/none': 'none' } });
  return kubectl(['create', '--dry-run=server', '--as', user, '-f', '-'], {
    ...maintenance,
    metadata: { ...maintenance.metadata, ...metadata },
  });
}

function podCreatedBy(user: string, annotations: Record<string, string>): Promise<Answer> {
  return kubectl(['create', '--dry-run=server', '--as', user, '-f', '-'], {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: c.named('pod'), namespace: c.namespace, annotations },
    spec: { containers: [{ name: 'main', image: 'none' }] },
  });
}

const denied = (...keys: string[]) =>
  `metadata: only the worker may set, change or remove ${keys.join(', ')}: leave them out, or as they are`;

const marks = [
  { key: WINDOW_LABEL, metadata: { labels: { [WINDOW_LABEL]: 'os-patch' } } },
  { key: REVISION_LABEL, metadata: { labels: { [REVISION_LABEL]: 'r' } } },
  ...[
    WindowAnnotation.Node,
    WindowAnnotation.NodeUid,
    WindowAnnotation.WorkType,
    WindowAnnotation.BootId,
    WindowAnnotation.PausedByWindow,
    STARTED_BY,
  ].map((key) => ({ key, metadata: { annotations: { [key]: 'forged' } } })),
];

describe('a user who may write maintenances cannot forge the mark', () => {
  test.each(marks)('$key', async ({ key, metadata }) => {
    const { code, stderr } = await createdBy(operator, metadata);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(denied(key)) });
  });
});

describe('the label of complete maintenances', () => {
  const labels = { [COMPLETED_LABEL]: 'true' };
  const maintenance = (stage: 'Drain' | 'Complete') => c.maintenance({ nodes: [node], stage });
  const created = ({ metadata, ...rest }: NodeMaintenance) =>
    kubectl(['create', '--dry-run=server', '--as', operator, '-f', '-'], {
      ...rest,
      metadata: { ...metadata, labels },
    });

  test('is rejected on a copy in another stage', async () => {
    expect(await created(maintenance('Drain'))).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(
        `metadata.labels[${COMPLETED_LABEL}]: only a maintenance in stage Complete has this label: remove it`,
      ),
    });
  });

  test('may be restored with a complete maintenance, and be left out when it is replaced', async () => {
    expect(await created(maintenance('Complete'))).toMatchObject({ code: 0 });
    const existing = await c.applied(maintenance('Complete'));
    const { name } = existing.metadata;
    await c.cluster.kube.mergePatch(resources.nodeMaintenances, { name }, { metadata: { labels } });
    const patch = JSON.stringify({ metadata: { labels: { [COMPLETED_LABEL]: null } } });
    const args = ['patch', 'nm', name, '--dry-run=server', '--as', operator, '--type=merge', '-p', patch];
    expect(await kubectl(args)).toMatchObject({ code: 0 });
  });
});

describe('the NodeMaintenance of a window', () => {
  let name: string;

  beforeAll(async () => {
    const maintenance = c.maintenance({ nodes: [node] });
    const labels = { [WINDOW_LABEL]: 'os-patch', [REVISION_LABEL]: 'r' };
    const annotations = {
      [WindowAnnotation.Node]: node,
      [REQUESTER_ANNOTATION]: recordOfWindow('os-patch'),
    };
    ({ name } = maintenance.metadata);
    await c.cluster.kube.create(resources.nodeMaintenances, {
      ...maintenance,
      metadata: { name, labels, annotations },
    });
  });

  const patched = (user: string, metadata: object) => {
    const patch = ['--type=merge', '-p', JSON.stringify({ metadata })];
    return kubectl(['patch', 'nm', name, '--dry-run=server', '--as', user, ...patch]);
  };

  test.each([
    { what: 'removed', metadata: { labels: { [WINDOW_LABEL]: null } }, key: WINDOW_LABEL },
    { what: 'changed', metadata: { labels: { [WINDOW_LABEL]: 'other' } }, key: WINDOW_LABEL },
    {
      what: 'emptied',
      metadata: { annotations: { [WindowAnnotation.Node]: '' } },
      key: WindowAnnotation.Node,
    },
  ])('keeps the mark that a user has $what', async ({ metadata, key }) => {
    expect((await patched(operator, metadata)).stderr).toContain(denied(key));
  });

  test('may have other labels and annotations of users', async () => {
    const metadata = { labels: { team: 'sre' }, annotations: { 'example.com/note': 'x' } };
    expect(await patched(operator, metadata)).toMatchObject({ code: 0, stderr: '' });
  });

  test('may be changed by the worker, and by users who may impersonate it', async () => {
    const metadata = { annotations: { [WindowAnnotation.PausedByWindow]: 'true' } };
    expect(await patched(worker, metadata)).toMatchObject({ code: 0, stderr: '' });
    const impersonator = await userWith(
      c,
      { clusterRoles: ['node-maintenance-operator'] },
      {
        namespace: 'node-maintenance',
        rules: [{ apiGroups: [''], resources: ['serviceaccounts'], verbs: ['impersonate'] }],
      },
    );
    await eventually('the permission to take effect', async () =>
      expect(await patched(impersonator, metadata)).toMatchObject({ code: 0, stderr: '' }),
    );
  });

  test('is marked as done only by users who may delete the node', async () => {
    const metadata = { annotations: { [WindowAnnotation.WorkDone]: 'true' } };
    expect((await patched(operator, metadata)).stderr).toContain(
      `metadata.annotations[nodemaintenance.k8s.io/work-done]: user "${operator}" may not delete node ${node}: request the verb delete on nodes`,
    );
    const owner = await userWith(
      c,
      { clusterRoles: ['node-maintenance-operator'] },
      { rules: [{ apiGroups: [''], resources: ['nodes'], verbs: ['delete'], resourceNames: [node] }] },
    );
    await eventually('the permission to take effect', async () =>
      expect(await patched(owner, metadata)).toMatchObject({ code: 0, stderr: '' }),
    );
  });
});

describe('a user who may patch pods cannot have one evicted by the annotation released-from:', () => {
  const rejection =
    'metadata.annotations: only the worker may set, change or remove nodemaintenance.k8s.io/released-from: leave it out, or as it is';
  const patched = (user: string, { metadata }: Pod, annotations: object, ...args: string[]) => {
    const patch = JSON.stringify({ metadata: { annotations } });
    const options = ['-n', c.namespace, '--as', user, '--type=merge', '-p', patch, ...args];
    return kubectl(['patch', 'pod', metadata.name, ...options]);
  };

  test.each([
    { by: 'a patch', args: [] },
    { by: 'a patch of the status', args: ['--subresource=status'] },
  ])('by $by', async ({ args }) => {
    const pod = await c.podOn(node);
    expect((await patched(tenant, pod, release, ...args)).stderr).toContain(rejection);
    expect(await patched(tenant, pod, { 'example.com/note': 'x' }, ...args)).toMatchObject({ code: 0 });
  });

  test('by a new pod', async () => {
    expect((await podCreatedBy(tenant, release)).stderr).toContain(rejection);
  });

  test('by a binding, whose annotations the apiserver copies to the pod', async () => {
    const name = c.named('unscheduled');
    await c.admin.create<KubeObject>(resources.pods, {
      metadata: { name, namespace: c.namespace },
      spec: { schedulerName: 'none', containers: [{ name: 'main', image: 'none' }] },
    } as KubeObject);
    const binding = {
      apiVersion: 'v1',
      kind: 'Binding',
      metadata: { name, namespace: c.namespace, annotations: release },
      target: { kind: 'Node', name: node },
    };
    const collections = [`pods/${name}/binding`, 'bindings'];
    for (const collection of collections) {
      const path = `/api/v1/namespaces/${c.namespace}/${collection}`;
      const { code, stderr } = await kubectl(['create', '--raw', path, '--as', tenant, '-f', '-'], binding);
      expect({ collection, code, stderr }).toMatchObject({
        code: 1,
        stderr: expect.stringContaining(rejection),
      });
    }
  });

  test('nor take it from a pod that the worker has released', async () => {
    const pod = await c.podOn(node);
    const key = { namespace: c.namespace, name: pod.metadata.name };
    await c.cluster.kube.mergePatch(resources.pods, key, { metadata: { annotations: release } });
    expect((await patched(tenant, pod, { [RELEASED_ANNOTATION]: null })).stderr).toContain(rejection);
    expect(await patched(tenant, pod, { 'example.com/note': 'x' })).toMatchObject({ code: 0, stderr: '' });
  });
});
