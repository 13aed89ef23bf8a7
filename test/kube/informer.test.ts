import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Lease } from '../../api/core.ts';
import type { Kube } from '../../kube/client.ts';
import { type Change, Informer, type InformerOptions } from '../../kube/informer.ts';
import { OnDemandInformer } from '../../kube/onDemandInformer.ts';
import { resources } from '../../kube/resources.ts';
import { trimPod } from '../../kube/transform.ts';
import type { RequestObservation } from '../../kube/transport.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { kubeconfigOf } from '../kit/account.ts';
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

/** Starts an informer of the Leases in the namespace. Returns it with its reported changes and log. It stops after the test. */
function startInformer(options: Partial<InformerOptions<Lease>> = {}) {
  const log = recordedLog();
  const end = new AbortController();
  const informer = new Informer({ kube, resource: resources.leases, namespace, log, ...options });
  const reported: string[] = [];
  informer.subscribe(({ type, object }) =>
    reported.push(`${type} ${object.metadata.name} ${object.spec.holderIdentity}`),
  );
  informer.start(end.signal);
  stops.push(() => end.abort());
  const eventuallyReported = (expected: string[]) =>
    eventually(`${expected}`, () =>
      expected.every((line) => reported.includes(line)) ? undefined : `${reported}`,
    );
  return { informer, reported, eventuallyReported, log, end };
}

/** Creates a client behind a network that can fail. */
async function fragile() {
  const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
  const observed: RequestObservation[] = [];
  const client = connect(kubeconfig, { onRequest: (observation) => observed.push(observation) });
  stops.push(close, () => client.close());
  const count = (verb: string) => observed.filter((observation) => observation.verb === verb).length;
  return { network, client, count };
}

describe('an informer', () => {
  test('a kind that the apiserver does not serve has no objects, and counts as synced', async () => {
    const resource = { ...resources.leases, version: 'v9' };
    const { informer, log } = startInformer({ resource, mayBeUnserved: true });
    await informer.synced();
    expect(informer.list()).toEqual([]);
    expect(informer.isServed).toBe(false);
    expect(log.lines).toEqual([]);
    const { informer: served } = startInformer({ mayBeUnserved: true });
    await served.synced();
    expect(served.isServed).toBe(true);
  });

  test('contains the existing objects after the sync, and reports changes in order', async () => {
    await put('old');
    const { informer, reported, eventuallyReported } = startInformer();
    expect(informer.hasSynced).toBe(false);
    await informer.synced();
    expect(informer.hasSynced).toBe(true);
    expect(informer.get(`${namespace}/old`)?.spec.holderIdentity).toBe('a');
    await put('new');
    await put('new', 'b');
    await remove('new');
    await eventuallyReported(['Deleted new b']);
    expect(reported).toEqual(['Added old a', 'Added new a', 'Updated new b', 'Deleted new b']);
    expect(informer.list().map(({ metadata }) => metadata.name)).toEqual(['old']);
    expect(Date.now() - (informer.lastResponseAt?.getTime() ?? 0)).toBeLessThan(60_000);
  });

  test('reports existing objects to a late subscriber, and nothing after unsubscribing', async () => {
    await put('old');
    const { informer } = startInformer();
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

  test('stores trimmed pods and finds them by index', async () => {
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
      transform: trimPod,
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
        status: { phase: 'Running', ready: true, containers: expect.any(String) },
      },
    ]);
    expect(pods.byIndex('node', 'another')).toEqual([]);
  });

  test('follows a selector: an object that no longer matches is reported as deleted', async () => {
    await put('chosen');
    await kube.mergePatch(
      resources.leases,
      { namespace, name: 'chosen' },
      { metadata: { labels: { chosen: 'yes' } } },
    );
    const { informer, eventuallyReported } = startInformer({ labelSelector: 'chosen=yes' });
    await informer.synced();
    await kube.mergePatch(
      resources.leases,
      { namespace, name: 'chosen' },
      { metadata: { labels: { chosen: 'no' } } },
    );
    await eventuallyReported(['Deleted chosen a']);
    expect(informer.list()).toEqual([]);
  });

  test('is not affected by a handler that throws', async () => {
    const { informer, eventuallyReported, log } = startInformer();
    await informer.synced();
    informer.subscribe(() => {
      throw new Error('handler is broken');
    });
    await put('first');
    await put('second');
    await eventuallyReported(['Added first a', 'Added second a']);
    expect(log.lines.filter(({ message }) => message === 'Change handler failed')).toHaveLength(2);
  });

  test('of an optional collection that is forbidden is synced and empty, until the permission is granted', async () => {
    await put('old');
    const dir = await mkdtemp(join(tmpdir(), 'informer-'));
    stops.push(() => rm(dir, { recursive: true, force: true }));
    const restricted = connect(await kubeconfigOf(sandbox, { namespace, name: 'default' }, dir));
    stops.push(() => restricted.close());
    const { informer, eventuallyReported, log } = startInformer({
      kube: restricted,
      optionalFor: 'a feature',
      optionalRetryMs: 500,
    });
    await informer.synced();
    expect(informer.list()).toEqual([]);
    const kubectl = kubectlOf(sandbox);
    const rule = ['--verb=list,watch', '--resource=leases.coordination.k8s.io', '-n', namespace];
    await succeeds(kubectl(['create', 'role', 'reader', ...rule]));
    const subject = ['--role=reader', `--serviceaccount=${namespace}:default`, '-n', namespace];
    await succeeds(kubectl(['create', 'rolebinding', 'reader', ...subject]));
    await eventuallyReported(['Added old a']);
    await put('new');
    await eventuallyReported(['Added new a']);
    expect(log.lines.filter(({ level }) => level !== 'debug')).toEqual([
      {
        level: 'info',
        message: 'Permission is missing, waiting for it',
        fields: {
          resource: 'leases.coordination.k8s.io',
          optionalFor: 'a feature',
          error: expect.stringContaining('forbidden'),
        },
      },
      expect.objectContaining({ level: 'info', message: 'Connection to the apiserver was restored' }),
    ]);
  });

  test('stops waiting when the signal aborts', async () => {
    const { informer } = startInformer();
    const stop = new AbortController();
    const change = informer.changed(stop.signal);
    stop.abort(new Error('no more'));
    await expect(change).rejects.toThrow('no more');
  });
});

