import type { KubeObject } from '../../api/core.ts';
import type { Resource } from '../../kube/resources.ts';
import type { TestCluster } from './cluster.ts';
import { remove } from './reset.ts';
import { clusterRoleBindings, clusterRoles, roleBindings, roles } from './resources.ts';

/** Permissions of a user, as RBAC grants them. */
export interface Grant {
  /** ClusterRoles that exist, such as those of deploy/. */
  clusterRoles?: string[];
  rules?: object[];
  /** Everything is granted in this namespace only. */
  namespace?: string;
}

const group = 'rbac.authorization.k8s.io';

/** Creates a user who has these permissions and no others, and returns the user name for `kubectl --as`. */
export async function userWith(c: TestCluster, ...grants: Grant[]): Promise<string> {
  const user = c.named('user');
  await permit(c, user, ...grants);
  return user;
}

/** Grants permissions to a user or, by the name `system:serviceaccount:<namespace>:<name>`, to a ServiceAccount. */
export async function permit(c: TestCluster, user: string, ...grants: Grant[]): Promise<void> {
  for (const grant of grants) await granted(c, user, c.named('grant'), grant);
}

async function granted({ admin }: TestCluster, user: string, name: string, grant: Grant): Promise<void> {
  const { namespace, rules, clusterRoles: existing = [] } = grant;
  const subjects = [{ apiGroup: group, kind: 'User', name: user }];
  const [role, binding] =
    namespace === undefined ? [clusterRoles, clusterRoleBindings] : [roles, roleBindings];
  const bind = async (kind: string, of: string, bindingName: string) => {
    const roleRef = { apiGroup: group, kind, name: of };
    const metadata = { name: bindingName, ...(namespace !== undefined && { namespace }) };
    await admin.create(binding, { metadata, roleRef, subjects } as KubeObject);
  };
  if (rules !== undefined) {
    const metadata = { name, ...(namespace !== undefined && { namespace }) };
    await admin.create(role, { metadata, rules } as KubeObject);
    await bind(role.kind, name, name);
  }
  for (const one of existing) await bind('ClusterRole', one, `${name}-${one}`);
}

/** Deletes the roles and bindings of all users of this file. */
export async function usersDropped({ admin, namespace: prefix }: TestCluster): Promise<void> {
  for (const resource of [clusterRoleBindings, clusterRoles, roleBindings, roles] as Resource[]) {
    const { items } = await admin.list(resource);
    for (const { metadata } of items.filter((one) => one.metadata.name.startsWith(prefix)))
      await remove(admin, resource, metadata);
  }
}
