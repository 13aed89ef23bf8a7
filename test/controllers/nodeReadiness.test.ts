import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { KubeObject, Pod } from '../../api/core.ts';
import { READINESS_CONDITION, READINESS_TAINT } from '../../api/names.ts';
import type { NodeReadiness } from '../../api/nodeReadiness.ts';
import { runNodeReadinessController } from '../../controllers/nodeReadiness.ts';
import { runReadinessPoliciesController } from '../../controllers/readinessPolicies.ts';
import { EventRecorder } from '../../kube/events.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { silentLog, testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { gate, ofPool, readinessPolicy, ReadinessPolicies } from '../kit/readiness.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let policies: ReadinessPolicies;
let stop: AbortController;
let running: Promise<unknown>;
/** Of each node, whether it had the taint in the very first version that a watch saw. */
const wasTainted = new Map<string, boolean>();

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'ready' });
  policies = new ReadinessPolicies(c.admin, sandbox);
  c.cluster.nodes.subscribe(({ type, object: { metadata, spec } }) => {
    const isTainted = spec.taints?.some(({ key }) => key === READINESS_TAINT.key) === true;
    if (type === 'Added') wasTainted.set(metadata.name, isTainted);
  });
  startControllers();
}, 180_000);

afterAll(async () => {
  await policies?.allDropped();
  await c?.close();
  await stopControllers();
  await releaseSandbox(sandbox);
}, 60_000);

const graceMs = 1_500;

function startControllers(): void {
  stop = new AbortController();
  const { cluster } = c;
  const events = new EventRecorder({ kube: cluster.kube, component: 'node-maintenance', log: silentLog });
  const patience = { graceMs };
  running = Promise.all([
    runNodeReadinessController({ cluster, patience, events, log: silentLog }, stop.signal),
    runReadinessPoliciesController({ cluster, log: silentLog }, stop.signal),
  ]);
}

async function stopControllers(): Promise<void> {
  stop?.abort();
  await running;
}

/** A policy in effect for the nodes of this pool, whose gates are the pods with these labels `app`. */
async function policyFor(pool: string, ...apps: string[]): Promise<string> {
  const gates = apps.map((name) => gate({ name, namespace: c.namespace }));
  const { metadata } = await policies.applied(readinessPolicy(c.named('nrp'), ofPool(pool), gates), { pool });
  return metadata.name;
}

const isTainted = async (node: string) =>
  (await c.node(node)).spec.taints?.some(({ key }) => key === READINESS_TAINT.key) === true;

const eventuallyTainted = (node: string, want: boolean) =>
  eventually(`node ${node} ${want ? 'to have' : 'to lose'} the taint`, async () =>
    expect(await isTainted(node)).toBe(want),
  );

/** `gates`, blockedBy and the reason of Ready; then each gate with its reason. */
async function shown(node: string): Promise<string[]> {
  const { status } = (await c.admin.get(resources.nodeReadinesses, { name: node })) as NodeReadiness;
  const [ready] = status?.conditions ?? [];
  return [
    `${status?.gates} ${status?.blockedBy} ${ready?.status} ${ready?.reason}`,
    ...(status?.readiness ?? []).map(
      ({ name, ready: isReady, reason }) => `${name} ${isReady} ${reason ?? ''}`,
    ),
  ].map((line) => line.trim());
}

const eventuallyShown = (node: string, want: string[]) =>
  eventually(`the NodeReadiness of ${node}`, async () => expect(await shown(node)).toEqual(want));

async function lossesOf(node: string): Promise<number | undefined> {
  return (await c.admin.get(resources.nodeReadinesses, { name: node }))?.status?.losses;
}

async function conditionOf(node: string): Promise<string | undefined> {
  const conditions = (await c.node(node)).status?.conditions ?? [];
  const found = conditions.find(({ type }) => type === READINESS_CONDITION);
  return found && `${found.status} ${found.reason}: ${found.message}`;
}

