import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { KubeObject, Pod, Taint } from '../../../api/core.ts';
import {
  NODE_EXISTS_LABEL,
  NODE_READINESS,
  READINESS_CONDITION,
  READINESS_TAINT,
} from '../../../api/names.ts';
import type { NodeReadiness } from '../../../api/nodeReadiness.ts';
import { runNodeReadinessController } from '../../../controllers/readiness/nodeReadiness.ts';
import { runReadinessPoliciesController } from '../../../controllers/readiness/readinessPolicies.ts';
import type { FencedCluster } from '../../../kube/cluster.ts';
import { EventRecorder } from '../../../kube/events.ts';
import { Informer } from '../../../kube/informer.ts';
import { type Resource, resources } from '../../../kube/resources.ts';
import { trimNode } from '../../../kube/transform.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { silentLog, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { gate, gatePermissions, ofPool, readinessPolicy, ReadinessPolicies } from '../../kit/readiness.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let policies: ReadinessPolicies;
let stop: AbortController;
let running: Promise<unknown>;
/** Nodes, with true if they were created with the taint, which the first version that the watch returned shows. */
const wasCreatedTainted = new Map<string, boolean>();
/** A node that is no longer new when it gets gates. */
let oldNode: string;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'ready' });
  policies = new ReadinessPolicies(c.admin);
  c.cluster.nodes.subscribe(({ type, object: { metadata, spec } }) => {
    const isTainted = spec.taints?.some(({ key }) => key === READINESS_TAINT.key) === true;
    if (type === 'Added') wasCreatedTainted.set(metadata.name, isTainted);
  });
  startControllers();
  oldNode = await c.nodeNamed('old');
});

afterAll(async () => {
  await policies?.allDropped();
  await stopControllers();
  await c?.close();
  await releaseSandbox(sandbox);
});

/** Grace and damping that do not end, so that a test can observe what holds until they do. */
const endlessTiming = { graceMs: 3_600_000, dampingMs: 3_600_000 };
const shortTiming = { graceMs: 500, dampingMs: 500 };

function startControllers(overrides: Partial<FencedCluster> = {}, timing = endlessTiming): void {
  stop = new AbortController();
  const cluster = { ...c.cluster, ...overrides };
  const events = new EventRecorder({ kube: cluster.kube, component: 'node-maintenance', log: silentLog });
  const permissions = gatePermissions(cluster.kube);
  running = Promise.all([
    runNodeReadinessController({ cluster, permissions, timing, events, log: silentLog }, stop.signal),
    runReadinessPoliciesController({ cluster, permissions, log: silentLog }, stop.signal),
  ]);
}

async function stopControllers(): Promise<void> {
  stop?.abort();
  await running;
}

/** The next controllers resume from the status. */
async function restartControllers(timing: typeof endlessTiming): Promise<void> {
  await stopControllers();
  startControllers({}, timing);
}

/** Returns an informer that receives no further changes. */
async function staleNodes(): Promise<FencedCluster['nodes']> {
  const { kube } = c.cluster;
  const nodes = new Informer({ kube, resource: resources.nodes, transform: trimNode, log: silentLog });
  const watching = new AbortController();
  nodes.start(watching.signal);
  await nodes.synced();
  watching.abort();
  return nodes;
}

/** Creates a policy for the nodes of a pool, with one gate per `app` label, and waits until it is in effect. */
async function policyFor(pool: string, ...apps: string[]): Promise<string> {
  const gates = apps.map((name) => gate({ name, namespace: c.namespace }));
  const { metadata } = await policies.applied(readinessPolicy(c.named('nrp'), ofPool(pool), gates), { pool });
  return metadata.name;
}

const isTainted = async (node: string) =>
  (await c.node(node)).spec.taints?.some(({ key }) => key === READINESS_TAINT.key) === true;

/** A failure shows the status and the pods of the node. */
const eventuallyTainted = (node: string, want: boolean) =>
  eventually(`node ${node} ${want ? 'to have' : 'to lose'} the taint`, async () => {
    const pods = c.podsOf(node).map(({ metadata, status }) => `${metadata.name} ${status.ready}`);
    const status = (await readinessOf(node))?.status;
    expect({ isTainted: await isTainted(node), status, pods }).toMatchObject({ isTainted: want });
  });

