import fc from 'fast-check';
import type { KubeObject, Pod } from '../../api/core.ts';
import {
  AGENT_SERVICE_ACCOUNT,
  COMPLETED_LABEL,
  DAEMONSET_EVACUATOR_ANNOTATION,
  MAINTENANCE_GATE,
  SYSTEM_NAMESPACE,
} from '../../api/names.ts';
import type { DrainPlanEntry, NodeMaintenance, NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { targetsPod } from '../../domain/drain/targets.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { remove } from '../kit/reset.ts';
import { serviceAccounts } from '../kit/resources.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { entry } from './objects.ts';

let sandbox: Sandbox;
let c: TestCluster;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'ds-policy' });
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

afterEach(() => c.maintenancesDropped());

const max = 2_147_483_647;

interface PodDiffers {
  node?: string;
  owner?: object | null;
  annotations?: Record<string, string>;
  labels?: Record<string, string>;
  priorityClassName?: string;
  spec?: object;
}

/** Builds a pod like the DaemonSet controller does for a node. */
function daemonPod({ node = 'six', owner, annotations, labels, priorityClassName, spec }: PodDiffers = {}) {
  const controller = { apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'agent', uid: 'd', controller: true };
  const matchFields = [{ key: 'metadata.name', operator: 'In', values: [node] }];
  const terms = { nodeSelectorTerms: [{ matchFields }] };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      generateName: 'agent-',
      namespace: c.namespace,
      ...(annotations && { annotations }),
      labels: { 'controller-revision-hash': '6d8f7', 'pod-template-generation': '1', ...labels },
      ...(owner === null ? {} : { ownerReferences: [owner ?? controller] }),
    },
    spec: {
      affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: terms } },
      tolerations: [{ operator: 'Exists' }],
      containers: [{ name: 'main', image: 'none' }],
      ...(priorityClassName && { priorityClassName }),
      ...spec,
    },
  };
}

interface Stored extends KubeObject {
  spec: { schedulingGates?: { name: string }[] };
}

/** Returns these pods as the apiserver would store them. */
function admitted(pods: readonly object[]): Promise<Stored[]> {
  return Promise.all(
    pods.map((pod) => c.admin.create(resources.pods as Resource<Stored>, pod as Stored, { dryRun: true })),
  );
}

async function gatesOf(...pods: object[]): Promise<string[][]> {
  return (await admitted(pods)).map(({ spec }) => (spec.schedulingGates ?? []).map(({ name }) => name));
}

const gated = [MAINTENANCE_GATE];

/** Creates a maintenance with these drain targets by node in its status. No worker runs here. */
async function maintenance(
  targets: Record<string, DrainPlanEntry[]>,
  stage: NodeMaintenanceStage = 'Drain',
): Promise<NodeMaintenance> {
  const applied = await c.applied(c.maintenance({ nodes: Object.keys(targets), stage }));
  const nodeStatuses = Object.entries(targets).map(([name, drainTargets]) => ({
    nodeRef: { name },
    drainTargets,
  }));
  return c.withStatus(applied, { nodeStatuses });
}

/** Waits for the gates. Once the sentinel pod is gated, the apiserver has observed all earlier objects too. */
async function eventuallyGated(...rows: [pod: object, gates: string[]][]): Promise<void> {
  const sentinel = 'sentinel';
  await maintenance({ [sentinel]: [entry('DaemonSet', max)] });
  await eventually('the sentinel to be gated', async () =>
    expect(await gatesOf(daemonPod({ node: sentinel }))).toEqual([gated]),
  );
  await eventually('the pods with their gates', async () =>
    expect(await gatesOf(...rows.map(([pod]) => pod))).toEqual(rows.map(([, gates]) => gates)),
  );
}

