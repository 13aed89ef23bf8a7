import type { KubeObject, Lease } from '../../api/core.ts';
import { NODE_LEASE_NAMESPACE as namespace } from '../../api/names.ts';
import { runAbandonedLeasesController } from '../../controllers/abandonedLeases.ts';
import { runNodeLeasesController } from '../../controllers/nodeLeases.ts';
import { watchCluster } from '../../kube/cluster.ts';
import { EventRecorder } from '../../kube/events.ts';
import { microTime } from '../../kube/leaseRecord.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { createMetrics } from '../../worker/metrics.ts';
import { serve } from '../../worker/http.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { asLeader, testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { recordedLog } from '../kube/fixtures.ts';

let sandbox: Sandbox;
let c: TestCluster;
const log = recordedLog();
const stop = new AbortController();
let running: Promise<unknown>;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'leased' });
  const { cluster } = c;
  const events = new EventRecorder({ kube: cluster.kube, component: 'node-maintenance', log });
  running = Promise.all([
    runNodeLeasesController({ cluster, log }, stop.signal),
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
    const [lease, { metadata }] = await Promise.all([c.leaseOf(node), c.node(node)]);
    const { name, uid } = metadata;
    expect(lease?.metadata.ownerReferences).toEqual([{ apiVersion: 'v1', kind: 'Node', name, uid }]);
    return lease as Lease;
  });
}

const gone = (name: string) =>
  eventually(`Lease ${name} to be gone`, async () => expect(await c.leaseOf(name)).toBeUndefined());

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

  test('anew for a node of the same name, without the holder of the former one', async () => {
    const node = await c.silentNodeNamed('n');
    await owned(node);
    await held(node, { holderIdentity: 'kubeadm: disk fails' });
    await nodeDeleted(node);
    await c.admin.create<KubeObject>(resources.nodes, { metadata: { name: node } });
    expect((await owned(node)).spec).toEqual({});
  });

  test('and one that was written by hand keeps what it says, and goes with its node nevertheless', async () => {
    const node = c.named('by-hand');
    const spec = { holderIdentity: 'kubeadm: jane replaces the disk' };
    await written(node, spec);
    const stranger = await written(c.named('no-node'), spec);
    await c.admin.create<KubeObject>(resources.nodes, { metadata: { name: node } });
    expect((await owned(node)).spec).toEqual(spec);
    await nodeDeleted(node);
    await gone(node);
    const { name } = stranger.metadata;
    await held(name, { holderIdentity: 'kubeadm: joe' });
    await eventually('the stranger to be seen', () =>
      expect(c.cluster.leases.get(`${namespace}/${name}`)?.spec.holderIdentity).toBe('kubeadm: joe'),
    );
    expect(
      lines('Lease of no node was left alone').filter(({ fields }) => fields?.['lease'] === name),
    ).toHaveLength(1);
    expect((await c.leaseOf(name))?.metadata.ownerReferences).toBeUndefined();
  });

  test('whatever other Leases say', async () => {
    const nonsense: Lease['spec'][] = [
      {
        holderIdentity: '../..',
        leaseDurationSeconds: 2_147_483_647,
        renewTime: '9999-12-31T23:59:59.999999Z',
      },
      { holderIdentity: 'a\nb"{}\\', renewTime: '0001-01-01T00:00:00.000000Z', leaseDurationSeconds: 1 },
      { holderIdentity: ' '.repeat(5_000) },
      { leaseDurationSeconds: 1, leaseTransitions: 2_147_483_647 },
    ];
    for (const spec of nonsense) {
      const node = await c.silentNodeNamed('nonsense');
      await owned(node);
      await held(node, spec);
    }
    await owned(await c.silentNodeNamed('after'));
    expect(lines('Reconciliation failed, trying again')).toEqual([]);
    expect(lines('Handler of a change failed')).toEqual([]);
  });
});

