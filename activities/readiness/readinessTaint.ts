import type { Node } from '../../api/core.ts';
import { FIELD_MANAGER, READINESS_TAINT } from '../../api/names.ts';
import { hasTaint } from '../../domain/common/toleration.ts';
import { lacksReadinessTaint } from '../../domain/maintenance/backInService.ts';
import { byNode } from '../../kube/cluster.ts';
import { isKubeError } from '../../kube/errors.ts';
import { resources } from '../../kube/resources.ts';
import type { Deps } from '../deps.ts';

/** Number of attempts if other clients change the taints of the node between read and patch. */
const attempts = 3;

/**
 * Adds the readiness taint to a node that is about to be uncordoned, if one of its gates is not ready. Usually the leading worker has added
 * it since the drain evacuated the pods of the gates. If that worker died before, its successor would see an untainted node that has just
 * lost a gate, and would wait for the grace period. Only the leader removes the taint. Resolves with the node as it is then, or undefined if it is gone.
 */
export async function ensureReadinessTaint(deps: Deps, node: Node): Promise<Node | undefined> {
  const { kube } = deps.cluster;
  const { name, uid } = node.metadata;
  let current = node;
  for (let attempt = 1; isMissingReadinessTaint(deps, current); attempt++) {
    const taints = [...(current.spec.taints ?? []), READINESS_TAINT];
    const patch = { metadata: { uid, resourceVersion: current.metadata.resourceVersion }, spec: { taints } };
    try {
      return await kube.mergePatch(resources.nodes, { name }, patch, { fieldManager: FIELD_MANAGER });
    } catch (error) {
      if (!isKubeError(error, 'NotFound', 'Conflict')) throw error;
      const newest = await kube.get(resources.nodes, { name });
      if (newest === undefined || newest.metadata.uid !== uid) return undefined;
      if (attempt === attempts) throw error;
      current = newest;
    }
  }
  return current;
}

/** Returns true if the informers show a gate that is not ready, and the node does not have the readiness taint. */
export function isMissingReadinessTaint(
  { cluster, readinessGatesEnabled }: Pick<Deps, 'cluster' | 'readinessGatesEnabled'>,
  node: Node,
): boolean {
  const { name } = node.metadata;
  const { pods, readinesses, readinessPolicies } = cluster;
  const input = {
    node,
    pods: pods.byIndex(byNode, name),
    readiness: readinesses.get(name),
    isTainted: hasTaint(node, READINESS_TAINT),
  };
  return readinessGatesEnabled && lacksReadinessTaint(input, readinessPolicies.list());
}
