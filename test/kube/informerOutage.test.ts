import { cp, rm } from 'node:fs/promises';
import type { Lease } from '../../api/core.ts';
import type { Kube } from '../../kube/client.ts';
import { Informer } from '../../kube/informer.ts';
import { resources } from '../../kube/resources.ts';
import type { RequestObservation } from '../../kube/transport.ts';
import { layoutOf } from '../../sandbox/layout.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { compact } from '../kit/etcd.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { connect, eventually, recordedLog } from './fixtures.ts';
import { UnreliableNetwork } from './unreliableNetwork.ts';

const namespace = 'default';
let sandbox: Sandbox;
let kube: Kube;

beforeAll(async () => {
  sandbox = await testSandbox({ nodes: 1, install: false });
  kube = connect(sandbox.kubeconfig);
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

test('an informer survives a crash of the apiserver, and lists again when its version is too old to resume from', async () => {
  const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
  const observed: RequestObservation[] = [];
  const client = connect(kubeconfig, { onRequest: (observation) => observed.push(observation) });
  const end = new AbortController();
  const informer = new Informer({ kube: client, resource: resources.leases, namespace, log: recordedLog() });
  const reported: string[] = [];
  informer.subscribe(({ type, object }) =>
    reported.push(`${type} ${object.metadata.name} ${object.spec.holderIdentity}`),
  );
  for (const name of ['changes', 'deleted', 'recreated', 'stays']) await put(name);
  informer.start(end.signal);
  await informer.synced();
  await eventually('a watch', () => (observed.some(({ verb }) => verb === 'watch') ? undefined : 'none'));
  reported.length = 0;
  await eventually('the informer to follow', () => (informer.isFollowing ? undefined : 'it does not'));

  // The informer does not observe the following changes; the new apiserver's cache begins after it, and so does etcd's history.
  network.down();
  await eventually('the informer to notice', () => (informer.isFollowing ? 'it follows' : undefined));
  await remove('deleted');
  await put('changes', 'b');
  await remove('recreated');
  await put('recreated', 'b');
  const comes = await put('comes');
  await sandbox.server('kube-apiserver').kill();
  await sandbox.server('kube-apiserver').start();
  await compact(sandbox, comes.metadata.resourceVersion);
  expect(informer.isFollowing).toBe(false);
  network.up();

  await eventually('the informer to follow', () => (informer.isFollowing ? undefined : 'it does not'));
  // At once: what it follows, it knows.
  expect(reported.toSorted()).toEqual([
    'Added comes a',
    'Added recreated b',
    'Deleted deleted a',
    'Deleted recreated a',
    'Updated changes b',
  ]);
  expect(reported.indexOf('Deleted recreated a')).toBeLessThan(reported.indexOf('Added recreated b'));
  expect(observed.filter(({ verb, status }) => verb === 'list' && status === 200)).toHaveLength(2);

  // And again without the proxy: the running informer recovers from a crash.
  await sandbox.server('kube-apiserver').kill();
  await sandbox.server('kube-apiserver').start();
  await put('after', 'c');
  await eventually('the change after the crash', () =>
    reported.includes('Added after c') ? undefined : `${reported}`,
  );
  end.abort();
  await client.close();
  await close();
});

test('an informer lists again when etcd was restored from a backup, to an earlier version than it knows', async () => {
  const { etcdData } = layoutOf(sandbox.dir);
  const backup = `${etcdData}.backup`;
  const stop = async () => {
    await sandbox.server('kube-apiserver').kill();
    await sandbox.server('etcd').kill();
  };
  const start = async () => {
    await sandbox.server('etcd').start();
    await sandbox.server('kube-apiserver').start();
  };
  await put('kept');
  await stop();
  await cp(etcdData, backup, { recursive: true });
  await start();
  const lines = recordedLog();
  const end = new AbortController();
  const informer = new Informer({
    kube,
    resource: resources.leases,
    namespace,
    idleTimeoutMs: 3_000,
    log: lines,
  });
  informer.start(end.signal);
  await informer.synced();
  for (let revision = 0; revision < 200; revision += 1) await put('lost', `${revision}`);
  await eventually('the last revision', () =>
    informer.get(`${namespace}/lost`)?.spec.holderIdentity === '199' ? undefined : 'an earlier one',
  );

  await stop();
  await rm(etcdData, { recursive: true });
  await cp(backup, etcdData, { recursive: true });
  await start();
  await eventually('the informer to have what was restored', () =>
    informer.get(`${namespace}/lost`) === undefined ? undefined : 'an object that does not exist',
  );
  await put('after');
  await eventually('a change after that', () => (informer.get(`${namespace}/after`) ? undefined : 'none'));
  expect(informer.get(`${namespace}/kept`)).toBeDefined();
  end.abort();
});

test('an informer of a quiet collection does not take silence for a lost connection', async () => {
  const log = recordedLog();
  const observed: RequestObservation[] = [];
  const client = connect(sandbox.kubeconfig, { onRequest: (observation) => observed.push(observation) });
  const end = new AbortController();
  const informer = new Informer({
    kube: client,
    resource: resources.leases,
    namespace: 'kube-public',
    idleTimeoutMs: 500,
    log,
  });
  informer.start(end.signal);
  await informer.synced();
  const watches = () => observed.filter(({ verb }) => verb === 'watch').length;
  await eventually('several watches', () => (watches() > 4 ? undefined : `${watches()}`));
  expect(informer.lastError).toBeUndefined();
  expect(log.lines.filter(({ level }) => level !== 'debug')).toEqual([]);
  end.abort();
  await client.close();
});