/** Returns the status: `gates`, blockedBy and the Ready condition in the first line, then each gate with its reason. */
async function statusOf(node: string): Promise<string[]> {
  const { status } = (await c.admin.get(resources.nodeReadinesses, { name: node })) as NodeReadiness;
  const [ready] = status?.conditions ?? [];
  return [
    `${status?.gates} ${status?.blockedBy} ${ready?.status} ${ready?.reason}`,
    ...(status?.readiness ?? []).map(
      ({ name, ready: isReady, reason }) => `${name} ${isReady} ${reason ?? ''}`,
    ),
  ].map((line) => line.trim());
}

/** Waits until a node created with this name would be tainted. */
const eventuallyReserved = (node: string) =>
  eventually('the apiserver to know the gate', async () =>
    expect(await policies.taintedOf([{ metadata: { name: node } }])).toEqual([true]),
  );

const eventuallyStatus = (node: string, want: string[]) =>
  eventually(`the NodeReadiness of ${node}`, async () => expect(await statusOf(node)).toEqual(want));

const readinessOf = (name: string) => c.admin.get(resources.nodeReadinesses, { name });

async function lossesOf(node: string): Promise<number | undefined> {
  return (await readinessOf(node))?.status?.losses;
}

async function conditionOf(node: string): Promise<string | undefined> {
  const conditions = (await c.node(node)).status?.conditions ?? [];
  const found = conditions.find(({ type }) => type === READINESS_CONDITION);
  return found && `${found.status} ${found.reason}: ${found.message}`;
}

/** Creates a DaemonSet on the nodes of a pool that tolerates every taint. */
async function daemonSet(app: string, pool: string): Promise<KubeObject> {
  const labels = { app };
  const object = {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name: c.named(app), namespace: c.namespace },
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          nodeSelector: { pool },
          tolerations: [{ operator: 'Exists' }],
          terminationGracePeriodSeconds: 0,
          containers: [{ name: 'main', image: 'fake' }],
        },
      },
    },
  };
  const created = await c.admin.create(resources.daemonSets as Resource, object as KubeObject);
  return { ...created, kind: 'DaemonSet' };
}

async function appPod(pool: string): Promise<string> {
  const name = c.named('app');
  const containers = [{ name: 'main', image: 'fake' }];
  await c.admin.create(
    resources.pods as Resource,
    {
      metadata: { name, namespace: c.namespace },
      spec: { nodeSelector: { pool }, containers, terminationGracePeriodSeconds: 0 },
    } as KubeObject,
  );
  return name;
}

/** Returns why the scheduler does not schedule a pod. */
async function unschedulableMessage(name: string): Promise<string | undefined> {
  const pod = await c.admin.get(resources.pods, { namespace: c.namespace, name });
  return pod?.status?.conditions?.find(({ type, status }) => type === 'PodScheduled' && status === 'False')
    ?.message;
}

const podNamed = (name: string) => c.cluster.pods.get(`${c.namespace}/${name}`);

/** Sets the Ready condition of a pod, as a kubelet does after a probe. */
async function setReady(pod: Pod, ready: boolean): Promise<void> {
  const { namespace = '', name } = pod.metadata;
  const status = { conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }] };
  await c.admin.mergePatch(resources.pods, { namespace, name }, { status }, { subresource: 'status' });
}

function gatePodOn(node: string, app: string): Promise<Pod> {
  return eventually(`a Ready pod of ${app} on ${node}`, () => {
    const found = c.podsOf(node).find(({ metadata }) => metadata.labels?.['app'] === app);
    expect(found?.status.ready).toBe(true);
    return found as Pod;
  });
}

