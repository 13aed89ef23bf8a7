import type { Kube } from '../../kube/client.ts';
import { resources } from '../../kube/resources.ts';
import { retryOnConflict } from '../../kube/retryOnConflict.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { connect, dropNamespace, freshNamespace } from './fixtures.ts';

let sandbox: Sandbox;
let kube: Kube;
let namespace: string;

beforeAll(async () => {
  sandbox = await testSandbox();
  kube = connect(sandbox.kubeconfig);
  namespace = await freshNamespace(kube, 'conflicts');
});

afterAll(async () => {
  if (namespace) await dropNamespace(kube, namespace);
  await kube?.close();
  await releaseSandbox(sandbox);
});

/** Adds one to the number of transitions of a Lease, with the resourceVersion that was read. */
async function increment(name: string): Promise<void> {
  const { metadata, spec } = (await kube.get(resources.leases, { namespace, name })) ?? {};
  await kube.mergePatch(
    resources.leases,
    { namespace, name },
    {
      metadata: { resourceVersion: metadata?.resourceVersion },
      spec: { leaseTransitions: (spec?.leaseTransitions ?? 0) + 1 },
    },
  );
}

async function created(name: string): Promise<void> {
  await kube.create(resources.leases, { metadata: { namespace, name }, spec: { leaseTransitions: 0 } });
}

test('of five writes at the same time, each is performed once', async () => {
  await created('counter');
  await Promise.all(Array.from({ length: 5 }, () => retryOnConflict(5, () => increment('counter'))));
  const counter = await kube.get(resources.leases, { namespace, name: 'counter' });
  expect(counter?.spec.leaseTransitions).toBe(5);
});

test('the last conflict is rejected', async () => {
  await created('stale');
  let attempts = 0;
  const write = retryOnConflict(3, () => {
    attempts += 1;
    const metadata = { resourceVersion: '1' };
    return kube.mergePatch(resources.leases, { namespace, name: 'stale' }, { metadata, spec: {} });
  });
  await expect(write).rejects.toMatchObject({ kind: 'Conflict' });
  expect(attempts).toBe(3);
});

test('another error is rejected at once', async () => {
  let attempts = 0;
  const write = retryOnConflict(3, () => {
    attempts += 1;
    return kube.mergePatch(resources.leases, { namespace, name: 'absent' }, { spec: {} });
  });
  await expect(write).rejects.toMatchObject({ kind: 'NotFound' });
  expect(attempts).toBe(1);
});
