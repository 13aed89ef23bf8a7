import type { KubeObject, PodTemplate } from '../api/core.ts';
import type { Kube, RequestOptions } from './client.ts';
import type { RawWorkload, Resource, resources } from './resources.ts';
import { trimPodTemplate } from './transform.ts';

/** A workload that creates pods in a namespace. */
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

/** Lists the workloads of these kinds in a namespace, from the apiserver. */
export async function listWorkloads(
  kube: Kube,
  namespace: string,
  kinds: readonly WorkloadResource[],
  options: RequestOptions = {},
): Promise<Workload[]> {
  const workloads: Workload[] = [];
  for (const resource of kinds as readonly Resource[]) {
    const { items } = await kube.list(resource as Resource<RawWorkload>, { namespace, ...options });
    workloads.push(...items.map((item) => workloadOf(resource.kind, item, trimPodTemplate(item))));
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