/** A workload of the pool: with every toleration if it is a DaemonSet, with none if it is a pod. */
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

const podNamed = (name: string) => c.cluster.pods.get(`${c.namespace}/${name}`);

/** What a kubelet does when a probe fails, or passes again. */
async function probed(pod: Pod, ready: boolean): Promise<void> {
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
  test('has the taint from its first version on, and takes pods when all that block are ready', async () => {
    const pool = c.named('pool');
    await policyFor(pool, 'cni', 'csi');
    const app = await appPod(pool);
    const node = await c.nodeNamed('new', { pool });
    expect(wasTainted.get(node)).toBe(true);
    await eventuallyShown(node, ['0/2 cni, csi False GatesNotReady', 'cni false NoPods', 'csi false NoPods']);
    await daemonSet('cni', pool);
    await eventuallyShown(node, ['1/2 csi False GatesNotReady', 'cni true', 'csi false NoPods']);
    await eventually('the condition of the node', async () =>
      expect(await conditionOf(node)).toBe(
        `False GatesNotReady: gate csi: no pod on the node in namespace ${c.namespace} has app=csi`,
      ),
    );
    expect(podNamed(app)?.spec.nodeName).toBeUndefined();
    await daemonSet('csi', pool);
    await eventually('the pod to land', () => {
      expect(podNamed(app)?.spec.nodeName).toBe(node);
    });
    expect(await isTainted(node)).toBe(false);
    await eventuallyShown(node, ['2/2  True GatesReady', 'cni true', 'csi true']);
    await eventually('the condition of the node', async () =>
      expect(await conditionOf(node)).toBe('True GatesReady: all gates that block are ready'),
    );
  });

  test('has its gates by the field manager of each policy, and they go with the policy or the label', async () => {
    const pool = c.named('pool');
    const [first, second] = [await policyFor(pool, 'cni'), await policyFor(pool, 'cni', 'dns')];
    const node = await c.nodeNamed('shared', { pool });
    const owners = () => c.cluster.readinesses.get(node)?.gateOwners;
    const own = (name: string) => `node-readiness-policy/${name}`;
    await eventually('the gates of both', () =>
      expect(owners()).toEqual({ cni: [own(first), own(second)].toSorted(), dns: [own(second)] }),
    );
    await policies.dropped(second);
    await eventually('the gates of the first', () => expect(owners()).toEqual({ cni: [own(first)] }));
    await c.patched(resources.nodes, { name: node }, { metadata: { labels: { pool: null } } });
    await eventually('no gates', () => expect(owners()).toEqual({}));
    await eventuallyTainted(node, false);
    await eventually('no condition', async () => expect(await conditionOf(node)).toBeUndefined());
  });
});

