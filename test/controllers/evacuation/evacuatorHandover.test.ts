import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { KubeObject, Pod } from '../../../api/core.ts';
import type { Evacuation, EvacuationStatus } from '../../../api/evacuation.ts';
import { INSTIGATOR_FINALIZER, MAINTENANCE_GATE } from '../../../api/names.ts';
import { runDaemonSetEvacuator } from '../../../controllers/evacuation/evacuators/daemonSet.ts';
import type { EvacuatorSettings } from '../../../controllers/evacuation/knownEvacuators.ts';
import { byGate } from '../../../kube/cluster.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { kubectlOf, succeeds } from '../../api/kubectl.ts';
import { daemons, pods } from '../../kit/builders.ts';
import { silentLog, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { evacuationControllerOn } from '../../kit/evacuationController.ts';
import { eventually, throughout } from '../../kit/eventually.ts';
import { mirrorPodOn, PlayedAgent } from '../../kit/nodeAgent.ts';
import { policies, policyBindings } from '../../kit/resources.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let node: string;
let stop: () => Promise<void>;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'handover' });
  node = await c.nodeNamed('n');
});

beforeEach(() => {
  c.requests.clear();
  stop = startController();
});

afterEach(() => stop());

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

const startController = (evacuators?: Partial<EvacuatorSettings>) =>
  evacuationControllerOn(c, evacuators && { evacuators });

const registered = (classes: Record<string, string>) =>
  Object.fromEntries(
    Object.entries(classes).map(([name, value]) => [
      `evacuation.coordination.k8s.io/priority_${name}`,
      value,
    ]),
  );
const podWith = (classes: Record<string, string>, differs: Parameters<TestCluster['podOn']>[1] = {}) =>
  c.podOn(node, { annotations: registered(classes), ...differs });
const two = { 'first.io': '20/controller', 'second.io': '10/helper' };

/** Creates an Evacuation like a drain, but without resolved evacuators. */
const requestEvacuation = (
  pod: Pod,
  differs: { progressDeadlineSeconds?: number; finalizers?: string[] } = {},
) => {
  const { finalizers, ...spec } = differs;
  const evacuation = c.evacuation(pod, finalizers);
  return c.admin.create(resources.evacuations, {
    ...evacuation,
    spec: { ...evacuation.spec, ...spec },
  } as Evacuation);
};

/** Writes the status as an evacuator. */
const report = ({ metadata }: Evacuation, status: Partial<EvacuationStatus>) => {
  const { name, namespace = '' } = metadata;
  const options = { subresource: 'status', fieldManager: 'an-evacuator' } as const;
  return c.admin.mergePatch(resources.evacuations, { name, namespace }, { status }, options);
};

/** Lets the apiserver reject the deletion of pods with these labels, though not their eviction; the returned function ends it. */
async function denyDeletion(labels: Record<string, string>): Promise<() => Promise<void>> {
  const name = `delete.${c.namespace}.example.com`;
  const rule = { apiGroups: [''], apiVersions: ['v1'], operations: ['DELETE'], resources: ['pods'] };
  await c.admin.create<KubeObject>(policies, {
    metadata: { name },
    spec: {
      matchConstraints: {
        resourceRules: [rule],
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': c.namespace } },
        objectSelector: { matchLabels: labels },
      },
      validations: [{ expression: 'false', message: 'not now' }],
    },
  } as KubeObject);
  await c.admin.create<KubeObject>(policyBindings, {
    metadata: { name },
    spec: { policyName: name, validationActions: ['Deny'] },
  } as KubeObject);
  const probe = async () => c.deleted(await c.podOn(node, { labels }));
  await eventually('the policy to deny', async () => expect(probe()).rejects.toThrow(/not now/));
  return async () => {
    for (const resource of [policyBindings, policies]) {
      const { metadata } = (await c.admin.get<KubeObject>(resource, { name })) ?? {};
      await c.admin.delete(resource, { name }, { uid: metadata?.uid ?? '' });
    }
    await eventually('the policy to be gone', probe);
  };
}

const now = () => c.admin.now().toISOString();
const evictions = () => c.requests.count('evict pods');
/** The informer may show that the pod is gone before the response to the eviction arrives. */
const eventuallyEvictedOnce = () =>
  eventually('the response to the only eviction', () => expect(evictions()).toBe(1));
const isAlive = ({ metadata }: Pod) =>
  c
    .podsOf(node)
    .some((one) => one.metadata.uid === metadata.uid && one.metadata.deletionTimestamp === undefined);
