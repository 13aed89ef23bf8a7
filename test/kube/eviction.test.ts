import type { KubeObject } from '../../api/core.ts';
import type { Kube } from '../../kube/client.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { connect, dropNamespace, eventually, freshNamespace, runningPod } from './fixtures.ts';

const nodeName = 'kube-eviction';
let sandbox: Sandbox;
let kube: Kube;
let namespace: string;

beforeAll(async () => {
  sandbox = await testSandbox();
  kube = connect(sandbox.kubeconfig);
  await sandbox.addNodes([nodeName]);
  namespace = await freshNamespace(kube, 'eviction');
});

afterAll(async () => {
  if (namespace) await dropNamespace(kube, namespace);
  await kube?.close();
  await releaseSandbox(sandbox);
});

const podNamed = (name: string, labels: Record<string, string> = {}) =>
  runningPod(kube, { namespace, name, nodeName, labels });

/** Creates a PodDisruptionBudget for pods with the label `app: <name>`, and waits until its controller has counted them. */
async function countedBudget(name: string, minAvailable: number, matchLabels: Record<string, string>) {
  const metadata = { namespace, name };
  await kube.create(resources.podDisruptionBudgets, {
    metadata,
    spec: { minAvailable, selector: { matchLabels } },
  });
  await eventually(`budget ${name} to be counted`, async () => {
    const { status, metadata: current } = (await kube.get(resources.podDisruptionBudgets, metadata)) ?? {};
    const isCounted = status?.observedGeneration === current?.generation && (status?.expectedPods ?? 0) > 0;
    return isCounted ? undefined : JSON.stringify(status);
  });
}

describe('an eviction', () => {
  test('of a pod removes it; a second eviction returns Gone', async () => {
    const pod = await podNamed('alone');
    expect(await kube.evict(pod)).toEqual({ kind: 'Evicted' });
    await eventually('the pod to go', async () =>
      (await kube.get(resources.pods, pod)) ? 'still there' : undefined,
    );
    expect(await kube.evict(pod)).toEqual({ kind: 'Gone' });
  });

  test('of a pod by the UID of a previous one does not evict the current one', async () => {
    const pod = await podNamed('namesake');
    expect(await kube.evict({ ...pod, uid: 'an-earlier-uid' })).toEqual({ kind: 'Gone' });
    const living = (await kube.get(resources.pods, pod)) as KubeObject;
    expect(living.metadata.uid).toBe(pod.uid);
    expect(living.metadata.deletionTimestamp).toBeUndefined();
  });

  test('that a PodDisruptionBudget does not allow is rejected with the name and numbers of the budget', async () => {
    const pod = await podNamed('guarded', { app: 'guarded' });
    await countedBudget('guard', 1, { app: 'guarded' });
    expect(await kube.evict(pod)).toEqual({
      kind: 'Rejected',
      message:
        "Cannot evict pod as it would violate the pod's disruption budget. " +
        'The disruption budget guard needs 1 healthy pods and has 1 currently',
      retryAfterSeconds: undefined,
    });
  });

  test('of a pod with two PodDisruptionBudgets is misconfigured', async () => {
    const pod = await podNamed('overbooked', { app: 'overbooked' });
    await countedBudget('first', 0, { app: 'overbooked' });
    await countedBudget('second', 0, { app: 'overbooked' });
    expect(await kube.evict(pod)).toEqual({
      kind: 'Misconfigured',
      message:
        'This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.',
    });
  });
});
