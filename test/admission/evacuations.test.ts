import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import { EVICTION_ANNOTATION, INSTIGATOR_FINALIZER } from '../../api/names.ts';
import type { DirectEvictions } from '../../admission/evacuations.ts';
import { replacementName } from '../../domain/evacuation/evacuation.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { type Answer, type Kubectl, kubectlOf } from '../api/kubectl.ts';
import { servedAdmission, type TestAdmission } from '../kit/admission.ts';
import { type PodDiffers, testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { mirrorPodOn } from '../kit/nodeAgent.ts';
import { resetRegistration } from '../kit/registration.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let kubectl: Kubectl;
let node: string;

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
  c = await testCluster(sandbox, { prefix: 'evac-adm' });
  node = await c.nodeNamed('n');
});

afterAll(async () => {
  await resetRegistration(c.admin);
  await c?.close();
  await releaseSandbox(sandbox);
});

const podWith = (classes: Record<string, string>, differs: PodDiffers = {}) => {
  const annotations = Object.fromEntries(
    Object.entries(classes).map(([name, value]) => [
      `evacuation.coordination.k8s.io/priority_${name}`,
      value,
    ]),
  );
  return c.podOn(node, { annotations, ...differs });
};
const controller = { 'deployment.apps.k8s.io': '10000/controller' };

type Change = (evacuation: Evacuation) => Evacuation;
const asIs: Change = (evacuation) => evacuation;

/** Returns the answer of kubectl to the dry-run creation of an Evacuation by a user. */
const dryRun = (pod: Pod, change: Change = asIs): Promise<Answer> =>
  kubectl(['create', '--dry-run=server', '-o', 'json', '-f', '-'], change(c.evacuation(pod, [])));

async function resolved(pod: Pod, change: Change = asIs): Promise<Evacuation> {
  const { code, stdout, stderr } = await dryRun(pod, change);
  expect({ code, stderr }).toMatchObject({ code: 0 });
  return JSON.parse(stdout) as Evacuation;
}

/** Requests an eviction like kubectl drain, without retries. */
const evict = ({ metadata: { name, namespace = '' } }: Pod): Promise<Answer> => {
  const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name, namespace } };
  const path = `/api/v1/namespaces/${namespace}/pods/${name}/eviction`;
  return kubectl(['create', '--raw', path, '-f', '-'], eviction);
};

async function serving(directEvictions: DirectEvictions): Promise<TestAdmission> {
  const served = await servedAdmission(c, { directEvictions });
  const pod = await podWith({ 'probe.io': '1/x' });
  await eventually('the registration to be in force', async () =>
    expect((await resolved(pod)).spec.evacuators).toHaveLength(1),
  );
  return served;
}