const statusOf = async (pod: Pod) => (await c.evacuationOf(pod))?.status;

async function eventuallyActive(pod: Pod, activeEvacuatorClass: string): Promise<EvacuationStatus> {
  return eventually(`${activeEvacuatorClass} to be active`, async () => {
    const status = await statusOf(pod);
    expect(status).toMatchObject({ activeEvacuatorClass, activeEvacuatorCompleted: false });
    return status as EvacuationStatus;
  });
}

const eventuallyEvent = (about: Parameters<TestCluster['eventsAbout']>[0], event: unknown) =>
  eventually(`the Event ${String(event)}`, async () =>
    expect(await c.eventsAbout(about)).toContainEqual(event),
  );

describe('A pod with evacuators', () => {
  test('has them resolved by the controller if admission did not resolve them, sorted, with the labels of the pod', async () => {
    const pod = await podWith({ 'low.io': '1/a', 'high.io': '2147483647/b' }, { labels: { app: 'orders' } });
    await requestEvacuation(pod);
    const evacuation = await eventually('evacuators', async () => {
      const current = await c.evacuationOf(pod);
      expect(current?.spec.evacuators).toEqual([
        { evacuatorClass: 'high.io', priority: 2_147_483_647, role: 'b' },
        { evacuatorClass: 'low.io', priority: 1, role: 'a' },
      ]);
      return current;
    });
    expect(evacuation?.metadata.labels).toEqual({ app: 'orders' });
  });

  test('is handed to the first, to the second when the first has completed, and then evicted', async () => {
    const pod = await podWith(two);
    const evacuation = await requestEvacuation(pod);
    const first = await eventuallyActive(pod, 'first.io');
    expect(first.message).toBe('Waiting for first.io to respond; next: second.io, then the eviction API.');
    expect(Math.abs(Date.parse(first.evacuationProgressTimestamp ?? '') - Date.parse(now()))).toBeLessThan(
      10_000,
    );
    await report(evacuation, { message: 'moving data', expectedEvacuationFinishTime: now() });
    await throughout('the first stays active', 500, async () =>
      expect(await statusOf(pod)).toMatchObject({ activeEvacuatorClass: 'first.io', message: 'moving data' }),
    );
    await report(evacuation, { activeEvacuatorCompleted: true });
    const second = await eventuallyActive(pod, 'second.io');
    expect(second.message).toBe('Waiting for second.io to respond; next: the eviction API.');
    expect(second.expectedEvacuationFinishTime).toBeUndefined();
    expect(evictions()).toBe(0);
    await report(evacuation, { activeEvacuatorCompleted: true });
    await c.eventuallyGone(pod);
    await eventuallyEvictedOnce();
    for (const about of [pod, evacuation]) {
      await eventuallyEvent(about, 'EvacuatorCompleted: first.io has completed, but the pod still exists.');
      await eventuallyEvent(about, 'EvacuatorCompleted: second.io has completed, but the pod still exists.');
    }
  });

  test('is handed to the next evacuator when the first exceeds its deadline', async () => {
    const pod = await podWith(two);
    const evacuation = await requestEvacuation(pod, { progressDeadlineSeconds: 1 });
    await c.eventuallyGone(pod);
    for (const name of ['first.io', 'second.io'])
      await eventuallyEvent(evacuation, expect.stringContaining(`EvacuatorActivated: Asked ${name} `));
    await eventuallyEvent(
      evacuation,
      'ProgressDeadlineExceeded: second.io has reported no progress for 1 s.',
    );
  });

  test('keeps an evacuator that reports progress, however long it takes', async () => {
    const [pod, silent] = [await podWith(two), await podWith(two)];
    // Several times the duration of a report, on a slow machine too.
    const deadline = { progressDeadlineSeconds: 3 };
    const evacuation = await requestEvacuation(pod, deadline);
    await eventuallyActive(pod, 'first.io');
    await requestEvacuation(silent, deadline);
    await eventually('the deadline to have passed for a pod that was requested later', async () => {
      await report(evacuation, { evacuationProgressTimestamp: now() });
      expect((await statusOf(silent))?.activeEvacuatorClass).toBe('second.io');
    });
    expect((await statusOf(pod))?.activeEvacuatorClass).toBe('first.io');
    // Otherwise they would be evicted during another test, which counts evictions.
    await c.podsDeleted([pod, silent]);
  });

  test('is not blocked for ever by a progress timestamp in the future', async () => {
    const pod = await podWith({ 'first.io': '1/x' });
    const evacuation = await requestEvacuation(pod, { progressDeadlineSeconds: 3 });
    await eventuallyActive(pod, 'first.io');
    await report(evacuation, { evacuationProgressTimestamp: '2099-01-01T00:00:00Z' });
    await c.eventuallyGone(pod);
  });

  test('that terminates by itself is not evicted, and its Evacuation is deleted', async () => {
    const pod = await podWith(two);
    await requestEvacuation(pod);
    await eventuallyActive(pod, 'first.io');
    await c.deleted(pod);
    await c.eventuallyGone(pod);
    await eventually('the Evacuation to be gone', async () =>
      expect(await c.evacuationOf(pod)).toBeUndefined(),
    );
    expect(evictions()).toBe(0);
  });

  test('has Events with the evacuator, the instigator and the next evacuator', async () => {
    const maintenance = await c.applied(
      c.maintenance({ nodes: [node], stage: 'Drain', reason: 'firmware 2.4' }),
    );
    const pod = await podWith(two);
    const evacuation = await requestEvacuation(pod);
    const event = `EvacuatorActivated: Asked first.io to evacuate pod ${pod.metadata.name} from node ${node} for node maintenance ${maintenance.metadata.name} (firmware 2.4); progress deadline 1800 s; next: second.io, then the eviction API.`;
    await eventuallyEvent(pod, event);
    await eventuallyEvent(evacuation, event);
  });
});

