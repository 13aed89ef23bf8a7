import type { Deployment, KubeObject, Pod } from '../../../../api/core.ts';
import type { Evacuation } from '../../../../api/evacuation.ts';
import { RELEASED_ANNOTATION } from '../../../../api/names.ts';
import { EvacuationController } from '../../../../controllers/evacuation/evacuation.ts';
import {
  defaultEvacuatorSettings,
  type EvacuatorSettings,
} from '../../../../controllers/evacuation/knownEvacuators.ts';
import { DeploymentEvacuator } from '../../../../controllers/evacuation/evacuators/deployment.ts';
import { EventRecorder } from '../../../../kube/events.ts';
import { type Resource, resources } from '../../../../kube/resources.ts';
import type { Sandbox } from '../../../../sandbox/sandbox.ts';
import { silentLog, testCluster, type TestCluster } from '../../../kit/cluster.ts';
import { type EndpointWatch, watchEndpoints } from '../../../kit/endpoints.ts';
import { eventually, throughout } from '../../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../../kit/sandbox.ts';

const annotation = 'evacuation.coordination.k8s.io/priority_deployment.apps.k8s.io';
const evacuatorClass = 'deployment.apps.k8s.io';

let sandbox: Sandbox;
let c: TestCluster;
let stop: () => Promise<void>;
const watches: EndpointWatch[] = [];

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'move' });
});

beforeEach(() => {
  stop = startEvacuator();
});

