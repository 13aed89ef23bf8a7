import type { KubeObject, NodeSelector } from '../../api/core.ts';
import { READINESS_POLICY_MANAGER, READINESS_TAINT } from '../../api/names.ts';
import { runNodeReadinessController } from '../../controllers/nodeReadiness.ts';
import { runReadinessPoliciesController } from '../../controllers/readinessPolicies.ts';
import { isKubeError } from '../../kube/errors.ts';
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

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'nrp' });
  policies = new ReadinessPolicies(c.admin, sandbox);
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
  const patience = { graceMs: 1_500, dampingMs: 1_500 };
  running = Promise.all([
    runNodeReadinessController({ cluster, patience, events, log: silentLog }, stop.signal),
    runReadinessPoliciesController({ cluster, log: silentLog }, stop.signal),
  ]);
}

async function stopControllers(): Promise<void> {
  stop?.abort();
  await running;
}

const named = (name: string) => gate({ name, namespace: c.namespace });

/** Stores a policy for the nodes of this pool, whose gates have these names, and resolves with its own. */
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

/** The names of the gates in the NodeReadiness of a node. */
const eventuallyGates = (node: string, want: readonly string[]) =>
  eventually(`the gates of ${node}`, async () => {
    const found = await c.admin.get(resources.nodeReadinesses, { name: node });
    expect(found?.spec.readinessGates.map(({ name }) => name).toSorted()).toEqual(want);
  });

/** A condition of a policy, as `<status> <reason>: <message>`. */
const eventuallySays = (policy: string, type: string, want: unknown) =>
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

