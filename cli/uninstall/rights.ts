import { type AccessRule, findMissingRules } from '../../kube/authorization.ts';
import type { Kube } from '../../kube/client.ts';
import { installationKinds } from '../../kube/installationKinds.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import { CommandError } from '../output.ts';

const rule = (
  { group, plural }: Pick<Resource, 'group' | 'plural'>,
  verbs: readonly string[],
): AccessRule => ({
  group,
  resource: plural,
  verbs,
});

const statusOf = ({ group, plural }: Resource): AccessRule => ({
  group,
  resource: `${plural}/status`,
  verbs: ['patch'],
});

const objects = [
  resources.nodeMaintenances,
  resources.maintenanceWindows,
  resources.evacuations,
  resources.nodeReadinesses,
  resources.nodeReadinessPolicies,
  resources.nodeDisruptionBudgets,
] as Resource[];

/** Permissions for everything that an uninstallation reads and writes. */
const rules: readonly AccessRule[] = [
  ...objects.map((resource) => rule(resource, ['list', 'patch', 'delete'])),
  ...[resources.maintenanceWindows, resources.evacuations, resources.nodeDisruptionBudgets].map((resource) =>
    statusOf(resource as Resource),
  ),
  rule(resources.evictionRequests as Resource, ['list', 'delete']),
  // The admission policies let those change maintenances of any node who may delete nodes.
  rule(resources.nodes as Resource, ['list', 'patch', 'delete']),
  statusOf(resources.nodes as Resource),
  rule(resources.pods, ['list', 'patch']),
  rule(resources.jobs as Resource, ['list', 'delete']),
  rule(resources.leases as Resource, ['get', 'list', 'delete']),
  ...Object.values(installationKinds).map((resource) => rule(resource, ['get', 'delete'])),
  ...['Namespace', 'ConfigMap', 'Secret', 'ServiceAccount', 'Role', 'RoleBinding'].flatMap((kind) => {
    const resource = installationKinds[kind];
    return resource === undefined ? [] : [rule(resource, ['list'])];
  }),
  rule(resources.deployments as Resource, ['patch']),
  // The policy released-pods.nodemaintenance.k8s.io asks for it.
  { group: '', resource: 'serviceaccounts', verbs: ['impersonate'] },
];

/** Rejects with a CommandError that names what is missing, before anything is changed. */
export async function requireRights(kube: Kube): Promise<void> {
  const missing = await findMissingRules(kube, rules);
  if (missing.length === 0) return;
  const texts = missing.map(
    ({ group, resource, verbs }) => `${verbs.join(', ')} ${resource}${group === '' ? '' : `.${group}`}`,
  );
  throw new CommandError(
    `nothing was changed: uninstall needs the ClusterRole cluster-admin, and this user may not ${texts.join('; ')}`,
  );
}