describe('a pod of a DaemonSet gets the annotation of its evacuator', () => {
  const annotationOf = async (pod: object) => (await admitted([pod]))[0]?.metadata.annotations;

  test('when it has none', async () => {
    expect(await annotationOf(daemonPod())).toEqual({
      [DAEMONSET_EVACUATOR_ANNOTATION]: '10000/controller',
    });
  });

  test('in addition to other annotations', async () => {
    expect(await annotationOf(daemonPod({ annotations: { 'example.com/mine': 'yes' } }))).toEqual({
      'example.com/mine': 'yes',
      [DAEMONSET_EVACUATOR_ANNOTATION]: '10000/controller',
    });
  });

  test('unless it has one with another value', async () => {
    const annotations = { [DAEMONSET_EVACUATOR_ANNOTATION]: '5/controller' };
    expect(await annotationOf(daemonPod({ annotations }))).toEqual(annotations);
  });

  test.each([
    { when: 'it has no controller', owner: null },
    {
      when: 'its controller is of another kind',
      owner: { apiVersion: 'apps/v1', kind: 'ReplicaSet', controller: true },
    },
    {
      when: 'its controller is a DaemonSet of another API group',
      owner: { apiVersion: 'example.com/v1', kind: 'DaemonSet', controller: true },
    },
    {
      when: 'a DaemonSet owns it without being its controller',
      owner: { apiVersion: 'apps/v1', kind: 'DaemonSet' },
    },
  ])('but not when $when', async ({ owner }) => {
    const whole = owner === null ? null : { name: 'agent', uid: 'd', ...owner };
    expect(await annotationOf(daemonPod({ owner: whole }))).toBeUndefined();
  });
});

describe('a pod of a DaemonSet is gated', () => {
  test('when the drain targets of its node include it, regardless of its tolerations', async () => {
    await maintenance({ six: [entry('Default', max), entry('DaemonSet', 5000)] });
    await eventuallyGated([daemonPod(), gated]);
  });

  test('in addition to its own gates', async () => {
    await maintenance({ six: [entry('DaemonSet', max)] });
    const schedulingGates = [{ name: 'example.com/first' }];
    await eventuallyGated([daemonPod({ spec: { schedulingGates } }), ['example.com/first', ...gated]]);
  });

  test('once, when several maintenances target it', async () => {
    for (const _ of ['one', 'two']) await maintenance({ six: [entry('DaemonSet', max)] });
    await eventuallyGated([daemonPod(), gated]);
  });

  test('but not when the drain targets are of another node', async () => {
    await maintenance({ six: [entry('DaemonSet', max)], seven: [entry('Default', max)] });
    await maintenance({ five: [entry('DaemonSet', max)] });
    await eventuallyGated(
      [daemonPod({ node: 'six' }), gated],
      [daemonPod({ node: 'five' }), gated],
      [daemonPod({ node: 'seven' }), []],
      [daemonPod({ node: 'four' }), []],
    );
  });

  test('but not when its priority exceeds the drain targets', async () => {
    await maintenance({ six: [entry('Default', max), entry('DaemonSet', 5000)] });
    await eventuallyGated(
      [daemonPod(), gated],
      [daemonPod({ priorityClassName: 'system-node-critical' }), []],
    );
  });

  test.each<{ stage: NodeMaintenanceStage }>([{ stage: 'Idle' }, { stage: 'Cordon' }, { stage: 'Complete' }])(
    'but not in stage $stage',
    async ({ stage }) => {
      await maintenance({ six: [entry('DaemonSet', max)] }, stage);
      await eventuallyGated([daemonPod(), []]);
    },
  );

  test('by none that is labelled as complete, which the policy need not evaluate', async () => {
    const { metadata } = await maintenance({ six: [entry('DaemonSet', max)] });
    const labels = { [COMPLETED_LABEL]: 'true' };
    // Only the worker may label it in this stage.
    await c.cluster.kube.mergePatch(
      resources.nodeMaintenances,
      { name: metadata.name },
      { metadata: { labels } },
    );
    // An admission server in place of the policy has all maintenances in memory.
    const isWebhook = process.env['NM_TEST_MUTATING_WEBHOOKS'] === 'true';
    await eventuallyGated([daemonPod(), isWebhook ? gated : []]);
  });

  test('but not when the maintenance is being deleted', async () => {
    const existing = await maintenance({ six: [entry('DaemonSet', max)] });
    await c.applied({
      ...c.maintenance({ name: existing.metadata.name, nodes: ['six'], stage: 'Drain' }),
      metadata: { name: existing.metadata.name, finalizers: ['example.com/held'] },
    });
    await c.deleted({ ...existing, kind: 'NodeMaintenance' });
    await eventuallyGated([daemonPod(), []]);
  });

  test('but not when it is the node agent of the installation', async () => {
    await maintenance({ six: [entry('DaemonSet', max)] });
    const spec = { serviceAccountName: AGENT_SERVICE_ACCOUNT };
    const key = { namespace: SYSTEM_NAMESPACE, name: AGENT_SERVICE_ACCOUNT };
    const isInstalled = (await c.admin.get(serviceAccounts, key)) !== undefined;
    if (!isInstalled) await c.admin.create(serviceAccounts, { metadata: key });
    await c.admin.create(serviceAccounts, { metadata: { ...key, namespace: c.namespace } });
    const { metadata, ...rest } = daemonPod({ spec });
    await eventuallyGated(
      [{ ...rest, metadata: { ...metadata, namespace: SYSTEM_NAMESPACE } }, []],
      [{ ...rest, metadata: { ...metadata, namespace: c.namespace } }, gated],
    );
    if (!isInstalled) await remove(c.admin, serviceAccounts, key);
  });

  test('but not when it does not belong to a DaemonSet, nor when it is already bound', async () => {
    await maintenance({ six: [entry('DaemonSet', max), entry('Default', max)] });
    await eventuallyGated(
      [daemonPod({ owner: null }), []],
      [daemonPod({ spec: { nodeName: 'six' } }), []],
      [daemonPod(), gated],
    );
  });

  test('on each of five thousand nodes of a maintenance', async () => {
    const nodes = Array.from({ length: 5_000 }, (_, i) => `thousand-${i}`);
    const targets = [entry('Default', max), entry('DaemonSet', max), entry('Static', max)];
    const applied = await c.applied(c.maintenance({ nodes: ['thousand-0'], stage: 'Drain' }));
    await c.withStatus(applied, {
      nodeStatuses: nodes.map((name) => ({ nodeRef: { name }, drainTargets: targets })),
    });
    await eventuallyGated(
      [daemonPod({ node: 'thousand-0' }), gated],
      [daemonPod({ node: 'thousand-4999' }), gated],
      [daemonPod({ node: 'thousand-5000' }), []],
    );
  });
});

