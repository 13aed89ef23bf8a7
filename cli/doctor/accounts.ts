import type { KubeObject } from '../../api/core.ts';
import { EVACUATION, NODE_MAINTENANCE } from '../../api/names.ts';
import type { AccountPermissions } from '../../domain/doctor/installation.ts';
import { deniedRequests, findMissingRules, type ReviewedRequest } from '../../kube/authorization.ts';
import type { Kube } from '../../kube/client.ts';
import { resources } from '../../kube/resources.ts';
import { readManifests } from '../../manifests/read.ts';
import { renderManifests } from '../../manifests/render.ts';

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
}

interface Role extends KubeObject {
  rules: Rule[];
}

interface Binding extends KubeObject {
  roleRef: { kind: string; name: string };
  subjects: { kind: string; name: string; namespace?: string }[];
}

/** Returns what the ServiceAccounts of the processes may not do of what deploy/ grants them. */
export async function accountFacts(
  kube: Kube,
  namespace: string,
  signal: AbortSignal,
): Promise<AccountPermissions[]> {
  const manifests = renderManifests(await readManifests(), { namespace });
  const accounts = manifests.filter(({ kind }) => kind === 'ServiceAccount');
  return Promise.all(
    accounts.map(async ({ metadata: { name } }) => {
      const requests = requestsOf(manifests, { name, namespace });
      const denied = await deniedRequests(kube, requesterOf(name, namespace), requests, { signal });
      return { account: `${namespace}/${name}`, reviewed: requests.length, denied: denied.map(requestText) };
    }),
  );
}

function requesterOf(name: string, namespace: string) {
  return {
    username: `system:serviceaccount:${namespace}:${name}`,
    groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
  };
}

/** Returns every request that the roles of the account permit, by verb, resource and name. */
function requestsOf(
  manifests: readonly KubeObject[],
  account: { name: string; namespace: string },
): ReviewedRequest[] {
  const bindings = manifests
    .filter(isBinding)
    .filter(({ subjects }) =>
      subjects.some(
        (one) =>
          one.kind === 'ServiceAccount' && one.name === account.name && one.namespace === account.namespace,
      ),
    );
  return bindings.flatMap(({ roleRef, metadata }) => {
    const role = manifests.find(
      (one): one is Role =>
        one.kind === roleRef.kind &&
        one.metadata.name === roleRef.name &&
        (roleRef.kind === 'ClusterRole' || one.metadata.namespace === metadata.namespace),
    );
    return (role?.rules ?? []).flatMap((rule) => expand(rule, metadata.namespace));
  });
}

function isBinding(manifest: KubeObject): manifest is Binding {
  return manifest.kind === 'ClusterRoleBinding' || manifest.kind === 'RoleBinding';
}

function expand(rule: Rule, namespace: string | undefined): ReviewedRequest[] {
  const { apiGroups, resources: paths, verbs, resourceNames = [undefined] } = rule;
  return apiGroups.flatMap((group) =>
    paths.flatMap((path) => {
      const [resource = '', subresource] = path.split('/');
      return verbs.flatMap((verb) =>
        resourceNames.map((name) => ({ group, resource, subresource, verb, namespace, name })),
      );
    }),
  );
}

function requestText({ verb, resource, subresource, namespace, name }: ReviewedRequest): string {
  const path = [resource, subresource].filter((part) => part !== undefined).join('/');
  const where = namespace === undefined ? '' : ` in namespace ${namespace}`;
  return `${verb} ${path}${name === undefined ? '' : ` ${name}`}${where}`;
}

/** Returns what the roles for users would permit this user, as far as the commands of this plugin need it. */
export async function userRoles(kube: Kube, namespace: string, signal: AbortSignal) {
  const own = (plural: string) => ({ group: NODE_MAINTENANCE.group, resource: plural });
  const ofKind = ({ group, plural }: { group: string; plural: string }) => ({ group, resource: plural });
  const read = ['get', 'list', 'watch'];
  const roles = [
    {
      role: 'node-maintenance-view',
      purpose: 'see maintenances',
      rules: [
        ...[NODE_MAINTENANCE.plural, 'maintenancewindows', 'nodereadinesses'].map((plural) => ({
          ...own(plural),
          verbs: read,
        })),
        { ...ofKind(EVACUATION), verbs: read },
        { ...ofKind(resources.nodes), verbs: read },
        { ...ofKind(resources.pods), verbs: read },
        { ...ofKind(resources.podDisruptionBudgets), verbs: read },
        { ...ofKind(resources.leases), verbs: read, namespace },
      ],
    },
    {
      role: 'node-maintenance-operator',
      purpose: 'create and change maintenances',
      rules: [{ ...own(NODE_MAINTENANCE.plural), verbs: ['create', 'patch', 'delete'] }],
    },
  ];
  return Promise.all(
    roles.map(async ({ role, purpose, rules }) => {
      const missing = await findMissingRules(kube, rules, { signal });
      return {
        role,
        purpose,
        missing: missing.map(({ verbs, resource }) => `${verbs.join(', ')} ${resource}`),
      };
    }),
  );
}
