import type { KubeObject, Lease } from '../../../api/core.ts';
import { NODE_LEASE_NAMESPACE as namespace } from '../../../api/names.ts';
import { runAbandonedLeasesController } from '../../../controllers/leases/abandonedLeases.ts';
import { runNodeLeasesController } from '../../../controllers/leases/nodeLeases.ts';
import { watchCluster } from '../../../kube/cluster.ts';
import { EventRecorder } from '../../../kube/events.ts';
import { microTime } from '../../../kube/leaseRecord.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { createMetrics } from '../../../worker/metrics/metrics.ts';
import { kubectlOf, succeeds } from '../../api/kubectl.ts';
import { asLeader, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import { recordedLog } from '../../kube/fixtures.ts';

let sandbox: Sandbox;
let c: TestCluster;
const log = recordedLog();
const stop = new AbortController();
/** Short, because tests wait for them. */
const timing = { rejectionRetryMs: 1_000, rejectionRetryPerNodeMs: 100, syncWarningMs: 1_000 };
let running: Promise<unknown>;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'leased' });
  const { cluster } = c;
  const events = new EventRecorder({ kube: cluster.kube, component: 'node-maintenance', log });
  running = Promise.all([
    runNodeLeasesController({ cluster, log, timing }, stop.signal),
    runAbandonedLeasesController({ cluster, events, log }, stop.signal),
  ]);
});

afterAll(async () => {
  const { items } = await c.admin.list(resources.leases, { namespace });
  for (const lease of items.filter(({ metadata }) => metadata.name.startsWith(c.namespace)))
    await deleted(lease);
  stop.abort();
  await running;
  await c.close();
  await releaseSandbox(sandbox);
});

const written = (name: string, spec: Lease['spec'] = {}) =>
  c.admin.create(resources.leases, { metadata: { namespace, name }, spec });
const held = (name: string, spec: Lease['spec']) =>
  c.admin.mergePatch(resources.leases, { namespace, name }, { spec });
const deleted = ({ metadata: { name, uid = '' } }: KubeObject) =>
  c.admin.delete(resources.leases, { namespace, name }, { uid });
const secondsAgo = (seconds: number) => microTime(new Date(Date.now() - seconds * 1_000));
const lines = (message: string) => log.lines.filter((line) => line.message === message);

async function owned(node: string): Promise<Lease> {
  return eventually(`a Lease that node ${node} owns`, async () => {
    const [lease, { metadata }] = await Promise.all([c.nodeLeaseOf(node), c.node(node)]);
    const { name, uid } = metadata;
    expect(lease?.metadata.ownerReferences).toEqual([{ apiVersion: 'v1', kind: 'Node', name, uid }]);
    return lease as Lease;
  });
}

const gone = (name: string) =>
  eventually(`Lease ${name} to be gone`, async () => expect(await c.nodeLeaseOf(name)).toBeUndefined());

async function nodeDeleted(name: string): Promise<void> {
  const { metadata } = await c.node(name);
  await c.admin.delete(resources.nodes, { name }, { uid: metadata.uid ?? '' });
}

