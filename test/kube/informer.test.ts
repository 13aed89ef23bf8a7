import type { Lease } from '../../api/core.ts';
import type { Kube } from '../../kube/client.ts';
import { Informer, type InformerOptions } from '../../kube/informer.ts';
import { resources } from '../../kube/resources.ts';
import { slimPod } from '../../kube/slim.ts';
import type { RequestObservation } from '../../kube/transport.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import {
  changedKubeconfig,
  connect,
  dropNamespace,
  eventually,
  freshNamespace,
  recordedLog,
  runningPod,
} from './fixtures.ts';
import { UnreliableNetwork } from './unreliableNetwork.ts';

let sandbox: Sandbox;
let kube: Kube;
let namespace: string;
const stops: (() => Promise<void> | void)[] = [];

beforeAll(async () => {
  sandbox = await testSandbox();
  kube = connect(sandbox.kubeconfig);
});

beforeEach(async () => {
  namespace = await freshNamespace(kube, 'informer');
});

afterEach(async () => {
  for (const stop of stops.splice(0).toReversed()) await stop();
  await dropNamespace(kube, namespace);
});

afterAll(async () => {
  await kube?.close();
  await releaseSandbox(sandbox);
});

const put = (name: string, holderIdentity = 'a') =>
  kube.apply(resources.leases, { metadata: { namespace, name }, spec: { holderIdentity } } as Lease, {
    fieldManager: 'test',
  });

async function remove(name: string): Promise<void> {
  const found = await kube.get(resources.leases, { namespace, name });
  await kube.delete(resources.leases, { namespace, name }, { uid: found?.metadata.uid ?? '' });
}

/** An informer of the namespace's Leases, what it told, and its log. It ends with the test. */
function followed(options: Partial<InformerOptions<Lease>> = {}) {
  const log = recordedLog();
  const end = new AbortController();
  const informer = new Informer({ kube, resource: resources.leases, namespace, log, ...options });
  const told: string[] = [];
  informer.subscribe(({ type, object }) =>
    told.push(`${type} ${object.metadata.name} ${object.spec.holderIdentity}`),
  );
  informer.start(end.signal);
  stops.push(() => end.abort());
  const tells = (expected: string[]) =>
    eventually(`${expected}`, () => (expected.every((line) => told.includes(line)) ? undefined : `${told}`));
  return { informer, told, tells, log, end };
}

/** A client of its own behind a network that can fail. */
async function fragile() {
  const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
  const observed: RequestObservation[] = [];
  const client = connect(kubeconfig, { onRequest: (observation) => observed.push(observation) });
  stops.push(close, () => client.close());
  const count = (verb: string) => observed.filter((observation) => observation.verb === verb).length;
  return { network, client, count };
}

describe('an informer', () => {
  test('knows what is there when it has synced, and is told of changes in their order', async () => {
    await put('old');
    const { informer, told, tells } = followed();
    expect(informer.hasSynced).toBe(false);
    await informer.synced();
    expect(informer.hasSynced).toBe(true);
    expect(informer.get(`${namespace}/old`)?.spec.holderIdentity).toBe('a');
    await put('new');
    await put('new', 'b');
    await remove('new');
    await tells(['Deleted new b']);
    expect(told).toEqual(['Added old a', 'Added new a', 'Updated new b', 'Deleted new b']);
    expect(informer.list().map(({ metadata }) => metadata.name)).toEqual(['old']);
    expect(Date.now() - (informer.lastContact?.getTime() ?? 0)).toBeLessThan(60_000);
  });

  test('tells a late subscriber what is there already, and nobody after unsubscribing', async () => {
    await put('old');
    const { informer } = followed();
    await informer.synced();
    const late: string[] = [];
    const unsubscribe = informer.subscribe(({ type, key }) => late.push(`${type} ${key}`));
    expect(late).toEqual([`Added ${namespace}/old`]);
    unsubscribe();
    const changed = informer.changed();
    await put('new');
    await changed;
    expect(late).toHaveLength(1);
  });

  test('keeps slim pods and finds them by index', async () => {
    const nodeName = 'kube-informer';
    await sandbox.addNodes([nodeName]);
    const pod = await runningPod(kube, { namespace, name: 'web', nodeName, labels: { app: 'web' } });
    const end = new AbortController();
    stops.push(() => end.abort());
    const indexes = { node: ({ spec }: { spec: { nodeName?: string } }) => [spec.nodeName ?? ''] };
    const pods = new Informer({
      kube,
      resource: resources.pods,
      namespace,
      transform: slimPod,
      indexes,
      log: recordedLog(),
    });
    pods.start(end.signal);
    await pods.synced();
    expect(pods.byIndex('node', nodeName)).toEqual([
      {
        metadata: {
          name: 'web',
          namespace,
          uid: pod.uid,
          resourceVersion: expect.any(String),
          labels: { app: 'web' },
          creationTimestamp: expect.any(String),
        },
        spec: { nodeName, priority: 0, terminationGracePeriodSeconds: 0 },
        status: { phase: 'Running', ready: true },
      },
    ]);
    expect(pods.byIndex('node', 'another')).toEqual([]);
  });

  test('follows a selector: what no longer matches is deleted for it', async () => {
    await put('chosen');
    await kube.mergePatch(
      resources.leases,
      { namespace, name: 'chosen' },
      { metadata: { labels: { chosen: 'yes' } } },
    );
    const { informer, tells } = followed({ labelSelector: 'chosen=yes' });
    await informer.synced();
    await kube.mergePatch(
      resources.leases,
      { namespace, name: 'chosen' },
      { metadata: { labels: { chosen: 'no' } } },
    );
    await tells(['Deleted chosen a']);
    expect(informer.list()).toEqual([]);
  });

  test('is not disturbed by a handler that throws', async () => {
    const { informer, tells, log } = followed();
    await informer.synced();
    informer.subscribe(() => {
      throw new Error('handler is broken');
    });
    await put('first');
    await put('second');
    await tells(['Added first a', 'Added second a']);
    expect(log.lines.filter(({ message }) => message === 'Handler of a change failed')).toHaveLength(2);
  });

  test('stops waiting when asked to', async () => {
    const { informer } = followed();
    const stop = new AbortController();
    const change = informer.changed(stop.signal);
    stop.abort(new Error('no more'));
    await expect(change).rejects.toThrow('no more');
  });
});

