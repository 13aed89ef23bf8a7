import type { Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import { isFor } from '../../domain/evacuation/evacuation.ts';
import type { Cluster } from '../../kube/cluster.ts';

/** Returns the pod of an Evacuation as the informer has it; undefined when that pod does not exist. */
export function podOf({ pods }: Pick<Cluster, 'pods'>, { metadata, spec }: Evacuation): Pod | undefined {
  const pod = pods.get(`${metadata.namespace}/${spec.podRef.name}`);
  return pod !== undefined && isFor(spec.podRef, pod) ? pod : undefined;
}