describe('"The Lease object will be created automatically" (KEP-1411 > Proposal)', () => {
  test('with its node, free, recreated if it is removed before, and removed with the node', async () => {
    const node = await c.silentNodeNamed('n');
    const lease = await owned(node);
    expect(lease.spec).toEqual({});
    await deleted(lease);
    expect((await owned(node)).metadata.uid).not.toBe(lease.metadata.uid);
    await nodeDeleted(node);
    await gone(node);
  });

  test('again for a new Node of the same name, without the previous holder', async () => {
    const node = await c.silentNodeNamed('n');
    await owned(node);
    await held(node, { holderIdentity: 'kubeadm: disk fails' });
    await nodeDeleted(node);
    await c.admin.create<KubeObject>(resources.nodes, { metadata: { name: node } });
    expect((await owned(node)).spec).toEqual({});
  });

  test('and a Lease that a user created keeps its spec, and is deleted with its node', async () => {
    const node = c.named('by-user');
    const spec = { holderIdentity: 'kubeadm: jane replaces the disk' };
    await written(node, spec);
    const orphan = await written(c.named('no-node'), spec);
    await c.admin.create<KubeObject>(resources.nodes, { metadata: { name: node } });
    expect((await owned(node)).spec).toEqual(spec);
    await nodeDeleted(node);
    await gone(node);
    const { name } = orphan.metadata;
    await held(name, { holderIdentity: 'kubeadm: joe' });
    await eventually('the informer to have the change', () =>
      expect(c.cluster.leases.get(`${namespace}/${name}`)?.spec.holderIdentity).toBe('kubeadm: joe'),
    );
    expect(
      lines('Lease without a node was ignored').filter(({ fields }) => fields?.['lease'] === name),
    ).toHaveLength(1);
    expect((await c.nodeLeaseOf(name))?.metadata.ownerReferences).toBeUndefined();
  });

  test('regardless of invalid Leases of other nodes', async () => {
    const invalid: Lease['spec'][] = [
      {
        holderIdentity: '../..',
        leaseDurationSeconds: 2_147_483_647,
        renewTime: '9999-12-31T23:59:59.999999Z',
      },
      { holderIdentity: 'a\nb"{}\\', renewTime: '0001-01-01T00:00:00.000000Z', leaseDurationSeconds: 1 },
      { holderIdentity: ' '.repeat(5_000) },
      { leaseDurationSeconds: 1, leaseTransitions: 2_147_483_647 },
    ];
    for (const spec of invalid) {
      const node = await c.silentNodeNamed('invalid');
      await owned(node);
      await held(node, spec);
    }
    await owned(await c.silentNodeNamed('after'));
    expect(lines('Reconciliation failed, retrying')).toEqual([]);
    expect(lines('Change handler failed')).toEqual([]);
  });
});

describe('"Leases may get abandoned from time to time" (KEP-1411 > Risks and Mitigations)', () => {
  /** Returns the types, counts and messages of the Events on the node. */
  async function warnings(node: string): Promise<string[]> {
    const fieldSelector = `involvedObject.name=${node},reason=NodeLeaseAbandoned`;
    const { items } = await c.admin.list(resources.events, { namespace: 'default', fieldSelector });
    return items.map(({ type, count, message }) => `${type} ${count}: ${message}`);
  }

  test('one Event on the node reports its expiry, once', async () => {
    const node = await c.silentNodeNamed('n');
    await owned(node);
    const renewTime = secondsAgo(0);
    await held(node, { holderIdentity: 'snapshots', leaseDurationSeconds: 1, renewTime });
    const first = await eventually('an Event', async () => {
      const found = await warnings(node);
      expect(found).toHaveLength(1);
      return found;
    });
    expect(first[0]).toMatch(/^Warning 1: "snapshots" stopped renewing the maintenance Lease/);
    const labels = { changed: 'true' };
    const { metadata } = await c.admin.mergePatch(
      resources.leases,
      { namespace, name: node },
      { metadata: { labels } },
    );
    const { resourceVersion } = metadata;
    await eventually('the informer to have the change', () =>
      expect(c.cluster.leases.get(`${namespace}/${node}`)?.metadata.resourceVersion).toBe(resourceVersion),
    );
    // A repeated Event would be recorded before the one for the next problem.
    await held(node, { holderIdentity: 'jane', renewTime: null } as unknown as Lease['spec']);
    await eventually('another Event', async () => expect(await warnings(node)).toHaveLength(2));
    expect(await warnings(node)).toContain(first[0]);
  });

  test('metrics report them, without those of administrators', async () => {
    const [abandoned, administered] = [await c.silentNodeNamed('n'), await c.silentNodeNamed('n')];
    await Promise.all([owned(abandoned), owned(administered)]);
    const renewTime = secondsAgo(7_200);
    await held(abandoned, { holderIdentity: 'snap"shots', leaseDurationSeconds: 86_400, renewTime });
    const acquireTime = '2026-01-01T00:00:00.000000Z';
    await held(administered, { holderIdentity: 'kubeadm: jane', acquireTime });
    const metrics = createMetrics();
    metrics.observe(c.cluster);
    const samples = await eventually('the metrics', async () => {
      const text = await metrics.scrape();
      expect(text).toContain(`{node="${administered}",holder="kubeadm: jane"} 1\n`);
      expect(text).toContain(`{node="${abandoned}",holder="snap\\"shots",reason="NotRenewedForAnHour"} 1\n`);
      expect(text).toMatch(/^node_maintenance_node_leases\{state="Missing"\} \d+$/m);
      return text.split('\n').filter((line) => line.includes(abandoned) || line.includes(administered));
    });
    const of = (node: string) => `node="${node}",holder=`;
    expect(samples.toSorted()).toEqual([
      `node_maintenance_node_lease_abandoned{${of(abandoned)}"snap\\"shots",reason="NotRenewedForAnHour"} 1`,
      `node_maintenance_node_lease_acquired_timestamp_seconds{${of(administered)}"kubeadm: jane"} 1767225600`,
      `node_maintenance_node_lease_held_by_administrator{${of(administered)}"kubeadm: jane"} 1`,
      `node_maintenance_node_lease_renewed_timestamp_seconds{${of(abandoned)}"snap\\"shots"} ${Date.parse(renewTime) / 1_000}`,
    ]);
    expect(await warnings(administered)).toEqual([]);
  });
});

