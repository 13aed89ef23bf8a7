import { NODE_MAINTENANCE } from '../../api/names.ts';
import type { Kube } from '../../kube/client.ts';
import { EventRecorder } from '../../kube/events.ts';
import { resources } from '../../kube/resources.ts';
import type { RequestObservation } from '../../kube/transport.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { garbageCollected } from '../kit/garbage.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { withMembers } from '../kit/withMembers.ts';
import { UnreliableNetwork } from './unreliableNetwork.ts';
import { changedKubeconfig, connect, dropNamespace, freshNamespace, recordedLog } from './fixtures.ts';

let sandbox: Sandbox;
let kube: Kube;
let namespace: string;
const observed: RequestObservation[] = [];

beforeAll(async () => {
  sandbox = await testSandbox();
  kube = connect(sandbox.kubeconfig, { onRequest: (observation) => observed.push(observation) });
  namespace = await freshNamespace(kube, 'events');
});

afterAll(async () => {
  if (namespace) await dropNamespace(kube, namespace);
  await kube?.close();
  await releaseSandbox(sandbox);
});

const pod = (name: string) => ({ apiVersion: 'v1', kind: 'Pod', namespace, name, uid: `uid-of-${name}` });
const tried = { type: 'Normal', reason: 'Evicted', message: 'It was tried.' } as const;
const recorder = () => {
  const log = recordedLog();
  return { log, recorder: new EventRecorder({ kube, component: 'node-maintenance', log }) };
};
const eventsOf = async (name: string, within = namespace) =>
  (await kube.list(resources.events, { namespace: within, fieldSelector: `involvedObject.name=${name}` }))
    .items;

describe('an Event', () => {
  test('that repeats is counted in the same object, across flushes', async () => {
    const { recorder: events } = recorder();
    const content = { ...tried, node: 'node-1' };
    events.record(pod('often'), content);
    await events.flush();
    for (let i = 0; i < 9; i++) events.record(pod('often'), content);
    await events.flush();
    const [event, ...others] = await eventsOf('often');
    expect(others).toEqual([]);
    expect(event).toMatchObject({
      ...tried,
      count: 10,
      involvedObject: pod('often'),
      source: { component: 'node-maintenance', host: 'node-1' },
      reportingComponent: 'node-maintenance',
    });
  });

  test('that repeats many times at once needs few requests', async () => {
    const { recorder: events } = recorder();
    const before = observed.length;
    for (let i = 0; i < 500; i++) events.record(pod('burst'), tried);
    await events.flush();
    expect(observed.length - before).toBeLessThanOrEqual(3);
    expect((await eventsOf('burst'))[0]?.count).toBe(500);
  });

  test.each([
    { differs: 'another reason', content: { ...tried, reason: 'ReleasedFromReplicaSet' } as const },
    { differs: 'another message', content: { ...tried, message: 'It was tried twice.' } },
    { differs: 'another type', content: { ...tried, type: 'Warning' } as const },
  ])('with $differs is another Event', async ({ differs, content }) => {
    const name = differs.replaceAll(' ', '-');
    const { recorder: events } = recorder();
    events.record(pod(name), tried);
    events.record(pod(name), content);
    await events.flush();
    expect(await eventsOf(name)).toHaveLength(2);
  });

  test('keeps no object that it is about, although it is kept to be counted', async () => {
    const { recorder: events } = recorder();
    const about = (name: string) => {
      const { namespace: _, ...related } = pod(name);
      const [subject, maintenance] = [pod(name), { ...related, metadata: related, status: {} }];
      events.record({ ...subject, metadata: subject }, { ...tried, related: maintenance });
      return [subject, maintenance].map((one) => new WeakRef(one));
    };
    const seen = about('forgotten');
    await events.flush();
    await garbageCollected();
    expect(seen.filter((one) => one.deref() !== undefined)).toEqual([]);
    expect(await eventsOf('forgotten')).toMatchObject([{ related: { kind: 'Pod', name: 'forgotten' } }]);
    events.record(pod('forgotten'), tried);
    await events.flush();
    expect(await eventsOf('forgotten')).toMatchObject([{ count: 2 }]);
  });

  test('is forgotten ten minutes after its last repetition', async () => {
    let minutes = 0;
    const now = () => new Date(kube.now().getTime() + minutes * 60_000);
    const events = new EventRecorder({
      kube: withMembers(kube, { now }),
      component: 'node-maintenance',
      log: recordedLog(),
    });
    const record = async (name: string) => {
      events.record(pod(name), tried);
      await events.flush();
      return events.size;
    };
    expect([await record('old'), await record('repeated')]).toEqual([1, 2]);
    minutes = 9;
    expect([await record('repeated'), await record('new')]).toEqual([2, 3]);
    minutes = 11;
    expect(await record('new')).toBe(2);
    expect((await eventsOf('repeated'))[0]?.count).toBe(2);
  });

  test('that was removed in the meantime is created again', async () => {
    const { recorder: events, log } = recorder();
    events.record(pod('removed'), tried);
    await events.flush();
    const [event] = await eventsOf('removed');
    await kube.delete(resources.events, event?.metadata ?? { name: '' }, { uid: event?.metadata.uid ?? '' });
    events.record(pod('removed'), tried);
    await events.flush();
    expect(await eventsOf('removed')).toHaveLength(1);
    expect(log.lines).toEqual([]);
  });

  test('of a cluster-scoped object is in the namespace default; the subject can be the object itself', async () => {
    const name = `node-of-${namespace}`;
    const node = await kube.create(resources.nodes, { metadata: { name }, spec: {} });
    const { recorder: events } = recorder();
    events.record(node, { ...tried, related: pod('related') });
    await events.flush();
    // A controller of Kubernetes reports the new node, too.
    const own = (await eventsOf(name, 'default')).filter(({ reason }) => reason === tried.reason);
    expect(own).toMatchObject([
      { involvedObject: { kind: 'Node', name, uid: node.metadata.uid }, related: pod('related') },
    ]);
    await kube.delete(resources.nodes, { name }, { uid: node.metadata.uid ?? '' });
  });

  test('with a long message and name is truncated to the limits of the API', async () => {
    const name = 'n'.repeat(253);
    const { recorder: events, log } = recorder();
    events.record(pod(name), { ...tried, message: 'word '.repeat(1_000) });
    await events.flush();
    expect(log.lines).toEqual([]);
    expect((await eventsOf(name))[0]?.message).toHaveLength(1024);
  });
});