describe('An evacuator that does not respond', () => {
  beforeEach(async () => {
    await stop();
    stop = startController({ responseSeconds: 3, knownClasses: ['on-demand.io'] });
  });

  const skipped =
    'EvacuatorNotResponding: missing.io has not responded for 3 s: check that an evacuator of this class is running.';

  /** Requests another evacuation, and waits until its unknown evacuator is skipped: one that was asked before would be, too. */
  async function aLaterOneToBeSkipped(): Promise<void> {
    const pod = await podWith({ 'missing.io': '1/x' });
    await requestEvacuation(pod);
    await c.eventuallyGone(pod);
  }

  test('is skipped with an Event, and the pod is evicted after the last one', async () => {
    const pod = await podWith({ 'missing.io': '1/x' });
    const evacuation = await requestEvacuation(pod);
    await c.eventuallyGone(pod);
    for (const about of [pod, evacuation]) await eventuallyEvent(about, skipped);
  });

  test('is skipped, too, if the clock of the worker that activated it was ahead', async () => {
    const pod = await podWith({ 'missing.io': '1/x' });
    const evacuation = await requestEvacuation(pod);
    await eventuallyActive(pod, 'missing.io');
    const ahead = new Date(Date.now() + 600_000).toISOString();
    await report(evacuation, { activeEvacuatorSince: ahead, evacuationProgressTimestamp: ahead });
    await c.eventuallyGone(pod);
    await eventuallyEvent(pod, skipped);
  });

  test('of a class that a setting names has the whole progress deadline', async () => {
    const pod = await podWith({ 'missing.io': '2/x', 'on-demand.io': '1/x' });
    await requestEvacuation(pod);
    await eventuallyActive(pod, 'on-demand.io');
    await eventuallyEvent(pod, skipped);
    await aLaterOneToBeSkipped();
    expect(await statusOf(pod)).toMatchObject({ activeEvacuatorClass: 'on-demand.io' });
  });

  test('of a class of which one has responded before has the whole progress deadline', async () => {
    const before = await podWith({ 'restarting.io': '1/x' });
    const evacuation = await requestEvacuation(before);
    await eventuallyActive(before, 'restarting.io');
    await report(evacuation, { message: 'moving data' });
    await eventually('the response in the informer', () =>
      expect(c.cluster.evacuations.get(`${c.namespace}/${evacuation.metadata.name}`)?.status?.message).toBe(
        'moving data',
      ),
    );
    const pod = await podWith({ 'restarting.io': '1/x' });
    await requestEvacuation(pod);
    await eventuallyActive(pod, 'restarting.io');
    await aLaterOneToBeSkipped();
    expect(await statusOf(pod)).toMatchObject({ activeEvacuatorClass: 'restarting.io' });
    expect(isAlive(before)).toBe(true);
  });
});

