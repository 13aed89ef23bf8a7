import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import type { KubeObject } from '../../../api/core.ts';
import { AGENT_SERVICE_ACCOUNT, agentUser, SYSTEM_NAMESPACE } from '../../../api/names.ts';
import { isKubeError } from '../../../kube/errors.ts';
import type { Resource } from '../../../kube/resources.ts';
import { kubectlOf, succeeds } from '../../api/kubectl.ts';
import { clusterRoleBindings, clusterRoles, serviceAccounts } from '../../kit/resources.ts';
import type { World } from '../../kit/world.ts';

/** The permissions that the handling of shutdowns uses. */
const rules = [
  { apiGroups: [''], resources: ['nodes'], verbs: ['get', 'list', 'watch'] },
  { apiGroups: [''], resources: ['events'], verbs: ['create', 'patch'] },
  {
    apiGroups: ['nodemaintenance.k8s.io'],
    resources: ['nodemaintenances'],
    verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
  },
];

const name = 'test-agent-shutdown';

/** Creates the ServiceAccount of the agents with these permissions, where there is none. */
export async function createAgentAccount({ kube }: World): Promise<void> {
  const exists = (error: unknown) => {
    if (!isKubeError(error, 'AlreadyExists')) throw error;
  };
  const create = (resource: Resource, object: KubeObject) => kube.create(resource, object).catch(exists);
  await create(serviceAccounts, { metadata: { namespace: SYSTEM_NAMESPACE, name: AGENT_SERVICE_ACCOUNT } });
  await create(clusterRoles, { metadata: { name }, rules } as KubeObject);
  const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name };
  const user = { apiGroup: roleRef.apiGroup, kind: 'User', name: agentUser(SYSTEM_NAMESPACE) };
  await create(clusterRoleBindings, { metadata: { name }, roleRef, subjects: [user] } as KubeObject);
}

/** Permits a user to maintain nodes in general, and to delete none. */
export async function grantOperator({ kube }: World, user: string): Promise<void> {
  const apiGroup = 'rbac.authorization.k8s.io';
  const roleRef = { apiGroup, kind: 'ClusterRole', name: 'node-maintenance-operator' };
  const subjects = [{ apiGroup, kind: 'User', name: user }];
  const binding = { metadata: { name: `${name}-operator` }, roleRef, subjects } as KubeObject;
  await kube.create(clusterRoleBindings, binding);
}

export async function removeAgentAccount({ kube }: World): Promise<void> {
  for (const resource of [clusterRoleBindings, clusterRoles]) {
    const { items } = await kube.list(resource);
    for (const { metadata } of items.filter((one) => one.metadata.name.startsWith(name)))
      await kube.delete(resource, { name: metadata.name }, { uid: metadata.uid ?? '' });
  }
}

interface Identity {
  /** The node to which the token is bound; undefined for a token that is bound to none. */
  node?: string | undefined;
  /** Address of the apiserver, where it is not that of the sandbox. */
  server?: string | undefined;
}

/** Writes a kubeconfig of the agents' ServiceAccount, and returns its path. */
export async function agentKubeconfig(
  { sandbox }: World,
  dir: string,
  { node, server }: Identity,
): Promise<string> {
  const bound = node === undefined ? [] : ['--bound-object-kind', 'Node', '--bound-object-name', node];
  const create = ['create', 'token', AGENT_SERVICE_ACCOUNT, '-n', SYSTEM_NAMESPACE, ...bound];
  const token = (await succeeds(kubectlOf(sandbox)(create))).trim();
  const config = parse(await readFile(sandbox.kubeconfig, 'utf8')) as {
    clusters: { cluster: { server: string } }[];
    users: { user: object }[];
  };
  for (const entry of config.users) entry.user = { token };
  for (const { cluster } of config.clusters) cluster.server = server ?? cluster.server;
  const path = join(dir, `agent-${node ?? 'unbound'}.kubeconfig`);
  await writeFile(path, stringify(config));
  return path;
}
