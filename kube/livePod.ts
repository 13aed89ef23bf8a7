import type { V1ObjectMeta, V1Pod, V1PodSpec } from '@kubernetes/client-node';
import type { KubeObject } from '../api/core.ts';

/** A pod with all its fields, as the Kubernetes client has it: times are Dates. */
export type LivePod = V1Pod & {
  readonly metadata: V1ObjectMeta & {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
  };
  readonly spec: V1PodSpec;
};

/** Converts a pod that was read from the apiserver. Loads all of the Kubernetes client, which no other module here needs. */
export async function toLivePod(pod: KubeObject): Promise<LivePod> {
  const { loadYaml } = await import('@kubernetes/client-node');
  // JSON is YAML. Of the client's functions that read an object, this one is public.
  return loadYaml<LivePod>(JSON.stringify({ ...pod, apiVersion: 'v1', kind: 'Pod' }));
}