describe('A built-in evacuator that cannot serve a pod', () => {
  test('of a DaemonSet that has orphaned its pod gives way at once, with an Event, and the pod is evicted', async () => {
    const own = await c.nodeNamed('orphaned');
    const pod = await c.daemonPodOn(own);
    const annotation = 'evacuation.coordination.k8s.io/priority_daemonset.apps.k8s.io';
    expect(pod.metadata.annotations?.[annotation]).toBe('10000/controller');
    const [daemonSet] = pod.metadata.ownerReferences ?? [];
    await succeeds(
      kubectlOf(sandbox)(['delete', 'ds', daemonSet?.name ?? '', '-n', c.namespace, '--cascade=orphan']),
    );
    const orphan = await eventually('the pod to be orphaned', () => {
      const [found] = c.podsOf(own);
      expect(found?.metadata).toMatchObject({ uid: pod.metadata.uid });
      expect(found?.metadata.ownerReferences).toBeUndefined();
      return found as Pod;
    });
    const evacuation = await requestEvacuation(orphan);
    await c.eventuallyGone(orphan);
    await eventuallyEvictedOnce();
    for (const about of [orphan, evacuation])
      await eventuallyEvent(
        about,
        'EvacuatorNotApplicable: daemonset.apps.k8s.io cannot evacuate the pod: no DaemonSet controls the pod.',
      );
  });

  test('of a DaemonSet is evicted if its evacuator cannot delete it, and stays away', async () => {
    const own = await c.nodeNamed('daemon');
    const pod = await c.daemonPodOn(own);
    const labels = { guarded: 'yes' };
    const key = { namespace: c.namespace, name: pod.metadata.name };
    await c.admin.mergePatch(resources.pods, key, { metadata: { labels } });
    const allow = await denyDeletion(labels);
    const evacuating = new AbortController();
    const evacuator = runDaemonSetEvacuator({ cluster: c.cluster, log: silentLog }, evacuating.signal);
    try {
      const maintenance = await c.applied(c.maintenance({ nodes: [own], stage: 'Drain' }));
      const drainTargets = [pods(2_147_483_647), daemons(2_147_483_647)];
      const evacuation = await requestEvacuation(pod, { progressDeadlineSeconds: 1 });
      await eventuallyEvent(evacuation, expect.stringMatching(/^ProgressDeadlineExceeded: /));
      // The targets do not include the pod yet: an eviction would only recreate it.
      expect(evictions()).toBe(0);
      await c.withStatus(maintenance, { nodeStatuses: [{ nodeRef: { name: own }, drainTargets }] });
      await c.eventuallyGone(pod);
      await eventuallyEvictedOnce();
      await eventuallyEvent(evacuation, expect.stringMatching(/^EvacuatorActivated: .* the eviction API/));
      await eventually('the next pod to be held back', () =>
        expect(
          c.cluster.pods.byIndex(byGate, MAINTENANCE_GATE).filter(({ spec }) => spec.madeForNode === own),
        ).toHaveLength(1),
      );
    } finally {
      evacuating.abort();
      await evacuator;
      await allow();
      await c.maintenancesDropped();
    }
  });
});

describe('kubectl', () => {
  test('shows the instigator, the active evacuator, its message and the next evacuator of an Evacuation', async () => {
    const own = await c.nodeNamed('shown');
    const maintenance = await c.applied(
      c.maintenance({ nodes: [own], stage: 'Drain', reason: 'firmware 2.4' }),
    );
    const pod = await c.podOn(own, { annotations: registered(two), labels: { app: 'orders' } });
    const evacuation = await requestEvacuation(pod);
    await eventuallyActive(pod, 'first.io');
    await report(evacuation, { message: '40 of 100 GiB moved' });
    await eventuallyEvent(evacuation, expect.stringContaining('EvacuatorActivated: Asked first.io'));
    const kubectl = kubectlOf(sandbox);
    const listed = await succeeds(kubectl(['get', 'evac', '-A', '-o', 'wide']));
    const [header = '', ...rows] = listed.split('\n');
    expect(header.trim().split(/\s{2,}/)).toEqual([
      'NAMESPACE',
      'NAME',
      'POD',
      'ACTIVE EVACUATOR',
      'SINCE',
      'BLOCKED',
      'PROGRESS AGE',
      'MESSAGE',
    ]);
    const row = rows.find((line) => line.includes(`${pod.metadata.name} `));
    expect(row).toMatch(/first\.io\s+\d+s\s+\d+s\s+40 of 100 GiB moved$/);
    const described = await succeeds(
      kubectl(['describe', 'evac', '-n', c.namespace, evacuation.metadata.name]),
    );
    for (const fact of [
      'evacuation.coordination.k8s.io/instigator_nodemaintenance.k8s.io',
      /Evacuator Class:\s+second\.io/,
      /Active Evacuator Class:\s+first\.io/,
      'Active Evacuator Since:',
      '40 of 100 GiB moved',
      `for node maintenance ${maintenance.metadata.name} (firmware 2.4)`,
      'next: second.io, then the eviction API',
    ])
      expect(described).toMatch(fact);
    const { metadata } = pod;
    expect(await succeeds(kubectl(['describe', 'pod', '-n', c.namespace, metadata.name]))).toContain(
      `for node maintenance ${maintenance.metadata.name} (firmware 2.4)`,
    );
  });
});

