import type { KubeObject, PodTemplate } from '../api/core.ts';
import type { Kube, RequestOptions } from './client.ts';
import type { RawWorkload, Resource, resources } from './resources.ts';
import { slimTemplate } from './slim.ts';

/** What makes pods in a namespace. */
interface Workload {
  kind: string;
  namespace: string;
  name: string;
  template: PodTemplate;
}

type WorkloadResource =
  | typeof resources.daemonSets
  | typeof resources.deployments
  | typeof resources.statefulSets;

/** The workloads of these kinds, as they are now. */
export async function workloadsIn(
  kube: Kube,
  namespace: string,
  kinds: readonly WorkloadResource[],
  options: RequestOptions = {},
): Promise<Workload[]> {
  const workloads: Workload[] = [];
  for (const resource of kinds as readonly Resource[]) {
    const { items } = await kube.list(resource as Resource<RawWorkload>, { namespace, ...options });
    workloads.push(...items.map((item) => workloadOf(resource.kind, item, slimTemplate(item))));
  }
  return workloads;
}

export function workloadOf(
  kind: string,
  { metadata: { namespace = '', name } }: KubeObject,
  template: PodTemplate,
): Workload {
  return { kind, namespace, name, template };
}