describe('a new node with gates', () => {
  test('is created with the taint, and accepts pods when all blocking gates are ready', async () => {
    const pool = c.named('pool');
    await policyFor(pool, 'cni', 'csi');
    const app = await appPod(pool);
    const node = await c.nodeNamed('new', { pool });
    expect(wasCreatedTainted.get(node)).toBe(true);
    await eventuallyStatus(node, [
      '0/2 cni, csi False GatesNotReady',
      'cni false NoPods',
      'csi false NoPods',
    ]);
    await daemonSet('cni', pool);
    await eventuallyStatus(node, ['1/2 csi False GatesNotReady', 'cni true', 'csi false NoPods']);
    await eventually('the condition of the node', async () =>
      expect(await conditionOf(node)).toBe(
        `False GatesNotReady: gate csi: no pod on the node in namespace ${c.namespace} has app=csi`,
      ),
    );
    await eventually('the scheduler to report the taint', async () =>
      expect(await unschedulableMessage(app)).toContain('untolerated taint'),
    );
    expect(podNamed(app)?.spec.nodeName).toBeUndefined();
    await daemonSet('csi', pool);
    await eventually('the pod to be scheduled', () => {
      expect(podNamed(app)?.spec.nodeName).toBe(node);
    });
    expect(await isTainted(node)).toBe(false);
    await eventuallyStatus(node, ['2/2  True GatesReady', 'cni true', 'csi true']);
    await eventually('the condition of the node', async () =>
      expect(await conditionOf(node)).toBe('True GatesReady: all blocking gates are ready'),
    );
  });

  test('has gates owned by the field manager of each policy, which are removed with the policy or the label', async () => {
    const pool = c.named('pool');
    const [first, second] = [await policyFor(pool, 'cni'), await policyFor(pool, 'cni', 'dns')];
    const node = await c.nodeNamed('shared', { pool });
    const owners = () =>
      Object.fromEntries(
        [...(c.cluster.readinesses.get(node)?.gateOwners ?? [])].map(([name, managers]) => [
          name,
          [...managers.keys()].toSorted(),
        ]),
      );
    const manager = (name: string) => `node-readiness-policy/${name}`;
    await eventually('the gates of both', () =>
      expect(owners()).toEqual({ cni: [manager(first), manager(second)].toSorted(), dns: [manager(second)] }),
    );
    await policies.dropped(second);
    await eventually('the gates of the first', () => expect(owners()).toEqual({ cni: [manager(first)] }));
    await c.patched(resources.nodes, { name: node }, { metadata: { labels: { pool: null } } });
    await eventually('no gates', () => expect(owners()).toEqual({}));
    await eventuallyTainted(node, false);
    await eventually('no condition', async () => expect(await conditionOf(node)).toBeUndefined());
  });
});

test('a concurrent change of taints is not lost, and a concurrent change of the status does not delay the removal of the taint', async () => {
  const pool = c.named('pool');
  await policyFor(pool, 'cni');
  const node = await c.nodeNamed('busy', { pool });
  await eventuallyStatus(node, ['0/1 cni False GatesNotReady', 'cni false NoPods']);
  await stopControllers();
  const stale = await staleNodes();
  const taintsOf = async () => (await c.node(node)).spec.taints ?? [];
  const patched = (taints: Taint[]) => c.patched(resources.nodes, { name: node }, { spec: { taints } });
  const before = await taintsOf();
  const theirs: Taint = { key: 'example.com/theirs', effect: 'NoSchedule' };
  await patched([...before, theirs]);
  await daemonSet('cni', pool);
  await gatePodOn(node, 'cni');
  c.requests.clear();
  startControllers({ nodes: stale });
  await eventually('the controller to retry', () =>
    expect(c.requests.count('patch nodes')).toBeGreaterThan(1),
  );
  expect(await taintsOf()).toEqual([...before, theirs]);
  const { resourceVersion } = await patched(before).then(({ metadata }) => metadata);
  expect(resourceVersion).not.toBe(stale.get(node)?.metadata.resourceVersion);
  await eventuallyTainted(node, false);
  await stopControllers();
  startControllers();
});