describe('A controller that is killed', () => {
  test('between two evacuators continues from the status of the object', async () => {
    const pod = await podWith(two);
    const evacuation = await requestEvacuation(pod);
    await eventuallyActive(pod, 'first.io');
    await stop();
    await report(evacuation, { activeEvacuatorCompleted: true });
    stop = startController();
    await eventuallyActive(pod, 'second.io');
    await stop();
    stop = startController();
    await throughout('the second is active', 500, async () =>
      expect((await statusOf(pod))?.activeEvacuatorClass).toBe('second.io'),
    );
  });

  test('after the last evacuator evicts, and activates no evacuator again', async () => {
    const pod = await podWith(
      { 'first.io': '1/x' },
      { finalizers: ['example.com/held'], labels: { app: 'held' } },
    );
    await c.applied(c.budget({ app: 'held' }, { minAvailable: 1 }));
    const evacuation = await requestEvacuation(pod);
    await eventuallyActive(pod, 'first.io');
    await report(evacuation, { activeEvacuatorCompleted: true });
    const exhausted = { type: 'EvacuatorsExhausted', status: 'True', reason: 'EvacuatorCompleted' };
    const evicting = async () =>
      expect((await statusOf(pod))?.conditions).toContainEqual(expect.objectContaining(exhausted));
    await eventually('the condition EvacuatorsExhausted', evicting);
    await stop();
    stop = startController();
    await throughout('no evacuator is activated again', 500, async () => {
      await evicting();
      expect((await statusOf(pod))?.activeEvacuatorClass).toBeUndefined();
    });
  });
});