afterEach(async () => {
  for (const watch of watches.splice(0)) watch.close();
  await stop();
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

const adoptionBackOff = { firstMs: 200, capMs: 200 };

function startEvacuator(differs: Partial<EvacuatorSettings> = {}): () => Promise<void> {
  const running = new AbortController();
  const events = new EventRecorder({ kube: c.cluster.kube, component: 'test', log: silentLog });
  const deps = { cluster: c.cluster, events, log: silentLog };
  const ended = Promise.all([
    new EvacuationController({ ...deps, evacuators: { ...defaultEvacuatorSettings, ...differs } }).run(
      running.signal,
    ),
    new DeploymentEvacuator({ ...deps, adoptionBackOff }).run(running.signal),
  ]);
  return async () => {
    running.abort();
    await ended;
    await events.flush();
  };
}

/** An application with a Service and two nodes of its own. All of its pods are on the first node, which is cordoned. */
class App {
  readonly name: string;
  readonly nodes: readonly string[];
  readonly endpoints: EndpointWatch;
  readonly before: readonly Pod[];

  constructor(name: string, nodes: readonly string[], endpoints: EndpointWatch, before: readonly Pod[]) {
    this.name = name;
    this.nodes = nodes;
    this.endpoints = endpoints;
    this.before = before;
  }

  get pods(): readonly Pod[] {
    return c.cluster.pods.list().filter(({ metadata }) => metadata.labels?.['app'] === this.name);
  }

  get first(): Pod {
    return this.before[0] as Pod;
  }

  async deployment(): Promise<Deployment | undefined> {
    return c.admin.get(resources.deployments, { namespace: c.namespace, name: this.name });
  }

  async podNow({ metadata }: Pod) {
    return c.admin.get(resources.pods, { namespace: c.namespace, name: metadata.name });
  }
}

interface AppDiffers {
  replicas?: number;
  spec?: object;
  annotated?: boolean;
}

async function app({ replicas = 1, spec = {}, annotated = true }: AppDiffers = {}): Promise<App> {
  const name = c.named('app');
  const nodes = [await c.nodeNamed('n', { app: name }), await c.nodeNamed('n', { app: name })];
  const [first = '', second = ''] = nodes;
  await c.cordoned(second);
  await c.admin.create({ ...resources.services }, {
    metadata: { name, namespace: c.namespace },
    spec: { selector: { app: name }, ports: [{ port: 80 }] },
  } as KubeObject as never);
  const endpoints = await watchEndpoints(c.admin, c.namespace, name);
  await c.admin.create(resources.deployments, {
    metadata: { name, namespace: c.namespace },
    spec: {
      replicas,
      selector: { matchLabels: { app: name } },
      template: {
        metadata: {
          labels: { app: name },
          ...(annotated && { annotations: { [annotation]: '10000/controller' } }),
        },
        spec: {
          nodeSelector: { app: name },
          terminationGracePeriodSeconds: 0,
          containers: [{ name: 'main', image: 'fake' }],
        },
      },
      ...spec,
    },
  } as Deployment);
  watches.push(endpoints);
  await eventually(`${replicas} ready endpoints`, () => expect(endpoints.ready()).toHaveLength(replicas));
  const before = await eventually(`${replicas} pods that are Ready`, () => {
    const ready = c.podsOf(first).filter((pod) => pod.status.ready);
    expect(ready).toHaveLength(replicas);
    return [...ready];
  });
  await c.cordoned(first);
  return new App(name, nodes, endpoints, before);
}

const requestEvacuation = (pod: Pod, spec: Partial<Evacuation['spec']> = {}) => {
  const evacuation = c.evacuation(pod);
  return c.admin.create(resources.evacuations, { ...evacuation, spec: { ...evacuation.spec, ...spec } });
};

async function eventuallyReleased(web: App, pod: Pod): Promise<void> {
  await eventually(`pod ${pod.metadata.name} to be released`, async () => {
    const current = await web.podNow(pod);
    expect(current?.metadata.annotations?.[RELEASED_ANNOTATION]).toBeDefined();
    expect(current?.metadata.ownerReferences ?? []).toEqual([]);
  });
}

async function cancel(evacuation: Evacuation): Promise<void> {
  const { namespace = '', name, uid = '' } = evacuation.metadata;
  await c.admin.mergePatch(resources.evacuations, { namespace, name }, { metadata: { finalizers: [] } });
  await c.admin.delete(resources.evacuations, { namespace, name }, { uid });
}

/** Waits until the application has its first pod again, and no other. */
async function eventuallyReturned(web: App): Promise<void> {
  await eventually('the pod to be owned by its ReplicaSet again', async () => {
    const now = await web.podNow(web.first);
    expect(now?.metadata.labels).toEqual(web.first.metadata.labels);
    expect(now?.metadata.ownerReferences).toMatchObject([{ kind: 'ReplicaSet', controller: true }]);
    expect(now?.metadata.annotations?.[RELEASED_ANNOTATION]).toBeUndefined();
    expect(web.pods.map(({ metadata }) => metadata.name)).toEqual([web.first.metadata.name]);
  });
}

describe('a pod of a Deployment', () => {
  test('is replaced while its Service always has a ready endpoint, and the Deployment is not changed', async () => {
    const web = await app();
    const { metadata, spec } = (await web.deployment()) as Deployment;
    await c.uncordoned(web.nodes[1] ?? '');
    await requestEvacuation(web.first);
    await c.eventuallyGone(web.first);
    await eventually('only the replacement to serve', () => {
      expect(web.pods.map((pod) => pod.spec.nodeName)).toEqual([web.nodes[1]]);
      expect(web.endpoints.ready()).toEqual(web.pods.map((pod) => pod.metadata.name));
    });
    expect(Math.min(...web.endpoints.counts)).toBe(1);
    const after = (await web.deployment()) as Deployment;
    expect({ spec: after.spec, generation: after.metadata.generation }).toEqual({
      spec,
      generation: metadata.generation,
    });
    await eventuallyEvent(web.first, 'ReleasedFromReplicaSet');
  });

  test.each([
    { when: 'minAvailable 1', budget: { minAvailable: 1 } },
    { when: 'maxUnavailable 0', budget: { maxUnavailable: 0 } },
  ])('is replaced although its budget of $when would never allow an eviction', async ({ budget }) => {
    const web = await app();
    await c.applied(c.budget({ app: web.name }, budget));
    await c.uncordoned(web.nodes[1] ?? '');
    await requestEvacuation(web.first);
    await c.eventuallyGone(web.first);
    expect(Math.min(...web.endpoints.counts)).toBe(1);
  });

  test.each([
    { when: 'is the only one', replicas: 1, message: /has a single replica/ },
    {
      when: 'is one of two and its budget can never allow an eviction',
      replicas: 2,
      message: /can never allow/,
    },
  ])(
    'without an annotation is replaced where the installation has chosen that, if it $when',
    async ({ replicas, message }) => {
      await stop();
      stop = startEvacuator({ deploymentRegistration: 'automatic' });
      const web = await app({ replicas, annotated: false });
      await c.applied(c.budget({ app: web.name }, { maxUnavailable: 0 }));
      await c.uncordoned(web.nodes[1] ?? '');
      const before = web.endpoints.counts.length;
      const evacuation = await requestEvacuation(web.first);
      await c.eventuallyGone(web.first);
      // The last change may not have been reported yet.
      expect(Math.min(...web.endpoints.counts.slice(before))).toBeGreaterThanOrEqual(replicas);
      await eventually('the Event', async () =>
        expect(await c.eventsAbout(evacuation)).toContainEqual(
          expect.stringMatching(new RegExp(`^EvacuatorRegistered: .*${message.source}`)),
        ),
      );
    },
  );

  test('without an annotation waits for its budget, until the installation chooses that', async () => {
    const web = await app({ annotated: false });
    await c.applied(c.budget({ app: web.name }, { maxUnavailable: 0 }));
    await requestEvacuation(web.first);
    await eventually('the blocker', async () =>
      expect((await c.evacuationOf(web.first))?.status?.conditions).toMatchObject([
        { reason: 'DisruptionBudgetNeverAllows' },
      ]),
    );
    expect((await c.evacuationOf(web.first))?.spec.evacuators).toBeUndefined();
    await stop();
    stop = startEvacuator({ deploymentRegistration: 'automatic' });
    await eventuallyReleased(web, web.first);
    await eventually('the budget not to be named any more', async () =>
      expect((await c.evacuationOf(web.first))?.status?.conditions).toEqual([]),
    );
    await c.uncordoned(web.nodes[1] ?? '');
    await c.eventuallyGone(web.first);
  });

  test('waits while its replacement is not scheduled, and the Evacuation reports this without progress', async () => {
    const web = await app();
    await requestEvacuation(web.first);
    await eventuallyReleased(web, web.first);
    const status = await eventually('the message', async () => {
      const current = (await c.evacuationOf(web.first))?.status;
      expect(current?.message).toMatch(
        /^0 of 1 pods of Deployment .* are available, not counting pods that are being evacuated: .* is not scheduled: .*unschedulable/,
      );
      expect(current?.expectedEvacuationFinishTime).toBeDefined();
      return current;
    });
    await throughout('the deadline is not extended', 2_000, async () => {
      const now = (await c.evacuationOf(web.first))?.status;
      expect(now?.activeEvacuatorClass).toBe(evacuatorClass);
      expect(now?.evacuationProgressTimestamp).toBe(status?.evacuationProgressTimestamp);
    });
    expect(web.endpoints.ready()).toEqual([web.first.metadata.name]);
    await c.uncordoned(web.nodes[1] ?? '');
    await c.eventuallyGone(web.first);
    expect(Math.min(...web.endpoints.counts)).toBe(1);
  });

  test('is evicted at the deadline when its replacement never becomes Ready', async () => {
    const web = await app();
    await requestEvacuation(web.first, { progressDeadlineSeconds: 4 });
    await c.eventuallyGone(web.first);
    await eventuallyEvent(web.first, 'ReleasedFromReplicaSet');
  });

  test('is returned to its ReplicaSet when the evacuation is cancelled, and the replacement that does not serve is deleted', async () => {
    const web = await app();
    const evacuation = await requestEvacuation(web.first);
    await eventuallyReleased(web, web.first);
    await eventually('a replacement', () => expect(web.pods).toHaveLength(2));
    await cancel(evacuation);
    await eventuallyReturned(web);
    expect(Math.min(...web.endpoints.counts)).toBe(1);
    await eventuallyEvent(web.first, 'ReturnedToReplicaSet');
  });

  test('is returned to its ReplicaSet when the evacuation was cancelled while no evacuator ran', async () => {
    const web = await app();
    const evacuation = await requestEvacuation(web.first);
    await eventuallyReleased(web, web.first);
    await stop();
    await cancel(evacuation);
    stop = startEvacuator();
    await eventuallyReturned(web);
  });

  test('is not returned to a ReplicaSet that is scaled to 0 while its Deployment has too few pods', async () => {
    const web = await app();
    const key = { namespace: c.namespace, name: web.name };
    const deployment = await c.admin.mergePatch(resources.deployments, key, { spec: { replicas: 2 } });
    const old = await previousReplicaSetOf(web);
    const release = {
      deployment: { name: web.name, uid: deployment.metadata.uid },
      replicaSet: { name: old.metadata.name, uid: old.metadata.uid },
      podTemplateHash: 'previous',
      releasedAt: c.cluster.kube.now().toISOString(),
    };
    const pod = await c.podOn(web.nodes[0] ?? '', {
      labels: { app: web.name },
      annotations: { [RELEASED_ANNOTATION]: JSON.stringify(release) },
    });
    // Several checks of the evacuator.
    await throughout('it keeps serving', 1_000, async () => {
      const { labels, deletionTimestamp } = (await web.podNow(pod))?.metadata ?? {};
      expect({ labels, deletionTimestamp }).toEqual({ labels: { app: web.name } });
    });
    await c.admin.mergePatch(resources.deployments, key, { spec: { replicas: 1 } });
    await c.eventuallyGone(pod);
    await eventuallyEvent(pod, 'ReturnedToReplicaSet');
  });

  test('is continued by the next evacuator after a restart', async () => {
    const web = await app();
    await requestEvacuation(web.first);
    await eventuallyReleased(web, web.first);
    await stop();
    const before = (await c.evacuationOf(web.first))?.status?.evacuationProgressTimestamp;
    stop = startEvacuator();
    await throughout('the restart is not reported as progress', 2_000, async () =>
      expect((await c.evacuationOf(web.first))?.status?.evacuationProgressTimestamp).toBe(before),
    );
    await c.uncordoned(web.nodes[1] ?? '');
    await c.eventuallyGone(web.first);
    expect(Math.min(...web.endpoints.counts)).toBe(1);
    expect(web.pods.map((pod) => pod.spec.nodeName)).toEqual([web.nodes[1]]);
  });

  /** Also waits for the deletion of the ReplicaSet, because a pod whose evacuation is cancelled is returned to it otherwise. */
  async function deleteDeployment(web: App): Promise<void> {
    const { metadata } = (await web.deployment()) as Deployment;
    const options = { uid: metadata.uid ?? '', propagationPolicy: 'Foreground' } as const;
    await c.admin.delete(resources.deployments, { namespace: c.namespace, name: web.name }, options);
    const [owner] = web.first.metadata.ownerReferences ?? [];
    const replicaSet = { namespace: c.namespace, name: owner?.name ?? '' };
    await eventually('the ReplicaSet to be gone', async () =>
      expect(await c.admin.get(resources.replicaSets, replicaSet)).toBeUndefined(),
    );
  }

  const eventuallyNoPods = (web: App) =>
    eventually(`all pods of ${web.name} to be gone`, () => expect(web.pods).toEqual([]));

  test('is deleted when its Deployment is deleted, whether evacuated or cancelled', async () => {
    const [evacuated, cancelled] = [await app(), await app()];
    await requestEvacuation(evacuated.first);
    const evacuation = await requestEvacuation(cancelled.first);
    for (const web of [evacuated, cancelled]) await eventuallyReleased(web, web.first);
    await deleteDeployment(evacuated);
    await eventuallyNoPods(evacuated);
    // Otherwise the evacuator may observe that the Deployment is gone before the Evacuation is cancelled.
    await stop();
    await deleteDeployment(cancelled);
    await cancel(evacuation);
    stop = startEvacuator();
    await eventuallyEvent(cancelled.first, 'Orphaned');
    await eventuallyNoPods(cancelled);
  });

  test('is evacuated again after it was returned to its ReplicaSet', async () => {
    const web = await app();
    const evacuation = await requestEvacuation(web.first);
    await eventuallyReleased(web, web.first);
    await cancel(evacuation);
    await requestEvacuation(web.first);
    await eventuallyReleased(web, web.first);
    await c.uncordoned(web.nodes[1] ?? '');
    await c.eventuallyGone(web.first);
    expect(Math.min(...web.endpoints.counts)).toBe(1);
  });

  test('is evicted with a message when an admission policy rejects the change of its labels', async () => {
    const web = await app();
    const allow = await denyRelease(web);
    const messages: string[] = [];
    const end = c.cluster.evacuations.subscribe(({ object: { spec, status } }) => {
      if (spec.podRef.uid === web.first.metadata.uid && status) messages.push(status.message);
    });
    await requestEvacuation(web.first);
    await c.eventuallyGone(web.first);
    end();
    await allow();
    expect(messages).toContainEqual(
      expect.stringMatching(
        /^The apiserver rejected releasing the pod from its ReplicaSet: .*labels are frozen/,
      ),
    );
  });

  test('is evicted at once when its Deployment uses the strategy Recreate', async () => {
    const web = await app({ spec: { strategy: { type: 'Recreate' } } });
    await requestEvacuation(web.first);
    await c.eventuallyGone(web.first);
  });

  test('follows a rollout that starts while it waits', async () => {
    const web = await app();
    await requestEvacuation(web.first);
    await eventuallyReleased(web, web.first);
    const template = { metadata: { labels: { release: '2' } } };
    await c.admin.mergePatch(
      resources.deployments,
      { namespace: c.namespace, name: web.name },
      { spec: { template } },
    );
    await c.uncordoned(web.nodes[1] ?? '');
    await c.eventuallyGone(web.first);
    await eventually('only the new release to serve', () => {
      expect(web.pods.map(({ metadata }) => metadata.labels?.['release'])).toEqual(['2']);
      expect(web.endpoints.ready()).toEqual(web.pods.map((pod) => pod.metadata.name));
    });
    expect(Math.min(...web.endpoints.counts)).toBe(1);
  });
});

/** Creates a ReplicaSet of a previous rollout. */
async function previousReplicaSetOf({ name }: App): Promise<KubeObject> {
  const labels = { app: name, 'pod-template-hash': 'previous' };
  const containers = [{ name: 'main', image: 'fake' }];
  return c.admin.create(
    resources.replicaSets as Resource,
    {
      metadata: { name: `${name}-previous`, namespace: c.namespace },
      spec: {
        replicas: 0,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { containers } },
      },
    } as KubeObject,
  );
}

/** Creates a policy that denies removing the label from pods of an application; the returned function deletes it. */
async function denyRelease(web: App): Promise<() => Promise<void>> {
  const { name } = web;
  const kinds = ['ValidatingAdmissionPolicy', 'ValidatingAdmissionPolicyBinding'].map((kind) => ({
    group: 'admissionregistration.k8s.io',
    version: 'v1',
    plural: kind.replace(/y$/, 'ie').toLowerCase() + 's',
    kind,
    namespaced: false,
  }));
  const rule = { apiGroups: [''], apiVersions: ['v1'], operations: ['UPDATE'], resources: ['pods'] };
  const matchesApp = `object.metadata.?labels['app'].orValue('') == '${name}'`;
  const specs = [
    {
      failurePolicy: 'Fail',
      matchConstraints: { resourceRules: [rule] },
      matchConditions: [{ name: 'ours', expression: matchesApp }],
      validations: [
        { expression: "'pod-template-hash' in object.metadata.labels", message: 'labels are frozen' },
      ],
    },
    { policyName: name, validationActions: ['Deny'] },
  ];
  for (const [index, resource] of kinds.entries())
    await c.admin.create(resource, { metadata: { name }, spec: specs[index] } as KubeObject);
  const unlabelled = await c.podOn(web.nodes[0] ?? '', { labels: { app: name } });
  await eventually('the policy to work', async () => {
    const key = { namespace: c.namespace, name: unlabelled.metadata.name };
    const annotations = { tried: `${performance.now()}` };
    await expect(c.admin.mergePatch(resources.pods, key, { metadata: { annotations } })).rejects.toThrow(
      'labels are frozen',
    );
  });
  return async () => {
    for (const resource of kinds) {
      const found = await c.admin.get<KubeObject>(resource, { name });
      await c.admin.delete(resource, { name }, { uid: found?.metadata.uid ?? '' });
    }
  };
}

test('an annotated pod that does not belong to a Deployment is evicted', async () => {
  const pod = await c.podOn(await c.nodeNamed('n'), { annotations: { [annotation]: '10000/controller' } });
  await requestEvacuation(pod);
  await c.eventuallyGone(pod);
});

test('at most maxSurge pods of a Deployment are released at a time, and as many serve as before', async () => {
  const web = await app({ replicas: 8, spec: { strategy: { rollingUpdate: { maxSurge: 2 } } } });
  let most = 0;
  const end = c.cluster.pods.subscribe(() => {
    const out = web.pods.filter(({ metadata }) => metadata.annotations?.[RELEASED_ANNOTATION] !== undefined);
    most = Math.max(most, out.length);
  });
  await c.uncordoned(web.nodes[1] ?? '');
  const before = web.endpoints.counts.length;
  await Promise.all(web.before.map((pod) => requestEvacuation(pod)));
  for (const pod of web.before) await c.eventuallyGone(pod);
  end();
  expect(most).toBe(2);
  expect(Math.min(...web.endpoints.counts.slice(before))).toBeGreaterThanOrEqual(8);
});

function eventuallyEvent(pod: Pod, reason: string): Promise<void> {
  return eventually(`the Event ${reason}`, async () =>
    expect(await c.eventsAbout(pod)).toContainEqual(expect.stringMatching(`^${reason}: `)),
  );
}