describe('An Evacuation on admission', () => {
  let served: TestAdmission;
  beforeAll(async () => {
    served = await serving('reject');
  });
  afterAll(() => served?.stopped());

  test('is resolved from its pod, as in the example of the KEP', async () => {
    const pod = await podWith(controller, { labels: { app: 'muffin-orders' } });
    const { metadata, spec } = await resolved(pod);
    expect(metadata.labels).toEqual({ app: 'muffin-orders' });
    expect(spec).toEqual({
      podRef: { name: pod.metadata.name, uid: pod.metadata.uid },
      progressDeadlineSeconds: 1800,
      evacuators: [{ evacuatorClass: 'deployment.apps.k8s.io', priority: 10_000, role: 'controller' }],
    });
  });

  test('keeps its labels, and gets the other labels of the pod', async () => {
    const pod = await podWith({}, { labels: { app: 'orders', 'example.com/tier': 'front' } });
    const { metadata } = await resolved(pod, (evacuation) => ({
      ...evacuation,
      metadata: { ...evacuation.metadata, labels: { app: 'mine' } },
    }));
    expect(metadata.labels).toEqual({ app: 'mine', 'example.com/tier': 'front' });
  });

  test('of a static pod names its node, whatever it and the pod say, and its agent', async () => {
    const label = 'nodemaintenance.k8s.io/node';
    const pod = await mirrorPodOn(c, node, { labels: { app: 'proxy', [label]: 'other' } });
    for (const labels of [undefined, { mine: 'yes', [label]: 'third' }]) {
      const { metadata, spec } = await resolved(pod, (evacuation) => ({
        ...evacuation,
        metadata: { ...evacuation.metadata, ...(labels && { labels }) },
      }));
      expect(metadata.labels).toEqual({ app: 'proxy', ...labels, [label]: node });
      expect(spec.evacuators).toEqual([
        { evacuatorClass: 'kubelet.k8s.io', priority: 10_000, role: 'controller' },
      ]);
    }
  });

  test('of another pod names no node', async () => {
    const label = 'nodemaintenance.k8s.io/node';
    const { metadata } = await resolved(await podWith({}, { labels: { [label]: node } }), (evacuation) => ({
      ...evacuation,
      metadata: { ...evacuation.metadata, labels: { [label]: 'third', mine: 'yes' } },
    }));
    expect(metadata.labels).toEqual({ mine: 'yes' });
  });

  test('of a pod without evacuators has none', async () => {
    expect((await resolved(await podWith({}))).spec.evacuators).toBeUndefined();
  });

  test.each([
    { when: 'other evacuators', classes: controller, want: 1 },
    { when: 'evacuators although the pod has none', classes: {}, want: undefined },
  ])('with $when gets those of the pod, with a warning', async ({ classes, want }) => {
    const evacuators = [{ evacuatorClass: 'mine.io', priority: 1, role: 'x' }];
    const { stdout, stderr } = await dryRun(await podWith(classes), (evacuation) => ({
      ...evacuation,
      spec: { ...evacuation.spec, evacuators },
    }));
    expect((JSON.parse(stdout) as Evacuation).spec.evacuators?.length).toBe(want);
    expect(stderr).toContain(
      'Warning: spec.evacuators: replaced with the evacuators in the annotations of the pod',
    );
  });

  test.each<{ when: string; change: Change; message: (pod: Pod) => string }>([
    {
      when: 'of a pod that does not exist',
      change: ({ spec, ...rest }) => ({ ...rest, spec: { ...spec, podRef: { name: 'ghost', uid: 'u' } } }),
      message: () =>
        `spec.podRef.name: pod ${c.namespace}/ghost does not exist: use the name of an existing pod`,
    },
    {
      when: 'of a previous pod of the same name',
      change: ({ spec, ...rest }) => ({ ...rest, spec: { ...spec, podRef: { ...spec.podRef, uid: 'old' } } }),
      message: ({ metadata: { name, uid } }) =>
        `spec.podRef.uid: pod ${c.namespace}/${name} has UID "${uid}", not "old": the pod was replaced by another pod of the same name`,
    },
    {
      when: 'with a wrong name',
      change: ({ metadata, ...rest }) => ({ ...rest, metadata: { ...metadata, name: 'mine' } }),
      message: ({ metadata: { name, uid } }) =>
        `metadata.name: must be "${uid}-${name}" (<podUID>-<podName>), so that a pod has at most one Evacuation (got "mine")`,
    },
  ])('$when is rejected, with the field and the remedy', async ({ change, message }) => {
    const pod = await podWith({});
    const { code, stderr } = await dryRun(pod, change);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(message(pod)) });
  });

  test('of a pod with an invalid annotation is rejected, with the name of the annotation', async () => {
    const pod = await podWith({ 'bad.io': 'soon', ...controller });
    const { code, stderr } = await dryRun(pod);
    expect(code).toBe(1);
    expect(stderr).toContain(
      `pod ${c.namespace}/${pod.metadata.name}: metadata.annotations[evacuation.coordination.k8s.io/priority_bad.io]: expected "<priority>/<role>", such as "10000/controller" (got "soon")`,
    );
  });

  const ofWorker = [
    { who: 'a drain', marks: { finalizers: [INSTIGATOR_FINALIZER] } },
    { who: 'an Eviction', marks: { annotations: { [EVICTION_ANNOTATION]: 'web/uid' } } },
  ];

  test.each(ofWorker)(
    'of $who is allowed despite an invalid annotation, with the other evacuators',
    async ({ marks }) => {
      const pod = await podWith({ 'bad.io': 'soon', ...controller });
      const { spec } = await resolved(pod, ({ metadata, ...rest }) => ({
        ...rest,
        metadata: { ...metadata, ...marks },
      }));
      expect(spec.evacuators?.map((one) => one.evacuatorClass)).toEqual(['deployment.apps.k8s.io']);
    },
  );

  test.each(ofWorker)('of $who may replace one that others keep', async ({ marks }) => {
    const pod = await podWith(controller);
    const name = replacementName(pod.metadata, { name: '', uid: '01234567-89ab' });
    const { metadata } = await resolved(pod, ({ metadata: given, ...rest }) => ({
      ...rest,
      metadata: { ...given, name, ...marks },
    }));
    expect(metadata.name).toBe(name);
  });
});

