import { ORDERED_BY_ANNOTATION, TEMPORAL_USER } from '../api/names.ts';
import type { NodeMaintenanceSpec } from '../api/nodeMaintenance.ts';
import { denialMessage, nodesToAuthorize } from '../domain/admission.ts';
import { mayDeleteNodes } from '../kube/authorization.ts';
import type { Deps } from './deps.ts';
import { invalidInput } from './failures.ts';

/** On what is ordered through Temporal: who did. */
export const orderedByTemporal = { [ORDERED_BY_ANNOTATION]: `user ${TEMPORAL_USER}` };

/**
 * What the admission server asks of everybody else, the worker has to ask by itself, for it is exempt: whether those who
 * give orders through Temporal may delete the nodes of a maintenance. Throws InvalidInput when they may not.
 */
export async function authorizeTemporal({ cluster }: Deps, spec: NodeMaintenanceSpec): Promise<void> {
  const names = nodesToAuthorize([spec], cluster.nodes.list());
  const permission = await mayDeleteNodes(cluster.kube, { username: TEMPORAL_USER }, names);
  if (permission.kind === 'Denied') throw invalidInput(denialMessage({ user: TEMPORAL_USER, ...permission }));
}
