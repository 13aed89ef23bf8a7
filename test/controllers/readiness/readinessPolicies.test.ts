import type { KubeObject, NodeSelector } from '../../../api/core.ts';
import { READINESS_POLICY_MANAGER, READINESS_TAINT } from '../../../api/names.ts';
import { runNodeReadinessController } from '../../../controllers/readiness/nodeReadiness.ts';
import { runReadinessPoliciesController } from '../../../controllers/readiness/readinessPolicies.ts';
import { ignoreNotFound } from '../../../kube/errors.ts';
import { EventRecorder } from '../../../kube/events.ts';
import { type Resource, resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { silentLog, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { gate, gatePermissions, ofPool, readinessPolicy, ReadinessPolicies } from '../../kit/readiness.ts';
import { denyByPolicy } from '../../kit/rejection.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let policies: ReadinessPolicies;
let stop: AbortController;
let running: Promise<unknown>;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'nrp' });
  policies = new ReadinessPolicies(c.admin);
  startControllers();
});

afterAll(async () => {
  await policies?.allDropped();
  await c?.close();
  await stopControllers();
  await releaseSandbox(sandbox);
});

function startControllers(): void {
  stop = new AbortController();
  const { cluster } = c;
  const events = new EventRecorder({ kube: cluster.kube, component: 'node-maintenance', log: silentLog });
  const timing = { graceMs: 1_500, dampingMs: 1_500 };
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

const named = (name: string) => gate({ name, namespace: c.namespace });

/** Creates a policy for the nodes of a pool, with gates of these names, and returns its name. */
async function policyFor(pool: string, ...gates: string[]): Promise<string> {
  const policy = readinessPolicy(c.named('p'), ofPool(pool), gates.map(named));
  return (await policies.stored(policy)).metadata.name;
}

const gatesEdited = (policy: string, ...gates: string[]) =>
  c.admin.mergePatch(
    resources.nodeReadinessPolicies,
    { name: policy },
    {
      spec: { readinessGates: gates.map(named) },
    },
  );

/** Waits until the NodeReadiness of a node has exactly these gates. */
const eventuallyGates = (node: string, want: readonly string[]) =>
  eventually(`the gates of ${node}`, async () => {
    const found = await c.admin.get(resources.nodeReadinesses, { name: node });
    expect(found?.spec.readinessGates.map(({ name }) => name).toSorted()).toEqual(want);
  });

/** Waits until a condition of a policy is `<status> <reason>: <message>`. */
const eventuallyCondition = (policy: string, type: string, want: unknown) =>
  eventually(`${type} of ${policy}`, async () => {
    const found = await c.admin.get(resources.nodeReadinessPolicies, { name: policy });
    const condition = found?.status?.conditions.find((one) => one.type === type);
    expect(condition && `${condition.status} ${condition.reason}: ${condition.message}`).toEqual(want);
  });

async function deletedPolicy(
  name: string,
  propagationPolicy: 'Background' | 'Foreground' = 'Background',
): Promise<void> {
  const found = await c.admin.get(resources.nodeReadinessPolicies, { name });
  const uid = found?.metadata.uid ?? '';
  await c.admin.delete(resources.nodeReadinessPolicies, { name }, { uid, propagationPolicy });
}

const finalizersOf = (policy: string, finalizers: string[]) =>
  c.admin.mergePatch(resources.nodeReadinessPolicies, { name: policy }, { metadata: { finalizers } });

describe('a policy removes its gates', () => {
  test.each<{ when: string; deleted: (policy: string) => Promise<unknown> }>([
    { when: 'it is deleted in the foreground', deleted: (policy) => deletedPolicy(policy, 'Foreground') },
    {
      when: 'it is being deleted, and a finalizer delays that',
      deleted: async (policy) => {
        await finalizersOf(policy, ['example.com/hold']);
        await deletedPolicy(policy);
      },
    },
    {
      when: 'it is edited and deleted at once',
      deleted: async (policy) => {
        await gatesEdited(policy, 'csi');
        await deletedPolicy(policy);
      },
    },
    {
      when: 'it is deleted while no controller runs',
      deleted: async (policy) => {
        await stopControllers();
        await deletedPolicy(policy);
        startControllers();
      },
    },
    {
      when: 'it is edited and deleted in the foreground, with a finalizer, while no controller runs',
      deleted: async (policy) => {
        await stopControllers();
        await gatesEdited(policy, 'csi');
        await finalizersOf(policy, ['example.com/hold']);
        await deletedPolicy(policy, 'Foreground');
        startControllers();
      },
    },
  ])('when $when', async ({ deleted }) => {
    const pool = c.named('pool');
    const node = await c.nodeNamed('node', { pool });
    const policy = await policyFor(pool, 'cni');
    await eventuallyGates(node, ['cni']);
    await deleted(policy);
    await eventuallyGates(node, []);
    await finalizersOf(policy, []).catch(ignoreNotFound);
  });
});

describe('a gate of which another field manager owns a part', () => {
  const part = { name: 'cni', blocksReadiness: false };
  const appliedBy = (node: string, gates: object[]) =>
    c.admin.apply(
      resources.nodeReadinesses,
      { metadata: { name: node }, spec: { readinessGates: gates } } as KubeObject,
      { fieldManager: 'editor', force: true },
    );
  const edited = async (node: string) => {
    const found = await c.admin.get(resources.nodeReadinesses, { name: node });
    const index = found?.spec.readinessGates.findIndex(({ name }) => name === 'cni');
    const path = `/spec/readinessGates/${index}/blocksReadiness`;
    await c.admin.jsonPatch(
      resources.nodeReadinesses,
      { name: node },
      [{ op: 'replace', path, value: false }],
      {
        fieldManager: 'editor',
      },
    );
  };
  const cniOf = async (node: string) => {
    const found = await c.admin.get(resources.nodeReadinesses, { name: node });
    return found?.spec.readinessGates.find(({ name }) => name === 'cni');
  };

  test.each<{ by: string; takeOver: (node: string) => Promise<unknown> }>([
    { by: 'server-side apply', takeOver: (node) => appliedBy(node, [part]) },
    { by: 'an edit', takeOver: edited },
  ])(
    'by $by stays unchanged, even without its policy, and does not block other gates',
    async ({ takeOver }) => {
      const pool = c.named('pool');
      const node = await c.nodeNamed('node', { pool });
      const policy = await policyFor(pool, 'cni', 'csi');
      await eventuallyGates(node, ['cni', 'csi']);
      await takeOver(node);
      const conflictWith = (by: string) =>
        `False Conflict: 1 gate is defined differently by another field manager and left unchanged: cni on ${node} (field manager ${by})`;
      await eventuallyCondition(policy, 'GatesApplied', conflictWith('editor'));
      await gatesEdited(policy, 'csi', 'dns');
      await eventuallyCondition(policy, 'GatesApplied', conflictWith('editor owns a part of it'));
      await eventuallyGates(node, ['cni', 'csi', 'dns']);
      await deletedPolicy(policy);
      await policyFor(pool, 'logs');
      await eventuallyGates(node, ['cni', 'logs']);
      expect(await cniOf(node)).toEqual({ ...named('cni'), ...part });
    },
  );

  test('is removed when the other field manager releases that part', async () => {
    const pool = c.named('pool');
    const node = await c.nodeNamed('node', { pool });
    const policy = await policyFor(pool, 'cni', 'csi');
    await eventuallyGates(node, ['cni', 'csi']);
    await appliedBy(node, [part]);
    await deletedPolicy(policy);
    await eventuallyGates(node, ['cni']);
    await appliedBy(node, []);
    await eventuallyGates(node, []);
  });
});

describe('gates that cannot be applied are reported and do not block other policies:', () => {
  test('more gates than the limit per node', async () => {
    const pool = c.named('pool');
    const node = await c.nodeNamed('node', { pool });
    const many = (letter: string) => Array.from({ length: 20 }, (_, i) => `${letter}-${10 + i}`);
    const first = await policyFor(pool, ...many('a'));
    await eventuallyGates(node, many('a'));
    const second = await policyFor(pool, ...many('b'));
    await eventuallyGates(node, [...many('a'), ...many('b').slice(0, 12)]);
    await eventuallyCondition(
      second,
      'GatesApplied',
      expect.stringContaining('False TooManyGates: 8 gates exceed the limit of gates per node'),
    );
    await eventuallyCondition(first, 'GatesApplied', expect.stringMatching(/^True /));
  });

  test('an error of the apiserver', async () => {
    const pool = c.named('pool');
    const node = await c.nodeNamed('node', { pool });
    const rejected = c.named('p');
    const manager = READINESS_POLICY_MANAGER + rejected;
    const admit = await denyByPolicy(c.admin, rejected, {
      failurePolicy: 'Ignore',
      matchConstraints: {
        resourceRules: [
          {
            apiGroups: ['nodemaintenance.k8s.io'],
            apiVersions: ['*'],
            operations: ['CREATE', 'UPDATE'],
            resources: ['nodereadinesses'],
          },
        ],
      },
      validations: [
        {
          expression: `!has(request.options.fieldManager) || request.options.fieldManager != '${manager}'`,
          message: 'not by this policy',
        },
      ],
    });
    try {
      await eventually('the rejection to be in force', async () => {
        const object = { metadata: { name: node }, spec: {} };
        const write = c.admin.apply(resources.nodeReadinesses, object, { fieldManager: manager });
        await expect(write).rejects.toThrow('not by this policy');
      });
      await policies.stored(readinessPolicy(rejected, ofPool(pool), [named('cni')]));
      await policyFor(pool, 'csi');
      await eventuallyGates(node, ['csi']);
      await eventuallyCondition(
        rejected,
        'GatesApplied',
        expect.stringMatching(
          new RegExp(
            `^False Rejected: the apiserver rejected the gates of 1 node, for example ${node}: .*not by this`,
          ),
        ),
      );
    } finally {
      await admit();
    }
  });
});

describe('a gate whose pods do not tolerate the taint', () => {
  /** Creates a DaemonSet on the nodes of a pool with these tolerations. */
  async function daemonSet(app: string, pool: string, tolerations: object[]): Promise<string> {
    const labels = { app };
    const name = c.named(app);
    const spec = { nodeSelector: { pool }, tolerations, containers: [{ name: 'main', image: 'fake' }] };
    await c.admin.create(
      resources.daemonSets as Resource,
      {
        metadata: { name, namespace: c.namespace },
        spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
      } as KubeObject,
    );
    return name;
  }
  const tolerating = (name: string, tolerations: object[]) =>
    c.admin.mergePatch(
      resources.daemonSets,
      { namespace: c.namespace, name },
      { spec: { template: { spec: { tolerations } } } },
    );
  const isTainted = async (node: string) =>
    (await c.node(node)).spec.taints?.some(({ key }) => key === READINESS_TAINT.key) === true;
  const newNodeIsTainted = async (pool: string) =>
    (await policies.taintedOf([{ metadata: { name: 'probe', labels: { pool } } }]))[0];
  const all = [{ operator: 'Exists' }];
  const remedy = `add the toleration {key: ${READINESS_TAINT.key}, operator: Exists, effect: NoSchedule}, otherwise these pods cannot start on a node that waits for them`;

  test('is suppressed until they do, and stays in effect when they no longer do', async () => {
    const pool = c.named('pool');
    const app = c.named('agent');
    const daemons = await daemonSet(app, pool, []);
    const old = await c.nodeNamed('old', { pool });
    const policy = await policyFor(pool, app, 'csi');
    const notTolerated = (effect: string) =>
      `False TaintNotTolerated: gate ${app} ${effect}: DaemonSet ${c.namespace}/${daemons}; ${remedy}`;
    await eventuallyCondition(policy, 'TaintTolerated', notTolerated('is suppressed'));
    await eventuallyGates(old, ['csi']);
    await gatesEdited(policy, app);
    await eventuallyGates(old, []);
    await eventuallyCondition(policy, 'GatesApplied', expect.stringMatching(/^True /));
    await eventually('new nodes not to be tainted', async () =>
      expect(await newNodeIsTainted(pool)).toBe(false),
    );
    const newer = await c.nodeNamed('newer', { pool });
    await eventually('the nodes not to be tainted', async () =>
      expect([await isTainted(old), await isTainted(newer)]).toEqual([false, false]),
    );
    await tolerating(daemons, all);
    await eventuallyCondition(policy, 'TaintTolerated', expect.stringMatching(/^True /));
    for (const node of [old, newer]) await eventuallyGates(node, [app]);
    await eventually('new nodes to be tainted', async () => expect(await newNodeIsTainted(pool)).toBe(true));
    await tolerating(daemons, []);
    await eventuallyCondition(policy, 'TaintTolerated', notTolerated('stays in effect'));
    expect(await newNodeIsTainted(pool)).toBe(true);
  });

  test('keeps its previous definition on nodes that wait for it, when an edit suppresses it', async () => {
    const pool = c.named('pool');
    const node = await c.nodeNamed('waiting', { pool });
    const gateFor = (app: string) => gate({ name: 'agent', app, namespace: c.namespace });
    const policy = readinessPolicy(c.named('p'), ofPool(pool), [gateFor('absent')]);
    const { name } = (await policies.stored(policy)).metadata;
    await eventually('the node to be tainted', async () => expect(await isTainted(node)).toBe(true));
    const app = c.named('agent');
    const daemons = await daemonSet(app, pool, []);
    const spec = { readinessGates: [gateFor(app)] };
    await c.admin.mergePatch(resources.nodeReadinessPolicies, { name }, { spec });
    await eventuallyCondition(
      name,
      'TaintTolerated',
      `False TaintNotTolerated: gate agent is suppressed, and keeps its previous definition on nodes that have it: DaemonSet ${c.namespace}/${daemons}; ${remedy}`,
    );
    await eventuallyCondition(name, 'GatesApplied', expect.stringMatching(/^True /));
    const appOf = async () => {
      const found = await c.admin.get(resources.nodeReadinesses, { name: node });
      return found?.spec.readinessGates.map(({ selector }) => selector.matchLabels?.['app']);
    };
    expect([await appOf(), await isTainted(node)]).toEqual([['absent'], true]);
    await tolerating(daemons, all);
    await eventually('the edited gate', async () => expect(await appOf()).toEqual([app]));
    await eventually('the node to accept pods', async () => expect(await isTainted(node)).toBe(false));
  });

  test('is reported before a node is selected, from pods on other nodes', async () => {
    const app = c.named('agent');
    await c.podOn(await c.nodeNamed('elsewhere'), { name: app, labels: { app } });
    const policy = await policyFor(c.named('pool'), app);
    await eventuallyCondition(
      policy,
      'TaintTolerated',
      `False TaintNotTolerated: gate ${app} is suppressed: pod ${c.namespace}/${app}; ${remedy}`,
    );
    await eventuallyCondition(policy, 'SelectorsMatch', expect.stringMatching(/^True /));
  });

  test('is reported as without pods if its namespace does not exist', async () => {
    const pool = c.named('pool');
    const nowhere = gate({ name: 'cni', namespace: 'nowhere' });
    const { metadata } = await policies.stored(readinessPolicy(c.named('p'), ofPool(pool), [nowhere]));
    await eventuallyCondition(
      metadata.name,
      'SelectorsMatch',
      'False NoPods: gate cni: namespace nowhere does not exist; check the namespace and the labels; nodes wait until such a pod is ready',
    );
  });
});

test('pod templates are listed at most every ten seconds, regardless of the number of nodes', async () => {
  const pool = c.named('pool');
  const policy = await policyFor(pool, 'cni');
  await eventuallyCondition(policy, 'GatesApplied', expect.stringMatching(/^True /));
  const lists = () => c.requests.count('list deployments.apps');
  const [before, startedAtMs] = [lists(), performance.now()];
  const nodes = await Promise.all(Array.from({ length: 8 }, () => c.nodeNamed('many', { pool })));
  for (const node of nodes) await eventuallyGates(node, ['cni']);
  await eventually('all of them to be counted', async () => {
    const found = await c.admin.get(resources.nodeReadinessPolicies, { name: policy });
    expect([found?.status?.nodes, found?.status?.conditions[0]?.status]).toEqual([8, 'True']);
  });
  const tenSeconds = Math.ceil((performance.now() - startedAtMs) / 10_000);
  expect(lists() - before).toBeLessThanOrEqual(namespacesOfPolicies() * (tenSeconds + 1));
});

/** Returns the number of namespaces of all gates in this file. */
function namespacesOfPolicies(): number {
  const gates = c.cluster.readinessPolicies.list().flatMap(({ spec }) => spec.readinessGates);
  return new Set(gates.map(({ namespace }) => namespace)).size;
}

test('a policy that selects every node reports it', async () => {
  await c.nodeNamed('one');
  await c.nodeNamed('two');
  const everyNode: NodeSelector = {
    nodeSelectorTerms: [{ matchExpressions: [{ key: 'no-node-has-this', operator: 'DoesNotExist' }] }],
  };
  const logs = gate({ name: 'logs', namespace: c.namespace, blocksReadiness: false });
  const { metadata } = await policies.stored(readinessPolicy(c.named('p'), everyNode, [logs]));
  await eventuallyCondition(
    metadata.name,
    'NotAllNodesSelected',
    expect.stringMatching(/^False EveryNode: all \d+ nodes are selected, including the control plane/),
  );
  await policies.dropped(metadata.name);
});

test('a node created at the same time as its policy gets the taint too', async () => {
  const pool = c.named('pool');
  const [, node] = await Promise.all([policyFor(pool, 'cni'), c.nodeNamed('early', { pool })]);
  await eventually('the node to be tainted', async () => {
    const { spec } = await c.node(node);
    expect(spec.taints?.map(({ key }) => key)).toContain(READINESS_TAINT.key);
  });
});