describe('a node that was ready', () => {
  afterEach(() => restartControllers(endlessTiming));

  test('accepts no new pods when a gate is lost for longer than the grace; running pods stay', async () => {
    const pool = c.named('pool');
    await policyFor(pool, 'cni');
    const node = await c.nodeNamed('lossy', { pool });
    await daemonSet('cni', pool);
    await eventuallyTainted(node, false);
    const app = await appPod(pool);
    await eventually('the pod to run', () => expect(podNamed(app)?.status.ready).toBe(true));
    const pod = await gatePodOn(node, 'cni');
    await setReady(pod, false);
    await eventuallyStatus(node, ['0/1 cni False GatesLost', 'cni false PodsNotReady']);
    expect(await isTainted(node)).toBe(false);
    await restartControllers(shortTiming);
    await eventuallyTainted(node, true);
    const later = await appPod(pool);
    await setReady(pod, true);
    await eventually('the pod to be scheduled', () => expect(podNamed(later)?.spec.nodeName).toBe(node));
    expect(podNamed(app)?.metadata.deletionTimestamp).toBeUndefined();
    const events = (await c.eventsAbout(await c.node(node))).map((event) => event.split(':')[0]);
    expect(events).toContain('ReadinessTaintAdded');
  });

  test('reports flapping, and keeps the taint longer', async () => {
    const pool = c.named('pool');
    await policyFor(pool, 'cni');
    const node = await c.nodeNamed('flapping', { pool });
    await daemonSet('cni', pool);
    await eventuallyTainted(node, false);
    const pod = await gatePodOn(node, 'cni');
    for (const ready of [false, true, false]) {
      await setReady(pod, ready);
      await eventually('the status of the gate to change', () =>
        expect(c.cluster.readinesses.get(node)?.status?.readiness[0]?.ready).toBe(ready),
      );
    }
    await restartControllers({ ...endlessTiming, graceMs: shortTiming.graceMs });
    await eventuallyTainted(node, true);
    await setReady(pod, true);
    await eventually('the flapping to be reported', async () =>
      expect(await statusOf(node)).toEqual(['1/1  False Flapping', 'cni true']),
    );
    expect(await lossesOf(node)).toBe(2);
    expect(await isTainted(node)).toBe(true);
    await restartControllers(shortTiming);
    await eventuallyTainted(node, false);
  });

  test('is tainted at once while a maintenance holds it', async () => {
    const pool = c.named('pool');
    await policyFor(pool, 'cni');
    const [held, added] = [await c.nodeNamed('held', { pool }), await c.nodeNamed('added', { pool })];
    await daemonSet('cni', pool);
    for (const node of [held, added]) await eventuallyTainted(node, false);
    const maintenance = c.maintenance({ nodes: [held], stage: 'Cordon' });
    await c.applied(maintenance);
    for (const node of [held, added]) await setReady(await gatePodOn(node, 'cni'), false);
    await eventuallyTainted(held, true);
    await eventuallyStatus(held, ['0/1 cni False GatesNotReady', 'cni false PodsNotReady']);
    expect(await lossesOf(held)).toBe(0);
    await eventuallyStatus(added, ['0/1 cni False GatesLost', 'cni false PodsNotReady']);
    expect(await isTainted(added)).toBe(false);
    const { nodeSelector } = c.maintenance({ nodes: [held, added] }).spec;
    await c.patched(resources.nodeMaintenances, maintenance.metadata, { spec: { nodeSelector } });
    await eventuallyTainted(added, true);
  });

  test('keeps a taint that another field manager gave a value', async () => {
    const pool = c.named('pool');
    await policyFor(pool, 'cni');
    const node = await c.nodeNamed('foreign', { pool });
    const theirs: Taint = { ...READINESS_TAINT, value: 'theirs' };
    const ours = async () =>
      (await c.node(node)).spec.taints?.filter(({ key }) => key === READINESS_TAINT.key);
    await c.patched(resources.nodes, { name: node }, { spec: { taints: [theirs] } });
    await daemonSet('cni', pool);
    await eventuallyStatus(node, ['1/1  True GatesReady', 'cni true']);
    expect(await ours()).toEqual([theirs]);
    await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
    await setReady(await gatePodOn(node, 'cni'), false);
    await eventuallyStatus(node, ['0/1 cni False GatesNotReady', 'cni false PodsNotReady']);
    expect(await ours()).toEqual([theirs]);
    await c.patched(resources.nodes, { name: node }, { spec: { taints: null } });
    await eventually('its own taint', async () => expect(await ours()).toEqual([READINESS_TAINT]));
  });

  test('gets the grace for a new gate', async () => {
    const pool = c.named('pool');
    await policyFor(pool, 'cni');
    await eventually('the node to be no longer new', async () => {
      const { creationTimestamp = '' } = (await c.node(oldNode)).metadata;
      expect(c.cluster.kube.now().getTime() - Date.parse(creationTimestamp)).toBeGreaterThan(11_000);
    });
    await c.labelled(oldNode, { pool });
    await eventuallyStatus(oldNode, ['0/1 cni False GatesLost', 'cni false NoPods']);
    expect(await isTainted(oldNode)).toBe(false);
    await restartControllers(shortTiming);
    await eventuallyTainted(oldNode, true);
    expect(await lossesOf(oldNode)).toBe(0);
    await c.labelled(oldNode, { pool: null });
    await eventuallyTainted(oldNode, false);
  });
});