describe('an informer behind an unreliable network', () => {
  test('learns what changed while it was cut off, deletions and namesakes included, without listing again', async () => {
    const { network, client, count } = await fragile();
    for (const name of ['stays', 'goes', 'changes', 'reborn']) await put(name);
    const { informer, told, tells, log } = followed({ kube: client });
    await informer.synced();
    told.length = 0;
    network.down();
    await remove('goes');
    await put('changes', 'b');
    await remove('reborn');
    await put('reborn', 'b');
    await put('comes');
    await eventually('the loss to be noticed', () =>
      log.lines.some(({ level }) => level === 'warn') ? undefined : 'calm',
    );
    network.up();
    await tells(['Added comes a']);
    expect(told).toEqual([
      'Deleted goes a',
      'Updated changes b',
      'Deleted reborn a',
      'Added reborn b',
      'Added comes a',
    ]);
    expect(count('list')).toBe(1);
    expect(log.lines.filter(({ level }) => level !== 'debug').map(({ message }) => message)).toEqual(
      expect.arrayContaining([
        'Contact with the apiserver was lost, trying again',
        'Contact with the apiserver was regained',
      ]),
    );
  });

  test('logs once per change of the error, not once per attempt', async () => {
    const { network, client, count } = await fragile();
    const { informer, log } = followed({ kube: client });
    await informer.synced();
    network.down();
    const before = count('watch');
    await eventually('five attempts', () =>
      count('watch') >= before + 5 ? undefined : `${count('watch') - before}`,
    );
    const errors = log.lines.filter(({ level }) => level === 'warn').map(({ fields }) => fields?.['error']);
    expect(errors.length).toBeGreaterThan(0);
    expect(errors.filter((error, i) => error === errors[i - 1])).toEqual([]);
    expect(errors.length).toBeLessThan(4);
  });

  test('notices a connection that went silent and opens another', async () => {
    const { network, client, count } = await fragile();
    const { informer, tells } = followed({ kube: client, silenceMs: 1_500 });
    await informer.synced();
    await eventually('a watch', () => (count('watch') > 0 ? undefined : 'none'));
    network.freeze();
    await put('unseen');
    await tells(['Added unseen a']);
  });

  test('ends up with what the apiserver has, however often its watch is cut while objects come and go', async () => {
    const { network, client } = await fragile();
    const { informer, told } = followed({ kube: client });
    await informer.synced();
    const cutting = setInterval(() => network.cut(), 70);
    await Promise.all(Array.from({ length: 150 }, (_, i) => put(`l-${i}`)));
    await Promise.all(
      Array.from({ length: 150 }, (_, i) => (i % 3 === 0 ? remove(`l-${i}`) : put(`l-${i}`, 'b'))),
    );
    clearInterval(cutting);
    const { items } = await kube.list(resources.leases, { namespace });
    const versions = (leases: readonly Lease[]) =>
      leases.map(({ metadata }) => `${metadata.name} ${metadata.resourceVersion}`).toSorted();
    const want = versions(items);
    await eventually('the same versions', () => {
      const have = versions(informer.list());
      return `${have}` === `${want}` ? undefined : `${have.length} of ${want.length}`;
    });
    expect(told.filter((line) => line.startsWith('Added'))).toHaveLength(150);
    expect(told.filter((line) => line.startsWith('Deleted'))).toHaveLength(50);
  });

  test('keeps trying with credentials that are refused, and goes on when they work', async () => {
    const copy = await changedKubeconfig(sandbox.kubeconfig, { user: { as: `reader-of-${namespace}` } });
    const client = connect(copy.path);
    stops.push(copy.remove, () => client.close());
    const { informer, log } = followed({ kube: client });
    await eventually('the refusal', () =>
      log.lines.some(({ level }) => level === 'warn') ? undefined : 'calm',
    );
    expect(informer.hasSynced).toBe(false);
    await allowReading(`reader-of-${namespace}`);
    await informer.synced(AbortSignal.timeout(20_000));
    expect(log.lines.filter(({ level }) => level === 'warn')).toHaveLength(1);
  });
});

async function allowReading(user: string): Promise<void> {
  const rbac = { group: 'rbac.authorization.k8s.io', version: 'v1', namespaced: true };
  const metadata = { namespace, name: 'reader' };
  const rules = [{ apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['list', 'watch'] }];
  const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'reader' };
  const subjects = [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: user }];
  const role = { metadata, rules };
  const binding = { metadata, roleRef, subjects };
  await kube.create({ ...rbac, plural: 'roles', kind: 'Role' }, role);
  await kube.create({ ...rbac, plural: 'rolebindings', kind: 'RoleBinding' }, binding);
}
