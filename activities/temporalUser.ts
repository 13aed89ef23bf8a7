import { REQUESTED_BY_ANNOTATION, REQUESTER_ANNOTATION, TEMPORAL_USER } from '../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceSpec } from '../api/nodeMaintenance.ts';
import {
  nameDenialMessage,
  nodeOfReservedName,
  nodesToAuthorize,
  temporalDeletionDenialMessage,
  temporalDenialMessage,
} from '../domain/admission/maintenance.ts';
import { recordOfUser } from '../domain/common/requester.ts';
import { heldNodesOf } from '../domain/maintenance/status.ts';
import { deniedRequests, reviewNodeDeletion } from '../kube/authorization.ts';
import type { Deps } from './deps.ts';
import { invalidInput } from './failures.ts';

const deletionOfPods = { group: '', resource: 'pods', verb: 'delete' };

/** Annotations of a change that was requested through Temporal. */
export const requestedByTemporal = { [REQUESTED_BY_ANNOTATION]: `user ${TEMPORAL_USER}` };

/** The annotation of a spec that was requested through Temporal: the permissions of its user decide which nodes are maintained from now on. */
export const requesterIsTemporal = { [REQUESTER_ANNOTATION]: recordOfUser(TEMPORAL_USER) };

/**
 * Throws InvalidInput unless the Temporal user may delete the nodes of a maintenance, and pods in all namespaces if its deadline does. The
 * apiserver and the admission server check the same for every other client; the worker has these permissions, and so checks here.
 */
export function authorizeTemporal(
  deps: Deps,
  { spec, status }: Pick<NodeMaintenance, 'spec' | 'status'>,
): Promise<void> {
  const deletion = spec.stage === 'Complete' ? {} : spec;
  const nodes = nodesToAuthorize([spec], deps.cluster.nodes.list(), heldNodesOf({ status }));
  return authorizeTemporalFor(deps, nodes, deletion);
}

/** Throws InvalidInput if the name is reserved for the agent of a node that the Temporal user may not delete. */
export async function authorizeTemporalForName({ cluster }: Deps, name: string): Promise<void> {
  const node = nodeOfReservedName(name);
  if (node === undefined) return;
  const permission = await reviewNodeDeletion(cluster.kube, { username: TEMPORAL_USER }, [node]);
  if (permission.kind === 'Denied') throw invalidInput(nameDenialMessage(TEMPORAL_USER, name, node));
}

/** Throws InvalidInput unless the Temporal user may delete these nodes, and pods in all namespaces if the deadline does. */
export async function authorizeTemporalFor(
  { cluster }: Deps,
  nodes: readonly string[],
  { drainDeadline }: Pick<NodeMaintenanceSpec, 'drainDeadline'>,
): Promise<void> {
  if (drainDeadline?.onDeadline === 'Delete') {
    const [denied] = await deniedRequests(cluster.kube, { username: TEMPORAL_USER }, [deletionOfPods]);
    if (denied !== undefined) throw invalidInput(temporalDeletionDenialMessage());
  }
  const permission = await reviewNodeDeletion(cluster.kube, { username: TEMPORAL_USER }, nodes);
  if (permission.kind === 'Denied') throw invalidInput(temporalDenialMessage(permission));
}
