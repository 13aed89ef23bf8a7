import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../../api/core.ts';
import { NODE_EXISTS_LABEL, NODE_READINESS, READINESS_TAINT } from '../../../api/names.ts';
import { runNodeReadinessController } from '../../../controllers/readiness/nodeReadiness.ts';
import { runReadinessPoliciesController } from '../../../controllers/readiness/readinessPolicies.ts';
import { EventRecorder } from '../../../kube/events.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { type Answer, type Kubectl, kubectlOf, succeeds } from '../../api/kubectl.ts';
import { gateWriterOf, mayDelete, operatorOf, operatorsDropped } from '../../kit/admission.ts';
import { silentLog, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { gate, gatePermissions, ofPool, readinessPolicy, ReadinessPolicies } from '../../kit/readiness.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let kubectl: Kubectl;
let policies: ReadinessPolicies;
let stop: AbortController;
let running: Promise<unknown>;
/** May write policies and NodeReadinesses, and delete no node. */
let mallory: string;

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
  c = await testCluster(sandbox, { prefix: 'gates' });
  policies = new ReadinessPolicies(c.admin);
  stop = new AbortController();
  const { cluster } = c;
  const events = new EventRecorder({ kube: cluster.kube, component: 'node-maintenance', log: silentLog });
  const permissions = gatePermissions(cluster.kube, { validMs: 100, startedValidMs: 100 });
  const timing = { graceMs: 0, dampingMs: 1_000 };
  running = Promise.all([
    runNodeReadinessController({ cluster, permissions, timing, events, log: silentLog }, stop.signal),
    runReadinessPoliciesController({ cluster, permissions, log: silentLog }, stop.signal),
  ]);
  mallory = await operatorOf(c, ['no-node-of-hers']);
});

afterAll(async () => {
  await policies?.allDropped();
  stop?.abort();
  await running;
  await operatorsDropped(c);
  await c?.close();
  await releaseSandbox(sandbox);
});

const as = (user: string, args: string[], object?: object): Promise<Answer> =>
  kubectl([...args, '--as', user, ...(object ? ['-f', '-'] : [])], object);

/** Creates a policy by kubectl as the user, whose gate no pod matches. */
async function policyOf(user: string, pool: string, name = c.named('p')): Promise<string> {
  const gates = [gate({ name: `${name}-gate`, namespace: c.namespace })];
  const policy = readinessPolicy(name, ofPool(pool), gates);
  policies.dropLater(name);
  await succeeds(as(user, ['create'], policy));
  return name;
}

const gatesOf = async (node: string) => {
  const found = await c.admin.get(resources.nodeReadinesses, { name: node });
  return found?.spec.readinessGates.map(({ name }) => name);
};

const isTainted = async (node: string) =>
  (await c.node(node)).spec.taints?.some(({ key }) => key === READINESS_TAINT.key) ?? false;

const eventuallyOpen = (node: string) =>
  eventually(`node ${node} to accept pods`, async () => {
    expect(await gatesOf(node)).toEqual([]);
    expect(await isTainted(node)).toBe(false);
  });

const eventuallyGated = (node: string, policy: string) =>
  eventually(`node ${node} to be gated`, async () => {
    expect(await gatesOf(node)).toEqual([`${policy}-gate`]);
    expect(await isTainted(node)).toBe(true);
  });

const eventuallyDenied = (policy: string, node: string, user: string) =>
  eventually(`${policy} to name ${node}`, async () => {
    const found = await c.admin.get(resources.nodeReadinessPolicies, { name: policy });
    const condition = found?.status?.conditions.find(({ type }) => type === 'NodesAuthorized');
    expect(condition).toMatchObject({
      status: 'False',
      reason: 'NotAuthorized',
      message: expect.stringContaining(` ${node}: user "${user}", who changed this last, may not gate it`),
    });
  });

