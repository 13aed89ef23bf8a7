import type { Node } from '../api/core.ts';
import { FIELD_MANAGER, READINESS_TAINT } from '../api/names.ts';
import { lacksTaint } from '../domain/nodeService.ts';
import { hasTaint } from '../domain/toleration.ts';
import { byNode } from '../kube/cluster.ts';
import { isKubeError } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import type { Deps } from './deps.ts';

/** As often the taints of a node may change between a look at them and the patch. */
const attempts = 3;

/**
 * Puts the taint of readiness gates on a node that is about to take pods again, if a gate is closed. Whoever leads has done that
 * since the drain took the pods of gates away; one that died before leaves it to us: the next one would see an open node that has
 * just lost a gate, with a grace. Taking it away is the leader's.
 */
export async function keepClosed(deps: Deps, node: Node): Promise<void> {
  const { kube } = deps.cluster;
  const { name, uid } = node.metadata;
  let seen = node;
  for (let attempt = 1; isLeftOpen(deps, seen); attempt++) {
    const taints = [...(seen.spec.taints ?? []), READINESS_TAINT];
    const patch = { metadata: { uid, resourceVersion: seen.metadata.resourceVersion }, spec: { taints } };
    try {
      await kube.mergePatch(resources.nodes, { name }, patch, { fieldManager: FIELD_MANAGER });
      return;
    } catch (error) {
      if (!isKubeError(error, 'NotFound', 'Conflict')) throw error;
      const living = await kube.get(resources.nodes, { name });
      if (living === undefined || living.metadata.uid !== uid) return;
      if (attempt === attempts) throw error;
      seen = living;
    }
  }
}

/** Whether a gate of the node is closed, as far as the informers know, and the taint is not there. */
export function isLeftOpen(
  { cluster, keepsGates }: Pick<Deps, 'cluster' | 'keepsGates'>,
  node: Node,
): boolean {
  const { name } = node.metadata;
  const { pods, readinesses, readinessPolicies } = cluster;
  const sight = {
    node,
    pods: pods.byIndex(byNode, name),
    readiness: readinesses.get(name),
    isTainted: hasTaint(node, READINESS_TAINT),
  };
  return keepsGates && lacksTaint(sight, readinessPolicies.list());
}
