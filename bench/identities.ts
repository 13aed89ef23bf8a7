import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import type { KubeObject } from '../api/core.ts';
import type { Kube } from '../kube/client.ts';
import { type Resource, resources } from '../kube/resources.ts';
import { type ApiServer, ask } from '../sandbox/apiserver.ts';
import { workerIdentity } from '../sandbox/kubernetes.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { isOurs, type TargetName, targetNames } from './targetNames.ts';

/** The namespace of the peers' ServiceAccounts. */
const namespace = 'bench-identities';

export const serviceAccounts: Resource = {
  group: '',
  version: 'v1',
  plural: 'serviceaccounts',
  kind: 'ServiceAccount',
  namespaced: true,
};
const clusterRoleBindings: Resource = {
  group: 'rbac.authorization.k8s.io',
  version: 'v1',
  plural: 'clusterrolebindings',
  kind: 'ClusterRoleBinding',
  namespaced: false,
};
const flowSchemas: Resource = {
  group: 'flowcontrol.apiserver.k8s.io',
  version: 'v1',
  plural: 'flowschemas',
  kind: 'FlowSchema',
  namespaced: false,
};

/** Returns the administrator's access, for requests that no client supports: /metrics and tokens. */
export function adminOf({ kubeconfig }: Sandbox): ApiServer {
  const { clusters, users } = parse(readFileSync(kubeconfig, 'utf8')) as KubeConfigFile;
  const { server, 'certificate-authority-data': ca } = clusters[0].cluster;
  const { hostname: host, port } = new URL(server);
  return {
    host,
    port: Number(port),
    ca: Buffer.from(ca, 'base64').toString(),
    token: users[0].user.token,
  };
}

interface KubeConfigFile {
  clusters: [{ cluster: { server: string; 'certificate-authority-data': string } }];
  users: [{ user: { token: string } }];
}

/** Returns the name of a target's user, as audit logs contain it. */
export function userOf(target: TargetName): string {
  const account = serviceAccountOf(target);
  return `system:serviceaccount:${account.namespace}:${account.name}`;
}

function serviceAccountOf(target: TargetName): { namespace: string; name: string } {
  return isOurs(target) ? workerIdentity : { namespace, name: target };
}

/**
 * Creates a user for each target, so that the audit log distinguishes their requests, and returns their kubeconfigs.
 * Ours is the worker's ServiceAccount, with the permissions of deploy/ and the priority level of every ServiceAccount; the
 * peers are cluster administrators and exempt from API priority and fairness.
 */
export async function createIdentities(
  sandbox: Sandbox,
  kube: Kube,
  server: ApiServer,
): Promise<Record<TargetName, string>> {
  await apply(kube, resources.namespaces, { metadata: { name: namespace } });
  const { workerKubeconfig } = sandbox;
  const kubeconfigs: Partial<Record<TargetName, string>> = {
    ours: workerKubeconfig,
    'ours-lifecycle': workerKubeconfig,
  };
  for (const name of targetNames) {
    await apply(kube, flowSchemas, flowSchema(name));
    if (isOurs(name)) continue;
    await apply(kube, serviceAccounts, { metadata: { name, namespace } });
    await apply(kube, clusterRoleBindings, administrator(name));
    kubeconfigs[name] = await writeKubeconfig(sandbox, server, name);
  }
  return kubeconfigs as Record<TargetName, string>;
}

function apply(kube: Kube, resource: Resource, object: KubeObject): Promise<KubeObject> {
  return kube.apply(resource, object, { fieldManager: 'bench', force: true });
}

function administrator(name: string): KubeObject {
  const roleRef = { apiGroup: clusterRoleBindings.group, kind: 'ClusterRole', name: 'cluster-admin' };
  const subjects = [{ kind: 'ServiceAccount', name, namespace }];
  return { metadata: { name: `bench-${name}` }, roleRef, subjects } as KubeObject;
}

function flowSchema(target: TargetName): KubeObject {
  const all = ['*'];
  const spec = {
    // Takes precedence over the FlowSchema of all ServiceAccounts (9000), which has the same priority level.
    matchingPrecedence: 1000,
    priorityLevelConfiguration: { name: isOurs(target) ? 'workload-low' : 'exempt' },
    distinguisherMethod: { type: 'ByUser' },
    rules: [
      {
        subjects: [{ kind: 'ServiceAccount', serviceAccount: serviceAccountOf(target) }],
        resourceRules: [{ verbs: all, apiGroups: all, resources: all, namespaces: all, clusterScope: true }],
        nonResourceRules: [{ verbs: all, nonResourceURLs: all }],
      },
    ],
  };
  return { metadata: { name: `bench-${target}` }, spec } as KubeObject;
}

/** Exceeds the duration of any benchmark. */
const tokenLifetimeSeconds = 86_400;

async function writeKubeconfig(sandbox: Sandbox, server: ApiServer, name: string): Promise<string> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`;
  const { status, body } = await ask(server, 'POST', path, {
    spec: { expirationSeconds: tokenLifetimeSeconds },
  });
  if (status !== 201) throw new Error(`POST ${path} answered ${status}: ${body.slice(0, 200)}`);
  const { token } = (JSON.parse(body) as { status: { token: string } }).status;
  const config = parse(readFileSync(sandbox.kubeconfig, 'utf8')) as KubeConfigFile;
  config.users[0].user = { token };
  const file = join(sandbox.dir, `${name}.kubeconfig`);
  writeFileSync(file, stringify(config), { mode: 0o600 });
  return file;
}