describe('an informer behind an unreliable network', () => {
  test('catches up after a disconnect, including deletions and recreated objects, without listing again', async () => {
    const { network, client, count } = await fragile();
    for (const name of ['stays', 'deleted', 'changes', 'recreated']) await put(name);
    const { informer, reported, eventuallyReported, log } = startInformer({ kube: client });
    await informer.synced();
    reported.length = 0;
    network.down();
    await remove('deleted');
    await put('changes', 'b');
    await remove('recreated');
    await put('recreated', 'b');
    await put('comes');
    await eventually('the loss to be noticed', () =>
      log.lines.some(({ level }) => level === 'warn') ? undefined : 'calm',
    );
    network.up();
    await eventuallyReported(['Added comes a']);
    expect(reported).toEqual([
      'Deleted deleted a',
      'Updated changes b',
      'Deleted recreated a',
      'Added recreated b',
      'Added comes a',
    ]);
    expect(count('list')).toBe(1);
    expect(log.lines.filter(({ level }) => level !== 'debug').map(({ message }) => message)).toEqual(
      expect.arrayContaining([
        'Connection to the apiserver was lost, retrying',
        'Connection to the apiserver was restored',
      ]),
    );
  });

  test('logs once per change of the error, not once per attempt', async () => {
    const { network, client, count } = await fragile();
    const { informer, log } = startInformer({ kube: client });
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

  test('detects a silent connection and opens another', async () => {
    const { network, client, count } = await fragile();
    const { informer, eventuallyReported } = startInformer({ kube: client, idleTimeoutMs: 1_500 });
    await informer.synced();
    await eventually('a watch', () => (count('watch') > 0 ? undefined : 'none'));
    network.freeze();
    await put('unseen');
    await eventuallyReported(['Added unseen a']);
  });

  test('converges to the state of the apiserver however often its watch is cut', async () => {
    const { network, client } = await fragile();
    const { informer, reported } = startInformer({ kube: client });
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
    expect(reported.filter((line) => line.startsWith('Added'))).toHaveLength(150);
    expect(reported.filter((line) => line.startsWith('Deleted'))).toHaveLength(50);
  });

  test('retries with rejected credentials, and continues when they are accepted', async () => {
    const copy = await changedKubeconfig(sandbox.kubeconfig, { user: { as: `reader-of-${namespace}` } });
    const client = connect(copy.path);
    stops.push(copy.remove, () => client.close());
    const { informer, log } = startInformer({ kube: client });
    await eventually('the rejection', () =>
      log.lines.some(({ level }) => level === 'warn') ? undefined : 'calm',
    );
    expect(informer.hasSynced).toBe(false);
    await allowReading(`reader-of-${namespace}`);
    await informer.synced(AbortSignal.timeout(20_000));
    const warnings = log.lines.filter(({ level }) => level === 'warn');
    const errors = warnings.map(({ fields }) => String(fields?.['error']));
    expect(errors.filter((error, index) => error === errors[index - 1])).toEqual([]);
    // The apiserver adds the Role if it knows the RoleBinding before the Role.
    expect(new Set(errors.map((error) => error.replace(/: RBAC: .*/, ''))).size).toBe(1);
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

test('an informer on demand runs while it is used, with one watch for all users', async () => {
  const { client, count } = await fragile();
  await put('one');
  const options = { kube: client, resource: resources.leases, namespace, log: recordedLog() };
  const onDemand = new OnDemandInformer(() => new Informer<Lease>(options));
  expect(count('list')).toBe(0);
  const reported: string[] = [];
  const note =
    (user: string) =>
    ({ type, key }: Change<Lease>) =>
      void reported.push(`${user} ${type} ${key}`);
  const [a, b] = [onDemand.acquire(note('a')), onDemand.acquire(note('b'))];
  await a.informer.synced();
  expect(b.informer).toBe(a.informer);
  expect(reported).toEqual([`a Added ${namespace}/one`, `b Added ${namespace}/one`]);
  a.release();
  await put('two');
  await eventually('the other user to be notified', () =>
    reported.includes(`b Added ${namespace}/two`) ? undefined : `${reported}`,
  );
  expect(reported).not.toContain(`a Added ${namespace}/two`);
  b.release();
  await put('three');
  const again = onDemand.acquire(note('c'));
  await again.informer.synced();
  expect(again.informer).not.toBe(a.informer);
  expect(reported.filter((line) => line.endsWith('three'))).toEqual([`c Added ${namespace}/three`]);
  expect(count('list')).toBe(2);
  again.release();
});