const applyPermissions = () =>
  succeeds(
    kubectlOf(sandbox)([
      'apply',
      '--server-side',
      '--force-conflicts',
      '-f',
      'deploy/rbac/worker.yaml',
      '-f',
      'deploy/user-roles.yaml',
    ]),
  );

describe('the namespace "should be created automatically" (KEP-1411 > Proposal)', () => {
  test('also when it was deleted; the missing permissions are logged once, with the remedy', async () => {
    const node = await c.silentNodeNamed('n');
    await owned(node);
    const found = await c.admin.get(resources.namespaces, { name: namespace });
    const { uid = '' } = found?.metadata ?? {};
    await c.admin.delete(resources.namespaces, { name: namespace }, { uid });
    await eventually('another namespace', async () => {
      const now = await c.admin.get(resources.namespaces, { name: namespace });
      expect(now?.metadata.uid ?? uid).not.toBe(uid);
    });
    const rejected = await eventually('the rejection to be logged', () => {
      const [line] = lines('Node Leases could not be created');
      expect(line).toBeDefined();
      return line;
    });
    expect(rejected).toMatchObject({
      level: 'warn',
      fields: { error: expect.stringContaining('forbidden'), remedy: expect.stringContaining('--install') },
    });
    // Further rejections are not logged.
    const another = await c.silentNodeNamed('n');
    const before = c.requests.count('create leases.coordination.k8s.io');
    await eventually('another rejection', () =>
      expect(c.requests.count('create leases.coordination.k8s.io')).toBeGreaterThan(before),
    );
    await applyPermissions();
    await owned(node);
    await owned(another);
    expect(lines('Node Leases could not be created')).toHaveLength(1);
    expect(lines('Node Leases could be created again')).toHaveLength(1);
    expect(lines('Reconciliation failed, retrying')).toEqual([]);
  });

  test('and the missing permission to list Leases is logged with the remedy, until it is granted', async () => {
    const kubectl = kubectlOf(sandbox);
    const binding = ['rolebinding', '-n', namespace, 'node-maintenance-worker'];
    await succeeds(kubectl(['delete', ...binding]));
    const ownLog = recordedLog();
    const cluster = asLeader(watchCluster({ kube: c.cluster.kube, log: ownLog }));
    const end = new AbortController();
    cluster.start(end.signal);
    await cluster.synced(end.signal);
    const controller = runNodeLeasesController({ cluster, log: ownLog, timing }, end.signal);
    const message = 'Node Leases could not be listed';
    await eventually('the warning to be logged', () =>
      expect(ownLog.lines).toContainEqual({
        level: 'warn',
        message,
        fields: {
          error: expect.stringContaining('forbidden'),
          remedy: expect.stringContaining('--install'),
        },
      }),
    );
    await applyPermissions();
    await cluster.leases.synced(end.signal);
    end.abort();
    await controller;
    expect(ownLog.lines.filter((line) => line.message === message)).toHaveLength(1);
  });

  test('and is the only namespace that the worker may create', async () => {
    const created = c.cluster.kube.create(resources.namespaces, { metadata: { name: c.named('another') } });
    await expect(created).rejects.toThrow('the worker may only create namespace kube-node-maintenance');
    const labels = { 'pod-security.kubernetes.io/enforce': 'privileged' };
    const labelled = c.cluster.kube.create(resources.namespaces, { metadata: { name: namespace, labels } });
    await expect(labelled).rejects.toThrow('the worker may only set label app.kubernetes.io/part-of');
  });
});