describe('a policy of a user who may delete no node', () => {
  test('closes neither a present node, nor one that joins, nor one that is labelled later', async () => {
    const pool = c.named('pool');
    const present = await c.nodeNamed('present', { pool });
    const policy = await policyOf(mallory, pool);
    await eventuallyDenied(policy, present, mallory);
    const joins = await c.nodeNamed('joins', { pool });
    const later = await c.nodeNamed('later');
    await c.labelled(later, { pool });
    for (const node of [present, joins, later]) await eventuallyOpen(node);
    expect(await policies.taintedOf([{ metadata: { name: 'probe', labels: { pool } } }])).toEqual([false]);
  });

  test('counts as soon as the permission is granted; gates that are set stay when it is withdrawn', async () => {
    const pool = c.named('pool');
    const node = await c.nodeNamed('n', { pool });
    const author = await operatorOf(c, ['none']);
    const policy = await policyOf(author, pool);
    await eventuallyDenied(policy, node, author);
    await mayDelete(c, author, [node]);
    await c.patched(resources.nodes, { name: node }, { metadata: { labels: { some: 'change' } } });
    await eventuallyGated(node, policy);
    await mayDelete(c, author, ['none']);
    const next = await c.nodeNamed('next', { pool });
    await eventuallyDenied(policy, [next, node].toSorted().join(', '), author);
    await eventuallyOpen(next);
    await eventuallyGated(node, policy);
  });

  test('counts on the nodes that the user may gate', async () => {
    const pool = c.named('pool');
    const [mine, other] = [await c.nodeNamed('mine', { pool }), await c.nodeNamed('other', { pool })];
    const author = await operatorOf(c, ['none']);
    await gateWriterOf(c, author, [mine]);
    const policy = await policyOf(author, pool);
    await eventuallyGated(mine, policy);
    await eventuallyDenied(policy, other, author);
    await eventuallyOpen(other);
  });
});

test('a policy of a user who may delete every node closes a new node before any process of ours has seen it', async () => {
  const pool = c.named('pool');
  const policy = readinessPolicy(c.named('p'), ofPool(pool), [gate({ name: 'x', namespace: c.namespace })]);
  await policies.applied(policy, { pool });
});

describe('the policy of another user', () => {
  test.each([
    {
      what: 'changed',
      args: (name: string) => ['patch', 'nrp', name, '--type=merge', '-p', '{"spec":{"readinessGates":[]}}'],
    },
    { what: 'deleted', args: (name: string) => ['delete', 'nrp', name] },
    {
      what: 'given a finalizer',
      args: (name: string) => [
        'patch',
        'nrp',
        name,
        '--type=merge',
        '-p',
        '{"metadata":{"finalizers":["example.com/x"]}}',
      ],
    },
  ])('cannot be $what', async ({ args }) => {
    const author = await operatorOf(c, ['none']);
    const name = await policyOf(author, c.named('pool'));
    expect(await as(mallory, args(name))).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(
        `user "${mallory}" may not change or delete the NodeReadinessPolicy of another user`,
      ),
    });
    expect(await as(author, args(name))).toMatchObject({ code: 0 });
  });
});

