import assert from 'node:assert/strict';
import type { KubeObject } from '../../api/core.ts';
import { IMPERATIVE_RESPONDER } from '../../api/names.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import type { Check } from '../check.ts';
import { type ConformanceCluster, keyOf, type Pod, reasonsOf, statesOf } from '../cluster.ts';
import { throughout, until } from '../until.ts';

const deleted = { Failed: 'False Succeeded', TargetEvicted: 'True PodDeleted' };
const noFurther = { Failed: 'True NoFurtherResponder', TargetEvicted: 'False EvictionFailed' };

const promise = (rule: string, run: Check['run']): Check => ({ subject: 'imperative responder', rule, run });

/** Returns what the imperative responder has reported. */
async function reportOf(cluster: ConformanceCluster, pod: Pod) {
  const [eviction] = await cluster.evictionsOf(pod);
  return eviction?.status?.responders?.find(({ name }) => name === IMPERATIVE_RESPONDER);
}

async function staysWithHeartbeats(cluster: ConformanceCluster, pod: Pod): Promise<void> {
  await until('a heartbeat with a message', async () => {
    const report = await reportOf(cluster, pod);
    assert.ok(report?.heartbeatTime !== undefined && report.message !== undefined);
  });
  assert.ok(await cluster.currentPod(pod), 'the pod is gone');
}

/** Returns a DaemonSet that runs on no node. */
function daemonSet(namespace: string, name: string): KubeObject {
  const labels = { conformance: name };
  const container = { name: 'main', image: 'registry.k8s.io/pause:3.10' };
  const spec = {
    selector: { matchLabels: labels },
    template: {
      metadata: { labels },
      spec: { nodeSelector: { 'conformance.node-maintenance.dev/never': 'true' }, containers: [container] },
    },
  };
  return { apiVersion: 'apps/v1', kind: 'DaemonSet', metadata: { name, namespace }, spec } as KubeObject;
}

/** Promises of the KEP about imperative-eviction.k8s.io/evictor. */
export const imperativePromises: readonly Check[] = [
  promise('evicts a pod without other responders, by its UID', async (cluster) => {
    const pod = await cluster.pod();
    const request = await cluster.request(pod);
    await until('the pod to be gone', async () => assert.equal(await cluster.currentPod(pod), undefined));
    await cluster.eventuallyReported(request, deleted);
    const eviction = await cluster.eventually('the end of the Eviction', pod, ({ status }) =>
      assert.deepEqual(reasonsOf(status?.conditions), deleted),
    );
    assert.deepEqual(
      statesOf(eviction).map(([name]) => name),
      [IMPERATIVE_RESPONDER],
    );
  }),
  promise(
    'never overrides a PodDisruptionBudget, says what it waits for, and evicts when it may',
    async (cluster) => {
      const labels = { app: 'guarded' };
      const pod = await cluster.pod({ labels, runs: true });
      const budget = await cluster.budget(labels, 1);
      const request = await cluster.request(pod);
      await staysWithHeartbeats(cluster, pod);
      assert.match((await reportOf(cluster, pod))?.message ?? '', /budget|disruption/i);
      await cluster.kube.mergePatch(resources.podDisruptionBudgets, keyOf(budget), {
        spec: { minAvailable: 0 },
      });
      await until('the pod to be gone', async () => assert.equal(await cluster.currentPod(pod), undefined));
      await cluster.eventuallyReported(request, deleted);
    },
  ),
  promise('does not evict a pod once nobody requests it', async (cluster) => {
    const labels = { app: 'guarded' };
    const pod = await cluster.pod({ labels, runs: true });
    const budget = await cluster.budget(labels, 1);
    const request = await cluster.request(pod);
    await staysWithHeartbeats(cluster, pod);
    await cluster.intend(request, 'Withdrawn');
    await cluster.eventually('the end of the Eviction', pod, ({ status }) =>
      assert.equal(reasonsOf(status?.conditions)['Failed'], 'True CanceledDueToNoRequesters'),
    );
    await cluster.kube.mergePatch(resources.podDisruptionBudgets, keyOf(budget), {
      spec: { minAvailable: 0 },
    });
    await throughout('the pod exists', 3_000, async () => assert.ok(await cluster.currentPod(pod)));
  }),
  promise('does not evict pods of DaemonSets', async (cluster) => {
    const object = daemonSet(cluster.namespace, cluster.named('daemons'));
    const { metadata } = await cluster.create(resources.daemonSets as Resource, object);
    const { name, uid = '' } = metadata;
    const owner = { apiVersion: 'apps/v1', kind: 'DaemonSet', name, uid, controller: true };
    const pod = await cluster.pod({ labels: { conformance: name }, ownerReferences: [owner] });
    await cluster.eventuallyReported(await cluster.request(pod), noFurther);
    assert.ok(await cluster.currentPod(pod), 'the pod is gone');
  }),
  promise('does not evict mirror pods', async (cluster) => {
    const pod = await cluster.pod({
      annotations: { 'kubernetes.io/config.mirror': 'conformance' },
      // Mirror pods need a node. Nobody runs this one.
      spec: { nodeName: 'conformance-no-such-node', schedulingGates: null },
    });
    await cluster.eventuallyReported(await cluster.request(pod), noFurther);
    assert.ok(await cluster.currentPod(pod), 'the pod is gone');
  }),
  promise('waits for a terminating pod', async (cluster) => {
    const finalizer = 'conformance.node-maintenance.dev/keep';
    const pod = await cluster.pod({ finalizers: [finalizer] });
    await cluster.deletePod(pod);
    const request = await cluster.request(pod);
    try {
      await staysWithHeartbeats(cluster, pod);
    } finally {
      await cluster.kube.mergePatch(resources.pods, keyOf(pod), { metadata: { finalizers: null } });
    }
    await cluster.eventuallyReported(request, deleted);
  }),
  promise('sends heartbeats at most every 20 seconds', async (cluster) => {
    const labels = { app: 'guarded' };
    const pod = await cluster.pod({ labels, runs: true });
    await cluster.budget(labels, 1);
    await cluster.request(pod);
    await staysWithHeartbeats(cluster, pod);
    const times = new Set<string>();
    await throughout('heartbeats', 25_000, async () => {
      const { heartbeatTime } = (await reportOf(cluster, pod)) ?? {};
      if (heartbeatTime !== undefined) times.add(heartbeatTime);
    });
    const seconds = [...times].map((time) => Date.parse(time) / 1_000).toSorted((a, b) => a - b);
    for (const [i, at] of seconds.slice(1).entries())
      assert.ok(at - (seconds[i] ?? 0) >= 20, `heartbeats at ${[...times].join(', ')}`);
  }),
];
