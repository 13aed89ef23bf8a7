import type { Lease } from '../../api/core.ts';
import type { Kube } from '../../kube/client.ts';
import { Informer } from '../../kube/informer.ts';
import { resources } from '../../kube/resources.ts';
import type { RequestObservation } from '../../kube/transport.ts';
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