describe('a recorder', () => {
  test('waits no longer than the given time for an apiserver that does not answer', async () => {
    const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
    const silent = connect(kubeconfig);
    network.swallow();
    const log = recordedLog();
    const events = new EventRecorder({ kube: silent, component: 'node-maintenance', log });
    events.record(pod('unanswered'), tried);
    await events.flush(200);
    expect(log.lines).toEqual([
      expect.objectContaining({
        message: 'Event could not be written',
        fields: expect.objectContaining({ error: expect.stringContaining('it was not written in time') }),
      }),
    ]);
    network.up();
    events.record(pod('answered'), tried);
    await events.flush();
    expect(await eventsOf('answered')).toHaveLength(1);
    await silent.close();
    await close();
  });

  test('never throws: an Event that cannot be recorded or written is logged', async () => {
    const copy = await changedKubeconfig(sandbox.kubeconfig, { user: { as: 'nobody-in-particular' } });
    const nobody = connect(copy.path);
    const log = recordedLog();
    const events = new EventRecorder({ kube: nobody, component: 'node-maintenance', log });
    const { apiVersion, kind } = NODE_MAINTENANCE;
    events.record({ metadata: { name: 'kindless' } }, tried);
    events.record({ apiVersion, kind, metadata: { name: 'rack-7' } }, tried);
    await events.flush();
    expect(log.lines).toEqual([
      expect.objectContaining({ message: 'Event was not recorded' }),
      expect.objectContaining({
        message: 'Event could not be written',
        fields: expect.objectContaining({ maintenance: 'rack-7', reason: tried.reason }),
      }),
    ]);
    await nobody.close();
    await copy.remove();
  });
});