describe('a node that was ready', () => {
  test('takes no new pods when a gate is lost for longer than the grace; those that run stay', async () => {
    const pool = c.named('pool');
    await policyFor(pool, 'cni');
    await daemonSet('cni', pool);
    const node = await c.nodeNamed('lossy', { pool });
    await eventuallyTainted(node, false);
    const app = await appPod(pool);
    await eventually('the pod to run', () => expect(podNamed(app)?.status.ready).toBe(true));
    const pod = await gatePodOn(node, 'cni');
    await probed(pod, false);
    await eventuallyShown(node, ['0/1 cni False GatesLost', 'cni false PodsNotReady']);
    expect(await isTainted(node)).toBe(false);
    await eventuallyTainted(node, true);
    const later = await appPod(pool);
    await probed(pod, true);
    await eventually('the pod to land', () => expect(podNamed(later)?.spec.nodeName).toBe(node));
    expect(podNamed(app)?.metadata.deletionTimestamp).toBeUndefined();
    const events = (await c.eventsAbout(await c.node(node))).map((event) => event.split(':')[0]);
    expect(events).toContain('ReadinessGatesClosed');
  });

  test('flaps visibly, and waits longer each time', async () => {
    const pool = c.named('pool');
    await policyFor(pool, 'cni');
    await daemonSet('cni', pool);
    const node = await c.nodeNamed('flapping', { pool });
    await eventuallyTainted(node, false);
    const pod = await gatePodOn(node, 'cni');
    for (const ready of [false, true, false]) {
      await probed(pod, ready);
      await eventually('the flap to be seen', () =>
        expect(c.cluster.readinesses.get(node)?.status?.readiness[0]?.ready).toBe(ready),
      );
    }
    await eventuallyTainted(node, true);
    await probed(pod, true);
    await eventually('the flapping to be told', async () =>
      expect(await shown(node)).toEqual(['1/1  False Flapping', 'cni true']),
    );
    expect(await lossesOf(node)).toBe(2);
    expect(await isTainted(node)).toBe(true);
    await eventuallyTainted(node, false);
  });

  test('is tainted at once while a maintenance holds it', async () => {
    const pool = c.named('pool');
    await policyFor(pool, 'cni');
    await daemonSet('cni', pool);
    const node = await c.nodeNamed('held', { pool });
    await eventuallyTainted(node, false);
    await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
    await probed(await gatePodOn(node, 'cni'), false);
    await eventuallyTainted(node, true);
    await eventuallyShown(node, ['0/1 cni False GatesNotReady', 'cni false PodsNotReady']);
    expect(await lossesOf(node)).toBe(0);
  });
});

describe('a gate from outside', () => {
  const script = fileURLToPath(new URL('../../docs/examples/cloud-provider.sh', import.meta.url));
  /** The example of docs/readiness.md, as its readers run it. */
  const provider = (...args: string[]) =>
    spawn(script, args, { env: { ...sandbox.env, HOME: sandbox.dir }, stdio: 'ignore', detached: true });

  test('that was made before its node taints it from its first version on, until its owner removes it', async () => {
    const node = c.named('cloud');
    expect(await once(provider('reserve', node), 'exit')).toEqual([0, null]);
    await eventually('the apiserver to know the gate', async () =>
      expect(await policies.taintedOf([{ metadata: { name: node } }])).toEqual([true]),
    );
    await sandbox.addNodes([node], { pool: node });
    const app = await appPod(node);
    const controller = provider('run');
    try {
      await eventuallyShown(node, [
        '0/1 cloud.example.com/routes False GatesNotReady',
        'cloud.example.com/routes false NoPods',
      ]);
      expect(wasTainted.get(node)).toBe(true);
      expect(podNamed(app)?.spec.nodeName).toBeUndefined();
      const annotations = { 'cloud.example.com/routes': 'ready' };
      await c.patched(resources.nodes, { name: node }, { metadata: { annotations } });
      await eventually('the pod to land', () => expect(podNamed(app)?.spec.nodeName).toBe(node));
    } finally {
      process.kill(-(controller.pid ?? 0), 'SIGKILL');
    }
    await c.deleted({ ...(await c.node(node)), kind: 'Node' });
    await eventually('the NodeReadiness to be gone', () =>
      expect(c.cluster.readinesses.get(node)).toBeUndefined(),
    );
  });
});

test('while the controllers are down a node keeps its taint, and the next leader goes on where they were', async () => {
  const pool = c.named('pool');
  await policyFor(pool, 'cni');
  await daemonSet('cni', pool);
  const flapped = await c.nodeNamed('leader', { pool });
  await eventuallyTainted(flapped, false);
  const pod = await gatePodOn(flapped, 'cni');
  await probed(pod, false);
  await eventuallyShown(flapped, ['0/1 cni False GatesLost', 'cni false PodsNotReady']);
  await stopControllers();
  const node = await c.nodeNamed('leaderless', { pool });
  await gatePodOn(node, 'cni');
  expect(await isTainted(node)).toBe(true);
  startControllers();
  await eventuallyTainted(node, false);
  await eventuallyTainted(flapped, true);
  expect(await lossesOf(flapped)).toBe(1);
});
