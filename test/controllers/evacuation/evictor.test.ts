import { Evictor } from '../../../controllers/evacuation/evictor.ts';
import type { FencedKube, Kube } from '../../../kube/client.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { UnreliableApiserver } from '../../chaos/unreliableApiserver.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import { connect, dropNamespace, freshNamespace, runningPod } from '../../kube/fixtures.ts';

const nodeName = 'evictor';
let sandbox: Sandbox;
let proxy: Awaited<ReturnType<typeof UnreliableApiserver.before>>;
let direct: Kube;
let kube: Kube;
let namespace: string;
let evictions = 0;

beforeAll(async () => {
  sandbox = await testSandbox();
  proxy = await UnreliableApiserver.before(sandbox.kubeconfig);
  direct = connect(sandbox.kubeconfig);
  kube = connect(proxy.kubeconfig, {
    onRequest: ({ verb }) => {
      if (verb === 'evict') evictions += 1;
    },
  });
  await sandbox.addNodes([nodeName]);
  namespace = await freshNamespace(direct, 'evictor');
});

beforeEach(() => {
  evictions = 0;
});

afterAll(async () => {
  if (namespace) await dropNamespace(direct, namespace);
  await kube?.close();
  await direct?.close();
  await proxy?.close();
  await releaseSandbox(sandbox);
});

/** A pod that stays while it terminates. */
async function heldPod(name: string) {
  const pod = await runningPod(direct, { namespace, name, nodeName });
  await setFinalizers(pod, ['example.com/hold']);
  return pod;
}

const setFinalizers = (key: { namespace: string; name: string }, finalizers: string[]) =>
  direct.mergePatch(resources.pods, key, { metadata: { finalizers } });

/** An eviction that is requested while the evictor works, and whose pod the informer shows as it is. */
const current = { requestedAt: '2999-01-01T00:00:00Z', isCurrent: true };

async function evictedWithoutAnswer(evictor: Evictor, pod: Parameters<Evictor['evict']>[0]): Promise<void> {
  proxy.apiserver.begin('LoseAnswers');
  await expect(evictor.evict(pod, current)).rejects.toMatchObject({ kind: 'Unavailable' });
  proxy.apiserver.end();
}

test('an eviction whose answer was lost is not repeated', async () => {
  const [evictor, pod] = [new Evictor(kube as FencedKube), await heldPod('terminating')];
  await evictedWithoutAnswer(evictor, pod);
  expect(await evictor.evict(pod, current)).toEqual({ kind: 'Evicted' });
  expect(evictions).toBe(1);
  await setFinalizers(pod, []);
});

test('a pod that is gone, or was replaced, is not evicted', async () => {
  const [evictor, pod] = [new Evictor(kube as FencedKube), await heldPod('replaced')];
  await evictedWithoutAnswer(evictor, pod);
  await setFinalizers(pod, []);
  const successor = await runningPod(direct, { namespace, name: pod.name, nodeName });
  expect(successor.uid).not.toBe(pod.uid);
  expect(await evictor.evict(pod, current)).toEqual({ kind: 'Gone' });
  expect(evictions).toBe(1);
});

test('an eviction that did not arrive is repeated', async () => {
  const [evictor, pod] = [new Evictor(kube as FencedKube), await heldPod('untouched')];
  proxy.apiserver.begin('Answer503');
  await expect(evictor.evict(pod, current)).rejects.toMatchObject({ kind: 'Unavailable' });
  proxy.apiserver.end();
  expect(await evictor.evict(pod, current)).toEqual({ kind: 'Evicted' });
  expect(evictions).toBe(2);
  expect((await direct.get(resources.pods, pod))?.metadata.deletionTimestamp).toBeDefined();
  await setFinalizers(pod, []);
});

// The apiserver reads the budget a second time after a conflict, and returns that it is not found as it is.
test('a budget that was deleted during an eviction does not count as the pod', async () => {
  const [evictor, pod] = [new Evictor(kube as FencedKube), await heldPod('guarded')];
  const details = { group: 'policy', kind: 'poddisruptionbudgets', name: 'web' };
  const message = 'poddisruptionbudgets.policy "web" not found';
  proxy.apiserver.answerEvictions({ code: 404, reason: 'NotFound', message, details });
  await expect(evictor.evict(pod, current)).rejects.toMatchObject({ kind: 'NotFound' });
  proxy.apiserver.end();
  expect(await evictor.evict(pod, current)).toEqual({ kind: 'Evicted' });
  await setFinalizers(pod, []);
});

test.each([
  { when: 'an earlier leader may have evicted', facts: { ...current, requestedAt: '2026-01-01T00:00:00Z' } },
  {
    when: 'an informer that does not follow the apiserver shows as running',
    facts: { ...current, isCurrent: false },
  },
])('a terminating pod that $when is not evicted again', async ({ facts }) => {
  const pod = await heldPod(`earlier-${facts.isCurrent}`);
  expect(await new Evictor(kube as FencedKube).evict(pod, current)).toEqual({ kind: 'Evicted' });
  expect(await new Evictor(kube as FencedKube).evict(pod, facts)).toEqual({ kind: 'Evicted' });
  expect(evictions).toBe(1);
  await setFinalizers(pod, []);
});