describe('a NodeReadiness', () => {
  const nodeReadiness = (name: string, ...gates: string[]) => ({
    apiVersion: NODE_READINESS.apiVersion,
    kind: NODE_READINESS.kind,
    metadata: { name },
    spec: { readinessGates: gates.map((one) => gate({ name: one, namespace: c.namespace })) },
  });
  const apply = ['apply', '--server-side', '--field-manager=mallory'];
  const denied = (user: string, node: string) => ({
    code: 1,
    stderr: expect.stringContaining(`user "${user}" may not gate node "${node}": request the verb gate`),
  });
  const patched = (user: string, node: string, patch: object) =>
    as(user, ['patch', 'nr', node, '--type=merge', '-p', JSON.stringify(patch)]);

  /** Returns a node with its NodeReadiness and a gate of the administrator. */
  async function gatedNode(): Promise<string> {
    const node = await c.nodeNamed('n');
    await eventuallyOpen(node);
    await succeeds(kubectl([...apply, '-f', '-'], nodeReadiness(node, 'theirs')));
    return node;
  }

  test('gets no gate from a user without a permission for its node, before the node exists either', async () => {
    const node = await c.nodeNamed('n');
    await eventuallyOpen(node);
    expect(await as(mallory, apply, nodeReadiness(node, 'evil'))).toMatchObject(denied(mallory, node));
    const future = c.named('future');
    expect(await as(mallory, ['create'], nodeReadiness(future, 'evil'))).toMatchObject(
      denied(mallory, future),
    );
  });

  test('loses no gate to such a user, by an edit, by its deletion, or by its owners', async () => {
    const node = await gatedNode();
    const expected = denied(mallory, node);
    expect(await patched(mallory, node, { spec: { readinessGates: [] } })).toMatchObject(expected);
    expect(await as(mallory, ['delete', 'nr', node])).toMatchObject(expected);
    expect(await patched(mallory, node, { metadata: { ownerReferences: null } })).toMatchObject(expected);
    expect(await patched(mallory, node, { metadata: { finalizers: ['example.com/x'] } })).toMatchObject(
      expected,
    );
    // The apiserver taints a new node by those without the label.
    const labels = { [NODE_EXISTS_LABEL]: null };
    expect(await patched(mallory, node, { metadata: { labels } })).toMatchObject(expected);
    expect(await patched(mallory, node, { metadata: { labels: { team: 'x' } } })).toMatchObject({ code: 0 });
    expect(await gatesOf(node)).toEqual(['theirs']);
  });

  test('keeps the field managers of its gates, by which the worker decides which ones stay', async () => {
    const node = await gatedNode();
    const expected = denied(mallory, node);
    const asManager = (manager: string) => ['apply', '--server-side', '--field-manager', manager];
    const { metadata } = (await c.admin.get(resources.nodeReadinesses, { name: node })) as KubeObject & {
      metadata: { managedFields?: object[] };
    };
    const forged = (managedFields: object[]) => patched(mallory, node, { metadata: { managedFields } });
    const ofPolicy = { manager: 'node-readiness-policy/none', operation: 'Apply' };
    const withManager = (metadata.managedFields ?? []).map((entry) => ({ ...entry, ...ofPolicy }));
    // The same gate, as another owner: it would stay when its owner removes it.
    expect(await as(mallory, asManager('m'), nodeReadiness(node, 'theirs'))).toMatchObject(expected);
    expect(await forged(withManager)).toMatchObject(expected);
    expect(await forged([{}])).toMatchObject(expected);
    expect(await gatesOf(node)).toEqual(['theirs']);
    await succeeds(kubectl([...asManager('another'), '-f', '-'], nodeReadiness(node, 'theirs')));
  });

  test('is gated and opened by a component with the role for that, which may not delete the node', async () => {
    const node = await c.nodeNamed('n');
    await eventuallyOpen(node);
    const component = c.named('component');
    await gateWriterOf(c, component);
    await succeeds(as(component, apply, nodeReadiness(node, 'burn-in')));
    await eventually('the node to be closed', async () => expect(await isTainted(node)).toBe(true));
    await succeeds(as(component, apply, nodeReadiness(node)));
    await eventuallyOpen(node);
    expect(await as(component, ['auth', 'can-i', 'delete', 'nodes'])).toMatchObject({ stdout: 'no\n' });
  });

  test('is deleted with its node', async () => {
    const node = await gatedNode();
    const { uid = '' } = (await c.node(node)).metadata;
    await c.admin.delete(resources.nodes, { name: node } as KubeObject['metadata'], { uid });
    await eventually('the NodeReadiness to be gone', async () => expect(await gatesOf(node)).toBeUndefined());
  });
});