describe('An Evacuation', () => {
  test('whose pod has an invalid annotation uses the other evacuators, and reports the annotation', async () => {
    const pod = await podWith({ 'bad.io': 'soon', 'good.io': '1/x' });
    const evacuation = await requestEvacuation(pod);
    await eventuallyActive(pod, 'good.io');
    const event =
      'MalformedEvacuator: Ignored metadata.annotations[evacuation.coordination.k8s.io/priority_bad.io]: expected "<priority>/<role>", such as "10000/controller" (got "soon"). The pod is evacuated by its other evacuators, or evicted.';
    await eventuallyEvent(pod, event);
    await eventuallyEvent(evacuation, event);
  });

  test('whose pod has only invalid annotations evicts it', async () => {
    const pod = await podWith({ 'bad.io': 'soon' });
    await requestEvacuation(pod);
    await c.eventuallyGone(pod);
    await eventuallyEvictedOnce();
  });

  test('that is cancelled while an evacuator is active neither activates another one nor evicts the pod', async () => {
    const pod = await podWith(two);
    const evacuation = await requestEvacuation(pod, { finalizers: ['example.com/evacuator-cleans-up'] });
    await eventuallyActive(pod, 'first.io');
    const { name, namespace = '', uid = '' } = evacuation.metadata;
    await c.admin.delete(resources.evacuations, { name, namespace }, { uid });
    await report(evacuation, { activeEvacuatorCompleted: true });
    await throughout('the first stays active', 1_000, async () =>
      expect((await statusOf(pod))?.activeEvacuatorClass).toBe('first.io'),
    );
    expect(isAlive(pod)).toBe(true);
  });

  test('without an instigator is reconciled too', async () => {
    const pod = await podWith({ 'first.io': '1/x' });
    const evacuation = await requestEvacuation(pod, { finalizers: [] });
    await eventuallyActive(pod, 'first.io');
    await eventuallyEvent(
      pod,
      `EvacuatorActivated: Asked first.io to evacuate pod ${pod.metadata.name} from node ${node} for Evacuation ${evacuation.metadata.name}; progress deadline 1800 s; next: the eviction API.`,
    );
  });

  test('of several instigators has Events with all of them', async () => {
    const other = 'evacuation.coordination.k8s.io/instigator_descheduler.example.com';
    const maintenance = await c.applied(
      c.maintenance({ nodes: [node], stage: 'Drain', name: c.named('rack') }),
    );
    const pod = await podWith({ 'first.io': '1/x' });
    const evacuation = await requestEvacuation(pod, { finalizers: [other, INSTIGATOR_FINALIZER] });
    await eventuallyActive(pod, 'first.io');
    await report(evacuation, { activeEvacuatorCompleted: true });
    const event = await eventually('the Event Evicted', async () => {
      const [evicted] = (await c.eventsAbout(pod)).filter((one) => one.startsWith('Evicted: '));
      expect(evicted).toBeDefined();
      return evicted;
    });
    expect(event).toContain(maintenance.metadata.name);
    expect(event).toMatch(/ and descheduler\.example\.com\.$/);
  });

  test('of a pod without evacuators has no Events', async () => {
    const pod = await c.podOn(node);
    await requestEvacuation(pod);
    await c.eventuallyGone(pod);
    expect((await c.eventsAbout(pod)).filter((one) => !one.startsWith('Killing'))).toEqual([]);
  });

  test('of a static pod without an evacuator reports that it is never evicted', async () => {
    const pod = await c.podOn(node, { annotations: { 'kubernetes.io/config.mirror': 'by-hand' } });
    const evacuation = c.evacuation(pod);
    const spec = { ...evacuation.spec, evacuators: [] };
    await c.admin.create(resources.evacuations, { ...evacuation, spec });
    await eventually('the message', async () =>
      expect((await statusOf(pod))?.message).toBe(
        'Pods of type Static are never evicted, and this pod has no evacuator.',
      ),
    );
    expect(isAlive(pod)).toBe(true);
  });

  test('of a static pod waits for the agent of its node, with its label, and for the whole deadline if that reports', async () => {
    await stop();
    stop = startController({ responseSeconds: 3 });
    const silentNode = await c.nodeNamed('n');
    const unableNode = await c.nodeNamed('n');
    await new PlayedAgent(c, node).reports();
    await new PlayedAgent(c, unableNode, 'reboot').reports();
    const [served, unserved] = [await mirrorPodOn(c, node), await mirrorPodOn(c, silentNode)];
    const notStopped = await mirrorPodOn(c, unableNode);
    // Nobody writes the label but the controller, or the admission server.
    const label = 'nodemaintenance.k8s.io/node';
    const given = c.evacuation(served);
    const metadata = { ...given.metadata, labels: { [label]: silentNode } };
    const evacuators = [
      { evacuatorClass: 'kubelet.k8s.io', priority: 10_000, role: 'controller' },
      { evacuatorClass: 'second.io', priority: 1, role: 'helper' },
    ];
    await c.admin.create(resources.evacuations, { ...given, metadata, spec: { ...given.spec, evacuators } });
    for (const other of [unserved, notStopped].map((pod) => c.evacuation(pod)))
      await c.admin.create(resources.evacuations, { ...other, spec: { ...other.spec, evacuators } });
    expect(await eventuallyActive(served, 'kubelet.k8s.io')).toMatchObject({
      message: `Waiting for kubelet.k8s.io to respond, the agent of node ${node}; next: second.io, then kubelet.k8s.io again.`,
    });
    expect((await c.evacuationOf(served))?.metadata.labels).toEqual({ [label]: node });
    await eventuallyActive(unserved, 'second.io');
    await eventuallyActive(notStopped, 'second.io');
    await eventuallyEvent(
      unserved,
      'EvacuatorNotResponding: kubelet.k8s.io has not responded for 3 s: check that the node agent of its node is running.',
    );
    expect((await statusOf(served))?.activeEvacuatorClass).toBe('kubelet.k8s.io');
    const uids = [node, silentNode].flatMap((one) => c.podsOf(one)).map(({ metadata: { uid } }) => uid);
    expect(uids).toEqual(expect.arrayContaining([served.metadata.uid, unserved.metadata.uid]));
  });

  test('keeps its evacuators once they are resolved', async () => {
    const pod = await podWith(two);
    const { metadata } = await requestEvacuation(pod);
    await eventuallyActive(pod, 'first.io');
    const key = { name: metadata.name, namespace: metadata.namespace ?? '' };
    await expect(
      c.admin.mergePatch(resources.evacuations, key, { spec: { evacuators: null } }),
    ).rejects.toThrow('evacuators are immutable once they are resolved');
  });
});