describe('a node with the name of a previous Node object', () => {
  const deleteNode = async (name: string) => c.deleted({ ...(await c.node(name)), kind: 'Node' });

  test('has its own NodeReadiness, even if the Node is deleted and created repeatedly', async () => {
    const pool = c.named('pool');
    await policyFor(pool, 'cni');
    const names = await Promise.all(['a', 'b', 'c'].map((name) => c.nodeNamed(name, { pool })));
    for (const name of names) {
      for (const _ of [1, 2, 3]) {
        await deleteNode(name);
        const metadata = { name, labels: { pool } };
        await c.admin.create<KubeObject>(resources.nodes as Resource, { metadata });
      }
      await deleteNode(name);
    }
    await sandbox.addNodes(names, { pool });
    for (const name of names) {
      const { uid } = (await c.node(name)).metadata;
      await eventually(`the NodeReadiness of ${name}`, async () =>
        expect((await readinessOf(name))?.metadata.ownerReferences?.map((owner) => owner.uid)).toEqual([uid]),
      );
      await eventuallyStatus(name, ['0/1 cni False GatesNotReady', 'cni false NoPods']);
      expect(await isTainted(name)).toBe(true);
    }
    await daemonSet('cni', pool);
    for (const name of names) await eventuallyTainted(name, false);
    await c.deleted({ ...(await c.node(names[0] ?? '')), kind: 'Node' });
    await eventually('no NodeReadiness', async () =>
      expect(await readinessOf(names[0] ?? '')).toBeUndefined(),
    );
  });

  test('keeps the gates that were reserved for it, even if an informer still returns the previous Node', async () => {
    const node = await c.nodeNamed('reserved');
    await eventuallyStatus(node, ['0/0  True GatesReady']);
    await stopControllers();
    const stale = await staleNodes();
    await c.deleted({ ...(await c.node(node)), kind: 'Node' });
    await eventually('its NodeReadiness to go', async () => expect(await readinessOf(node)).toBeUndefined());
    const { apiVersion, kind } = NODE_READINESS;
    const readinessGates = [gate({ name: 'routes', namespace: c.namespace })];
    const reservation = { apiVersion, kind, metadata: { name: node }, spec: { readinessGates } };
    await c.admin.apply(resources.nodeReadinesses, reservation, { fieldManager: 'provider' });
    c.requests.clear();
    startControllers({ nodes: stale });
    await eventually('the controller to read the node', () =>
      expect(c.requests.count('get nodes')).toBeGreaterThan(0),
    );
    await stopControllers();
    expect((await readinessOf(node))?.metadata.ownerReferences).toBeUndefined();
    startControllers();
    await eventuallyReserved(node);
    await sandbox.addNodes([node]);
    const { uid } = (await c.node(node)).metadata;
    await eventually('the reservation to be owned by the node', async () =>
      expect((await readinessOf(node))?.metadata.ownerReferences?.map((owner) => owner.uid)).toEqual([uid]),
    );
    expect((await readinessOf(node))?.metadata.labels).toEqual({ [NODE_EXISTS_LABEL]: 'true' });
    await eventuallyStatus(node, ['0/1 routes False GatesNotReady', 'routes false NoPods']);
    expect(await isTainted(node)).toBe(true);
  });
});

test('the NodeReadiness of a node has the label by which the apiserver leaves it out when other nodes are created', async () => {
  const node = await c.nodeNamed('labelled');
  const eventuallyLabelled = () =>
    eventually('the label', async () =>
      expect((await readinessOf(node))?.metadata.labels).toEqual({ [NODE_EXISTS_LABEL]: 'true' }),
    );
  await eventuallyLabelled();
  // As a release without the label has left it.
  const labels = { [NODE_EXISTS_LABEL]: null };
  await c.patched(resources.nodeReadinesses, { name: node }, { metadata: { labels } });
  await eventuallyLabelled();
});