const keys = ['app', 'tier'];
const values = ['a', 'b', ''];
const requirement = fc
  .record({
    key: fc.constantFrom(...keys),
    operator: fc.constantFrom('In', 'NotIn', 'Exists', 'DoesNotExist'),
    values: fc.subarray(values, { minLength: 1 }),
  })
  .map(({ operator, values: given, key }) =>
    operator === 'In' || operator === 'NotIn' ? { key, operator, values: given } : { key, operator },
  );
const someLabels = fc.dictionary(fc.constantFrom(...keys), fc.constantFrom(...values), { maxKeys: 2 });
const selector = fc.record(
  { matchLabels: someLabels, matchExpressions: fc.array(requirement, { maxLength: 2 }) },
  { requiredKeys: [] },
);
const target = fc
  .record({
    podType: fc.constantFrom('DaemonSet', 'DaemonSet', 'Default', 'Static'),
    podPriority: fc.constantFrom(-1, 0, max),
    podSelector: fc.option(selector, { nil: undefined }),
  })
  .map(({ podType, podPriority, podSelector }) => entry(podType, podPriority, podSelector));
const sample = fc.record({ targets: fc.array(target, { maxLength: 3 }), labels: someLabels });

// All at once: the apiserver takes a second to learn of each maintenance.
test('the policy and the domain agree on which pods drain targets include', async () => {
  const samples = fc.array(sample, { minLength: 120, maxLength: 120 });
  await fc.assert(
    fc.asyncProperty(samples, async (drawn) => {
      await c.maintenancesDropped();
      const rows = drawn.map(({ targets, labels }, i) => {
        const newPod = daemonPod({ node: `n${i}`, labels });
        return { i, targets, newPod, isTargeted: targetsPod(targets, newPod as unknown as Pod) };
      });
      await maintenance(Object.fromEntries(rows.map(({ i, targets }) => [`n${i}`, targets])));
      await eventuallyGated(
        ...rows.map(({ newPod, isTargeted }): [object, string[]] => [newPod, isTargeted ? gated : []]),
      );
    }),
    { numRuns: 1, endOnFailure: true },
  );
});