describe('"Leases may get abandoned from time to time" (KEP-1411 > Risks and Mitigations)', () => {
  /** The counts and the messages of the Events on the node. */
  async function warnings(node: string): Promise<string[]> {
    const fieldSelector = `involvedObject.name=${node},reason=NodeLeaseAbandoned`;
    const { items } = await c.admin.list(resources.events, { namespace: 'default', fieldSelector });
    return items.map(({ type, count, message }) => `${type} ${count}: ${message}`);
  }

  test('one Event on the node tells when its time has run out, by itself and once', async () => {
    const node = await c.silentNodeNamed('n');
    await owned(node);
    const renewTime = secondsAgo(0);
    await held(node, { holderIdentity: 'snapshots', leaseDurationSeconds: 1, renewTime });
    const first = await eventually('an Event', async () => {
      const seen = await warnings(node);
      expect(seen).toHaveLength(1);
      return seen;
    });
    expect(first[0]).toMatch(/^Warning 1: "snapshots" stopped renewing the maintenance Lease/);
    const labels = { seen: 'again' };
    const { metadata } = await c.admin.mergePatch(
      resources.leases,
      { namespace, name: node },
      { metadata: { labels } },
    );
    const { resourceVersion } = metadata;
    await eventually('the change to be seen', () =>
      expect(c.cluster.leases.get(`${namespace}/${node}`)?.metadata.resourceVersion).toBe(resourceVersion),
    );
    // What is told later about another Lease comes after what would be told again.
    await held(node, { holderIdentity: 'jane', renewTime: null } as unknown as Lease['spec']);
    await eventually('another Event', async () => expect(await warnings(node)).toHaveLength(2));
    expect(await warnings(node)).toContain(first[0]);
  });

  test('metrics count them, and an administrator is none of them', async () => {
    const [abandoned, administered] = [await c.silentNodeNamed('n'), await c.silentNodeNamed('n')];
    await Promise.all([owned(abandoned), owned(administered)]);
    const renewTime = secondsAgo(7_200);
    await held(abandoned, { holderIdentity: 'snap"shots', leaseDurationSeconds: 86_400, renewTime });
    const acquireTime = '2026-01-01T00:00:00.000000Z';
    await held(administered, { holderIdentity: 'kubeadm: jane', acquireTime });
    const metrics = createMetrics();
    metrics.observe(c.cluster);
    const sdk = await serve(
      { '/metrics': () => ({ status: 200, type: 'text/plain', body: '' }) },
      { number: 0, named: false },
      '',
    );
    const seen = await eventually('the metrics to tell', async () => {
      const text = await metrics.scrape(`127.0.0.1:${sdk.port}`);
      expect(text).toContain(`{node="${administered}",holder="kubeadm: jane"} 1\n`);
      expect(text).toContain(`{node="${abandoned}",holder="snap\\"shots",reason="NotRenewedForAnHour"} 1\n`);
      expect(text).toMatch(/^node_maintenance_node_leases\{state="Missing"\} \d+$/m);
      return text.split('\n').filter((line) => line.includes(abandoned) || line.includes(administered));
    });
    sdk.server.close();
    const of = (node: string) => `node="${node}",holder=`;
    expect(seen.toSorted()).toEqual([
      `node_maintenance_node_lease_abandoned{${of(abandoned)}"snap\\"shots",reason="NotRenewedForAnHour"} 1`,
      `node_maintenance_node_lease_acquired_timestamp_seconds{${of(administered)}"kubeadm: jane"} 1767225600`,
      `node_maintenance_node_lease_held_by_administrator{${of(administered)}"kubeadm: jane"} 1`,
      `node_maintenance_node_lease_renewed_timestamp_seconds{${of(abandoned)}"snap\\"shots"} ${Date.parse(renewTime) / 1_000}`,
    ]);
    expect(await warnings(administered)).toEqual([]);
  });
});

const rightsApplied = () =>
  succeeds(
    kubectlOf(sandbox)([
      'apply',
      '--server-side',
      '--force-conflicts',
      '-f',
      'deploy/worker-rbac.yaml',
      '-f',
      'deploy/user-roles.yaml',
    ]),
  );

describe('the namespace "should be created automatically" (KEP-1411 > Proposal)', () => {
  test('also when somebody deletes it; the rights that went with it are told once, with the remedy', async () => {
    const node = await c.silentNodeNamed('n');
    await owned(node);
    const found = await c.admin.get(resources.namespaces, { name: namespace });
    const { uid = '' } = found?.metadata ?? {};
    await c.admin.delete(resources.namespaces, { name: namespace }, { uid });
    await eventually('another namespace', async () => {
      const now = await c.admin.get(resources.namespaces, { name: namespace });
      expect(now?.metadata.uid ?? uid).not.toBe(uid);
    });
    const refused = await eventually('the refusal to be told', () => {
      const [line] = lines('Leases of nodes cannot be kept');
      expect(line).toBeDefined();
      return line;
    });
    expect(refused).toMatchObject({
      level: 'warn',
      fields: { error: expect.stringContaining('forbidden'), remedy: expect.stringContaining('--install') },
    });
    // There is more to refuse, and no more to tell.
    const another = await c.silentNodeNamed('n');
    const before = c.requests.count('create leases.coordination.k8s.io');
    await eventually('another refusal', () =>
      expect(c.requests.count('create leases.coordination.k8s.io')).toBeGreaterThan(before),
    );
    await rightsApplied();
    await owned(node);
    await owned(another);
    expect(lines('Leases of nodes cannot be kept')).toHaveLength(1);
    expect(lines('Leases of nodes are kept again')).toHaveLength(1);
    expect(lines('Reconciliation failed, trying again')).toEqual([]);
  });

  test('and who may not see the Leases in it says so with the remedy, and begins when it may', async () => {
    const kubectl = kubectlOf(sandbox);
    const binding = ['rolebinding', '-n', namespace, 'node-maintenance-worker'];
    await succeeds(kubectl(['delete', ...binding]));
    const told = recordedLog();
    const cluster = asLeader(watchCluster({ kube: c.cluster.kube, log: told }));
    const end = new AbortController();
    cluster.start(end.signal);
    await cluster.synced(end.signal);
    const controller = runNodeLeasesController({ cluster, log: told }, end.signal);
    const unseen = 'Leases of nodes cannot be seen';
    await eventually('it to be told', () =>
      expect(told.lines).toContainEqual({
        level: 'warn',
        message: unseen,
        fields: {
          error: expect.stringContaining('forbidden'),
          remedy: expect.stringContaining('--install'),
        },
      }),
    );
    await rightsApplied();
    await cluster.leases.synced(end.signal);
    end.abort();
    await controller;
    expect(told.lines.filter(({ message }) => message === unseen)).toHaveLength(1);
  });

  test("and is the only one that the worker's rights can make", async () => {
    const made = c.cluster.kube.create(resources.namespaces, { metadata: { name: c.named('another') } });
    await expect(made).rejects.toThrow('the worker makes no namespace but kube-node-maintenance');
    const labels = { 'pod-security.kubernetes.io/enforce': 'privileged' };
    const dressed = c.cluster.kube.create(resources.namespaces, { metadata: { name: namespace, labels } });
    await expect(dressed).rejects.toThrow('no label but app.kubernetes.io/part-of');
  });
});
