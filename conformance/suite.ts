import type { KubeObject } from '../api/core.ts';
import type { Kube } from '../kube/client.ts';
import { resources } from '../kube/resources.ts';
import { controllerPromises } from './behaviour/controller.ts';
import { imperativePromises } from './behaviour/imperative.ts';
import type { Check } from './check.ts';
import { ConformanceCluster } from './cluster.ts';
import { errorMessage } from './until.ts';
import { evictionRules } from './validation/evictions.ts';
import { podRules } from './validation/pods.ts';
import { requestRules } from './validation/requests.ts';

/** Every rule of the apiserver and every promise of the controllers of lifecycle.k8s.io/v1alpha1. */
export const checks: readonly Check[] = [
  ...requestRules,
  ...podRules,
  ...evictionRules,
  ...controllerPromises,
  ...imperativePromises,
];

export type Result =
  | { readonly kind: 'Passed' }
  | { readonly kind: 'Failed'; readonly reason: string }
  /** The cluster does not have what the check needs. */
  | { readonly kind: 'NotApplicable'; readonly reason: string };

/** Runs one check in a namespace of its own, which is deleted afterwards. */
export async function examine(kube: Kube, check: Check): Promise<Result> {
  const name = `conformance-${crypto.randomUUID().slice(0, 8)}`;
  const namespace = await kube.create<KubeObject>(resources.namespaces, {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name },
  });
  try {
    const reason = await check.run(new ConformanceCluster(kube, name));
    return typeof reason === 'string' ? { kind: 'NotApplicable', reason } : { kind: 'Passed' };
  } catch (error) {
    return { kind: 'Failed', reason: errorMessage(error) };
  } finally {
    await kube.delete(resources.namespaces, { name }, { uid: namespace.metadata.uid ?? '' });
  }
}
