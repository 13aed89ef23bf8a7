import { forEachBounded } from '../kube/bounded.ts';
import type { Kube } from '../kube/client.ts';
import { type RawPod, resources } from '../kube/resources.ts';
import { until } from '../sandbox/until.ts';
import { serviceAccounts } from './identities.ts';

/** Pods that are placed on nodes without the scheduler, in a namespace of their own. */

export const trafficNamespace = 'bench-traffic';
const timeoutMs = 600_000;
const maxInFlight = 16;

export function nameAt(names: readonly string[], index: number): string {
  return names[index % names.length] ?? '';
}

/** Returns a pod as a Deployment creates it. */
export function podOn(names: readonly string[], name: string, index: number): RawPod {
  const spec = { nodeName: nameAt(names, index), containers: [{ name: 'main', image: 'pause' }] };
  const metadata = { namespace: trafficNamespace, name, labels: { 'pod-template-hash': 'traffic' } };
  return { metadata, spec } as unknown as RawPod;
}

/** The ServiceAccount of a new namespace, without which no pod is created, comes a moment later. */
export async function createNamespace(kube: Kube, signal: AbortSignal): Promise<void> {
  await kube.apply(resources.namespaces, { metadata: { name: trafficNamespace } }, { fieldManager: 'bench' });
  const missing = async () => {
    const account = await kube.get(serviceAccounts, { namespace: trafficNamespace, name: 'default' });
    return account === undefined ? 'its ServiceAccount is missing' : undefined;
  };
  await until('the namespace to be usable', missing, { timeoutMs, signal });
}

export async function removePods(kube: Kube, signal: AbortSignal): Promise<void> {
  const { items } = await kube.list(resources.pods, { namespace: trafficNamespace });
  await forEachBounded(maxInFlight, items, ({ metadata: { name, uid = '' } }) =>
    kube.delete(resources.pods, { namespace: trafficNamespace, name }, { uid, gracePeriodSeconds: 0 }),
  );
  const left = async () => {
    const remaining = await kube.list(resources.pods, { namespace: trafficNamespace });
    return remaining.items.length === 0 ? undefined : `${remaining.items.length} pods are left`;
  };
  await until('the pods of a slice to be gone', left, { timeoutMs, signal });
}