describe('a policy takes its gates back', () => {
  test.each<{ when: string; deleted: (policy: string) => Promise<unknown> }>([
    { when: 'it is deleted in the foreground', deleted: (policy) => deletedPolicy(policy, 'Foreground') },
    {
      when: 'it is being deleted, and somebody holds it',
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
      when: 'it is edited and deleted in the foreground, and held, while no controller runs',
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
    await finalizersOf(policy, []).catch((error: unknown) => {
      if (!isKubeError(error, 'NotFound')) throw error;
    });
  });
});

describe('a gate of which somebody else owns a part', () => {
  const part = { name: 'cni', blocksReadiness: false };
  const appliedBy = (node: string, gates: object[]) =>
    c.admin.apply(
      resources.nodeReadinesses,
      { metadata: { name: node }, spec: { readinessGates: gates } } as KubeObject,
      { fieldManager: 'person', force: true },
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
        fieldManager: 'person',
      },
    );
  };
  const cniOf = async (node: string) => {
    const found = await c.admin.get(resources.nodeReadinesses, { name: node });
    return found?.spec.readinessGates.find(({ name }) => name === 'cni');
  };

  test.each<{ by: string; takes: (node: string) => Promise<unknown> }>([
    { by: 'server-side apply', takes: (node) => appliedBy(node, [part]) },
    { by: 'an edit', takes: edited },
  ])('by $by stays as it is, whatever becomes of its policy, and hinders no other', async ({ takes }) => {
    const pool = c.named('pool');
    const node = await c.nodeNamed('node', { pool });
    const policy = await policyFor(pool, 'cni', 'csi');
    await eventuallyGates(node, ['cni', 'csi']);
    await takes(node);
    const says = (by: string) =>
      `False Conflict: another writer says another thing about 1 gates, which stay as they are: cni on ${node} (field manager ${by})`;
    await eventuallySays(policy, 'GatesWritten', says('person'));
    await gatesEdited(policy, 'csi', 'dns');
    await eventuallySays(policy, 'GatesWritten', says('person, a part of it'));
    await eventuallyGates(node, ['cni', 'csi', 'dns']);
    await deletedPolicy(policy);
    await policyFor(pool, 'logs');
    await eventuallyGates(node, ['cni', 'logs']);
    expect(await cniOf(node)).toEqual({ ...named('cni'), ...part });
  });

  test('goes when that part is given back', async () => {
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

describe('what cannot be written is told, and hinders no other policy:', () => {
  test('more gates than a node may have', async () => {
    const pool = c.named('pool');
    const node = await c.nodeNamed('node', { pool });
    const many = (letter: string) => Array.from({ length: 20 }, (_, i) => `${letter}-${10 + i}`);
    const first = await policyFor(pool, ...many('a'));
    await eventuallyGates(node, many('a'));
    const second = await policyFor(pool, ...many('b'));
    await eventuallyGates(node, [...many('a'), ...many('b').slice(0, 12)]);
    await eventuallySays(
      second,
      'GatesWritten',
      expect.stringContaining(
        'False TooManyGates: there is no room for 8 gates beside those of older policies',
      ),
    );
    await eventuallySays(first, 'GatesWritten', expect.stringMatching(/^True /));
  });

  test('a refusal of the apiserver', async () => {
    const pool = c.named('pool');
    const node = await c.nodeNamed('node', { pool });
    const refused = c.named('p');
    const manager = READINESS_POLICY_MANAGER + refused;
    await c.admin.create(admissionPolicies, {
      metadata: { name: refused },
      spec: {
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
      },
    } as KubeObject);
    await c.admin.create(admissionBindings, {
      metadata: { name: refused },
      spec: { policyName: refused, validationActions: ['Deny'] },
    } as KubeObject);
    try {
      await eventually('the refusal to be in force', async () => {
        const object = { metadata: { name: node }, spec: {} };
        const write = c.admin.apply(resources.nodeReadinesses, object, { fieldManager: manager });
        await expect(write).rejects.toThrow('not by this policy');
      });
      await policies.stored(readinessPolicy(refused, ofPool(pool), [named('cni')]));
      await policyFor(pool, 'csi');
      await eventuallyGates(node, ['csi']);
      await eventuallySays(
        refused,
        'GatesWritten',
        expect.stringMatching(
          new RegExp(
            `^False Refused: the apiserver refuses the gates of 1 nodes, such as ${node}: .*not by this`,
          ),
        ),
      );
    } finally {
      for (const resource of [admissionBindings, admissionPolicies]) {
        const uid = (await c.admin.get(resource, { name: refused }))?.metadata.uid ?? '';
        await c.admin.delete(resource, { name: refused }, { uid });
      }
    }
  });
});

const admission = (kind: string, plural: string): Resource => ({
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural,
  kind,
  namespaced: false,
});
const admissionPolicies = admission('ValidatingAdmissionPolicy', 'validatingadmissionpolicies');
const admissionBindings = admission('ValidatingAdmissionPolicyBinding', 'validatingadmissionpolicybindings');

describe('a gate whose pods do not tolerate the taint', () => {
  /** Of the pool, with these tolerations. */
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
  const remedy = `add the toleration {key: ${READINESS_TAINT.key}, operator: Exists, effect: NoSchedule}, or such pods cannot start on a node that waits for them`;

  test('is withheld from every node until they do, and stays in effect when they no longer do', async () => {
    const pool = c.named('pool');
    const app = c.named('agent');
    const daemons = await daemonSet(app, pool, []);
    const old = await c.nodeNamed('old', { pool });
    const policy = await policyFor(pool, app, 'csi');
    const says = (fate: string) =>
      `False TaintNotTolerated: gate ${app} ${fate}: DaemonSet ${c.namespace}/${daemons}; ${remedy}`;
    await eventuallySays(policy, 'GatesTolerated', says('is withheld'));
    await eventuallyGates(old, ['csi']);
    await gatesEdited(policy, app);
    await eventuallyGates(old, []);
    await eventuallySays(policy, 'GatesWritten', expect.stringMatching(/^True /));
    await eventually('new nodes to be free', async () => expect(await newNodeIsTainted(pool)).toBe(false));
    const late = await c.nodeNamed('late', { pool });
    await eventually('the nodes to be free', async () =>
      expect([await isTainted(old), await isTainted(late)]).toEqual([false, false]),
    );
    await tolerating(daemons, all);
    await eventuallySays(policy, 'GatesTolerated', expect.stringMatching(/^True /));
    for (const node of [old, late]) await eventuallyGates(node, [app]);
    await eventually('new nodes to wait', async () => expect(await newNodeIsTainted(pool)).toBe(true));
    await tolerating(daemons, []);
    await eventuallySays(policy, 'GatesTolerated', says('stays in effect'));
    expect(await newNodeIsTainted(pool)).toBe(true);
  });

  test('stays as it was on nodes that wait for it, when an edit makes it one', async () => {
    const pool = c.named('pool');
    const node = await c.nodeNamed('waiting', { pool });
    const gateFor = (app: string) => gate({ name: 'agent', app, namespace: c.namespace });
    const policy = readinessPolicy(c.named('p'), ofPool(pool), [gateFor('absent')]);
    const { name } = (await policies.stored(policy)).metadata;
    await eventually('the node to wait', async () => expect(await isTainted(node)).toBe(true));
    const app = c.named('agent');
    const daemons = await daemonSet(app, pool, []);
    const spec = { readinessGates: [gateFor(app)] };
    await c.admin.mergePatch(resources.nodeReadinessPolicies, { name }, { spec });
    await eventuallySays(
      name,
      'GatesTolerated',
      `False TaintNotTolerated: gate agent is withheld, and stays as it was on nodes that have it: DaemonSet ${c.namespace}/${daemons}; ${remedy}`,
    );
    await eventuallySays(name, 'GatesWritten', expect.stringMatching(/^True /));
    const appOf = async () => {
      const found = await c.admin.get(resources.nodeReadinesses, { name: node });
      return found?.spec.readinessGates.map(({ selector }) => selector.matchLabels?.['app']);
    };
    expect([await appOf(), await isTainted(node)]).toEqual([['absent'], true]);
    await tolerating(daemons, all);
    await eventually('the gate as it is now', async () => expect(await appOf()).toEqual([app]));
    await eventually('the node to take pods', async () => expect(await isTainted(node)).toBe(false));
  });

  test('is told before there is a node, by pods that run elsewhere', async () => {
    const app = c.named('agent');
    await c.podOn(await c.nodeNamed('elsewhere'), { name: app, labels: { app } });
    const policy = await policyFor(c.named('pool'), app);
    await eventuallySays(
      policy,
      'GatesTolerated',
      `False TaintNotTolerated: gate ${app} is withheld: pod ${c.namespace}/${app}; ${remedy}`,
    );
    await eventuallySays(policy, 'SelectorsMatch', expect.stringMatching(/^True /));
  });

  test('is told, also when its namespace does not exist', async () => {
    const pool = c.named('pool');
    const nowhere = gate({ name: 'cni', namespace: 'nowhere' });
    const { metadata } = await policies.stored(readinessPolicy(c.named('p'), ofPool(pool), [nowhere]));
    await eventuallySays(
      metadata.name,
      'SelectorsMatch',
      'False NoPods: gate cni: namespace nowhere does not exist; check the namespace and the labels: the nodes wait until there is such a pod',
    );
  });
});

test('however many nodes get their gates, pod templates are listed every ten seconds at most', async () => {
  const pool = c.named('pool');
  const policy = await policyFor(pool, 'cni');
  await eventuallySays(policy, 'GatesWritten', expect.stringMatching(/^True /));
  const lists = () => c.requests.count('list deployments.apps');
  const [before, began] = [lists(), performance.now()];
  const nodes = await Promise.all(Array.from({ length: 8 }, () => c.nodeNamed('many', { pool })));
  for (const node of nodes) await eventuallyGates(node, ['cni']);
  await eventually('all of them to be counted', async () => {
    const found = await c.admin.get(resources.nodeReadinessPolicies, { name: policy });
    expect([found?.status?.nodes, found?.status?.conditions[0]?.status]).toEqual([8, 'True']);
  });
  const tenSeconds = Math.ceil((performance.now() - began) / 10_000);
  expect(lists() - before).toBeLessThanOrEqual(namespacesOfPolicies() * (tenSeconds + 1));
});

/** In how many namespaces policies of this file look for pods. */
function namespacesOfPolicies(): number {
  const gates = c.cluster.readinessPolicies.list().flatMap(({ spec }) => spec.readinessGates);
  return new Set(gates.map(({ namespace }) => namespace)).size;
}

test('a policy that selects every node says so', async () => {
  await c.nodeNamed('one');
  await c.nodeNamed('two');
  const everyNode: NodeSelector = {
    nodeSelectorTerms: [{ matchExpressions: [{ key: 'nobody-has-this', operator: 'DoesNotExist' }] }],
  };
  const logs = gate({ name: 'logs', namespace: c.namespace, blocksReadiness: false });
  const { metadata } = await policies.stored(readinessPolicy(c.named('p'), everyNode, [logs]));
  await eventuallySays(
    metadata.name,
    'NodesLimited',
    expect.stringMatching(/^False EveryNode: all \d+ nodes are selected, the control plane too/),
  );
  await policies.dropped(metadata.name);
});

test('a node that joins in the moment in which its policy is made has the taint all the same', async () => {
  const pool = c.named('pool');
  const [, node] = await Promise.all([policyFor(pool, 'cni'), c.nodeNamed('early', { pool })]);
  await eventually('the node to wait', async () => {
    const { spec } = await c.node(node);
    expect(spec.taints?.map(({ key }) => key)).toContain(READINESS_TAINT.key);
  });
});
