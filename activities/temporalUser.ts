import { REQUESTED_BY_ANNOTATION, REQUESTER_ANNOTATION, TEMPORAL_USER } from '../api/names.ts';
import type { NodeMaintenanceSpec } from '../api/nodeMaintenance.ts';
import { nodesToAuthorize, temporalDenialMessage } from '../domain/admission/maintenance.ts';
import { recordOfUser } from '../domain/common/requester.ts';
import { reviewNodeDeletion } from '../kube/authorization.ts';
import type { Deps } from './deps.ts';
import { invalidInput } from './failures.ts';

/** Annotations of a change that was requested through Temporal. */
export const requestedByTemporal = { [REQUESTED_BY_ANNOTATION]: `user ${TEMPORAL_USER}` };

/** The annotation of a spec that was requested through Temporal: the permissions of its user decide which nodes are maintained from now on. */
export const requesterIsTemporal = { [REQUESTER_ANNOTATION]: recordOfUser(TEMPORAL_USER) };

/**
 * Throws InvalidInput unless the Temporal user may delete the nodes of a maintenance. The admission server checks the same for every other
 * client; the worker is exempt from it, and so checks here.
 */
export function authorizeTemporal(deps: Deps, spec: NodeMaintenanceSpec): Promise<void> {
  return authorizeTemporalFor(deps, nodesToAuthorize([spec], deps.cluster.nodes.list()));
}

/** Throws InvalidInput unless the Temporal user may delete these nodes. */
export async function authorizeTemporalFor({ cluster }: Deps, nodes: readonly string[]): Promise<void> {
  const permission = await reviewNodeDeletion(cluster.kube, { username: TEMPORAL_USER }, nodes);
  if (permission.kind === 'Denied') throw invalidInput(temporalDenialMessage(permission));
}