describe('A direct eviction', () => {
  let served: TestAdmission;
  beforeAll(async () => {
    served = await serving('reject');
  });
  afterAll(() => served?.stopped());

  test('of a pod with evacuators is rejected like an eviction that a budget does not allow', async () => {
    const pod = await podWith(controller);
    const { code, stderr } = await evict(pod);
    expect(code).toBe(1);
    expect(stderr).toContain('TooManyRequests');
    expect(stderr).toContain(
      `pod ${c.namespace}/${pod.metadata.name} cannot be evicted because it has evacuators (deployment.apps.k8s.io): create a NodeMaintenance for its node, or an Evacuation for the pod`,
    );
  });

  test('of a static pod is allowed, on a node without an agent, too: the kubelet creates the mirror pod again', async () => {
    const pod = await mirrorPodOn(c, node);
    expect(await evict(pod)).toMatchObject({ code: 0 });
  });

  test('is reported by our client as Forbidden, which is not retried at once', async () => {
    const { name, namespace = '', uid = '' } = (await podWith(controller)).metadata;
    await expect(c.admin.evict({ name, namespace, uid })).rejects.toMatchObject({
      kind: 'Forbidden',
      status: 429,
    });
  });

  test('of a pod that is being evacuated is rejected with its evacuator and the message of that', async () => {
    const pod = await podWith(controller);
    const evacuation = await c.applied(c.evacuation(pod, []));
    await c.withStatus(evacuation, {
      activeEvacuatorClass: 'deployment.apps.k8s.io',
      message: 'waiting for a replacement',
    });
    expect((await evict(pod)).stderr).toContain(
      `pod ${c.namespace}/${pod.metadata.name} is being evacuated by deployment.apps.k8s.io (waiting for a replacement): wait until the pod is gone; see Evacuation ${evacuation.metadata.name}`,
    );
  });

  test('is allowed when no evacuator remains', async () => {
    const pod = await podWith(controller);
    const evacuation = await c.applied(c.evacuation(pod, []));
    const lastTransitionTime = c.admin.now().toISOString();
    const reason = { reason: 'EvacuatorCompleted', message: '', lastTransitionTime };
    const conditions = [{ type: 'EvacuatorsExhausted', status: 'True', ...reason }];
    await c.withStatus(evacuation, { conditions });
    expect(await evict(pod)).toMatchObject({ code: 0 });
    await c.eventuallyGone(pod);
  });

  test('is allowed when no evacuator remains in the Evacuation that replaces a deleted one', async () => {
    const pod = await podWith(controller);
    const made = c.evacuation(pod, []);
    const kept = { ...made, metadata: { ...made.metadata, finalizers: ['example.com/hold'] } };
    const first = await c.applied(kept);
    await c.deleted(first);
    const name = replacementName(pod.metadata, first.metadata);
    const ours = c.evacuation(pod);
    const replacement = await c.applied({ ...ours, metadata: { ...ours.metadata, name } });
    expect((await evict(pod)).stderr).toContain(`see Evacuation ${name}`);
    const lastTransitionTime = c.admin.now().toISOString();
    const reason = { reason: 'EvacuatorCompleted', message: '', lastTransitionTime };
    await c.withStatus(replacement, {
      conditions: [{ type: 'EvacuatorsExhausted', status: 'True', ...reason }],
    });
    expect(await evict(pod)).toMatchObject({ code: 0 });
    await c.eventuallyGone(pod);
    for (const { metadata } of [first, replacement])
      await c.admin.mergePatch(resources.evacuations, metadata, { metadata: { finalizers: null } });
  });

  test.each([
    { when: 'without evacuators', classes: {} },
    { when: 'whose only annotation is invalid', classes: { 'bad.io': 'soon' } },
    { when: 'that its DaemonSet has orphaned', classes: { 'daemonset.apps.k8s.io': '10000/controller' } },
  ])('of a pod $when is allowed', async ({ classes }) => {
    const pod = await podWith(classes);
    expect(await evict(pod)).toMatchObject({ code: 0 });
    await c.eventuallyGone(pod);
  });

  test('by the worker is allowed', async () => {
    const pod = await podWith(controller);
    const { name, namespace = '', uid = '' } = pod.metadata;
    expect(await c.cluster.kube.evict({ name, namespace, uid })).toEqual({ kind: 'Evicted' });
  });

  test('from a node that a maintenance drains prints which one, and that it evacuates the pods by itself, once', async () => {
    const own = await c.nodeNamed('drained');
    const pods = await c.podsOn(own, 2);
    const maintenance = await c.applied(c.maintenance({ nodes: [own], stage: 'Drain' }));
    await c.withStatus(maintenance, {
      nodeStatuses: [{ nodeRef: { name: own }, unschedulableBefore: false }],
    });
    const { code, stderr } = await kubectl(['drain', own, '--force', '--timeout=60s', '--ignore-daemonsets']);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    for (const pod of pods) await c.eventuallyGone(pod);
    const warning = `Warning: NodeMaintenance ${maintenance.metadata.name} (stage Drain) holds node ${own} and evacuates its pods by itself, in the order of its drain plan: a direct eviction does not follow that order`;
    expect(stderr.split('\n').filter((line) => line === warning)).toHaveLength(1);
    await c.maintenancesDropped();
  });

  test('by kubectl drain is retried until the pod is evacuated', async () => {
    const own = await c.nodeNamed('drained');
    const pod = await c.podOn(own, {
      annotations: { 'evacuation.coordination.k8s.io/priority_data.io': '1/x' },
    });
    const args = ['drain', own, '--force', '--timeout=60s', '--ignore-daemonsets', '--delete-emptydir-data'];
    const draining = kubectl(args);
    await eventually('the node to be cordoned', async () =>
      expect((await c.node(own)).spec.unschedulable).toBe(true),
    );
    await c.deleted(pod);
    const { code, stderr } = await draining;
    expect({ code, stderr }).toMatchObject({ code: 0 });
    await c.uncordoned(own);
  });
});

describe('While direct evictions are allowed', () => {
  let served: TestAdmission;
  beforeEach(async () => {
    served = await serving('allow');
  });
  afterEach(() => served?.stopped());

  test('a pod with evacuators can be evicted directly', async () => {
    const pod = await podWith(controller);
    await eventually('the eviction', async () => expect(await evict(pod)).toMatchObject({ code: 0 }));
    await c.eventuallyGone(pod);
  });
});

describe('Without an admission server', () => {
  beforeAll(async () => {
    const served = await serving('reject');
    await served.stopped();
  });

  test('pods with evacuators can be evicted directly, and Evacuations are resolved later by the controller', async () => {
    const pod = await podWith(controller);
    expect((await resolved(pod)).spec.evacuators).toBeUndefined();
    expect(await evict(pod)).toMatchObject({ code: 0 });
    const { name, namespace = '' } = pod.metadata;
    await eventually('the pod to be gone', async () =>
      expect(await c.admin.get(resources.pods, { name, namespace })).toBeUndefined(),
    );
  });
});