test('a NodeReadiness without a Node loses the label: as a restored one, it reserves its gates for the next Node', async () => {
  const name = c.named('restored');
  const { apiVersion, kind } = NODE_READINESS;
  const metadata = { name, labels: { [NODE_EXISTS_LABEL]: 'true', team: 'shop' } };
  const readinessGates = [gate({ name: 'routes', namespace: c.namespace })];
  const restored = { apiVersion, kind, metadata, spec: { readinessGates } };
  await c.admin.apply(resources.nodeReadinesses, restored, { fieldManager: 'restore' });
  await eventually('the label to go', async () =>
    expect((await readinessOf(name))?.metadata.labels).toEqual({ team: 'shop' }),
  );
  await eventuallyReserved(name);
  await sandbox.addNodes([name]);
  await eventuallyStatus(name, ['0/1 routes False GatesNotReady', 'routes false NoPods']);
  expect(wasCreatedTainted.get(name)).toBe(true);
});

describe('a gate that another controller removes', () => {
  const script = fileURLToPath(new URL('../../../docs/examples/cloud-provider.sh', import.meta.url));
  /** Runs the example of docs/concepts/readiness-gates.md. */
  const provider = (...args: string[]) =>
    spawn(script, args, { env: { ...sandbox.env, HOME: sandbox.dir }, stdio: 'ignore', detached: true });

  test('created before its node taints the node on creation, until its owner removes the gate', async () => {
    const node = c.named('cloud');
    expect(await once(provider('reserve', node), 'exit')).toEqual([0, null]);
    await eventuallyReserved(node);
    await sandbox.addNodes([node], { pool: node });
    const app = await appPod(node);
    const controller = provider('run');
    try {
      await eventuallyStatus(node, [
        '0/1 cloud.example.com/routes False GatesNotReady',
        'cloud.example.com/routes false NoPods',
      ]);
      expect(wasCreatedTainted.get(node)).toBe(true);
      expect(podNamed(app)?.spec.nodeName).toBeUndefined();
      const annotations = { 'cloud.example.com/routes': 'ready' };
      await c.patched(resources.nodes, { name: node }, { metadata: { annotations } });
      await eventually('the pod to be scheduled', () => expect(podNamed(app)?.spec.nodeName).toBe(node));
    } finally {
      process.kill(-(controller.pid ?? 0), 'SIGKILL');
    }
  });

  test('is not written for a deleted node, and is reserved only after the previous Node is gone', async () => {
    const node = await c.nodeNamed('previous');
    await eventuallyStatus(node, ['0/0  True GatesReady']);
    const reserving = once(provider('reserve', node), 'exit');
    const annotations = { 'cloud.example.com/routes': 'ready' };
    const controller = provider('run');
    try {
      await c.patched(resources.nodes, { name: node }, { metadata: { annotations } });
      await c.deleted({ ...(await c.node(node)), kind: 'Node' });
      expect(await reserving).toEqual([0, null]);
      const reserved = await readinessOf(node);
      expect(reserved?.metadata.ownerReferences).toBeUndefined();
      expect(reserved?.spec.readinessGates.map(({ name }) => name)).toEqual(['cloud.example.com/routes']);
      await eventuallyReserved(node);
      await sandbox.addNodes([node]);
      await eventuallyStatus(node, [
        '0/1 cloud.example.com/routes False GatesNotReady',
        'cloud.example.com/routes false NoPods',
      ]);
      expect(wasCreatedTainted.get(node)).toBe(true);
      await c.patched(resources.nodes, { name: node }, { metadata: { annotations } });
      await eventuallyTainted(node, false);
      await c.deleted({ ...(await c.node(node)), kind: 'Node' });
      await eventually('its NodeReadiness to go', async () =>
        expect(await readinessOf(node)).toBeUndefined(),
      );
    } finally {
      process.kill(-(controller.pid ?? 0), 'SIGKILL');
    }
    expect(await readinessOf(node)).toBeUndefined();
  });
});

test('a node keeps its taint while no controller runs, and the next leader resumes from the status', async () => {
  const pool = c.named('pool');
  await policyFor(pool, 'cni');
  const flapped = await c.nodeNamed('leader', { pool });
  await daemonSet('cni', pool);
  await eventuallyTainted(flapped, false);
  const pod = await gatePodOn(flapped, 'cni');
  await setReady(pod, false);
  await eventuallyStatus(flapped, ['0/1 cni False GatesLost', 'cni false PodsNotReady']);
  await stopControllers();
  const node = await c.nodeNamed('leaderless', { pool });
  await gatePodOn(node, 'cni');
  expect(await isTainted(node)).toBe(true);
  startControllers({}, shortTiming);
  await eventuallyTainted(node, false);
  await eventuallyTainted(flapped, true);
  expect(await lossesOf(flapped)).toBe(1);
});
