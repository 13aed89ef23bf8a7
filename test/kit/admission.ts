import type { AddressInfo } from 'node:net';
import { Admission } from '../../admission/admission.ts';
import {
  mutating,
  type PlainEvictions,
  registrationName,
  validating,
  type WebhookConfiguration,
} from '../../admission/registration.ts';
import { SYSTEM_NAMESPACE, workerUser } from '../../api/names.ts';
import type { Lifetimes } from '../../domain/certificates.ts';
import type { KubeObject } from '../../api/core.ts';
import type { Resource } from '../../kube/resources.ts';
import { silentLog, type TestCluster } from './cluster.ts';

/** An admission server as the worker has it, in this process. */
export interface TestAdmission {
  port: number;
  admission: Admission;
  /** Ends it as a crash would: it stays registered. */
  stopped(): Promise<void>;
}

/** `keeps`: whether it is the one that keeps certificates and registration. */
export async function servedAdmission(
  { cluster }: TestCluster,
  {
    keeps = true,
    lifetimes,
    plainEvictions = 'refuse',
  }: { keeps?: boolean; lifetimes?: Lifetimes; plainEvictions?: PlainEvictions } = {},
): Promise<TestAdmission> {
  const admission = new Admission({
    view: cluster,
    namespace: SYSTEM_NAMESPACE,
    worker: workerUser(SYSTEM_NAMESPACE),
    plainEvictions,
    log: silentLog,
    ...(lifetimes && { lifetimes }),
  });
  await new Promise<void>((resolve) => admission.server.listen(0, '127.0.0.1', resolve));
  const { port } = admission.server.address() as AddressInfo;
  const serving = new AbortController();
  admission.start(serving.signal);
  const endpoint = { kind: 'Url', host: '127.0.0.1', port } as const;
  const kept = keeps ? admission.keep(cluster.kube, endpoint, serving.signal) : Promise.resolve();
  return {
    port,
    admission,
    stopped: async () => {
      serving.abort();
      await kept;
      admission.server.close();
      admission.server.closeAllConnections();
    },
  };
}

export async function registered({ admin }: TestCluster): Promise<WebhookConfiguration | undefined> {
  return admin.get(validating, { name: registrationName });
}

/** Takes the registration back: other tests have no admission server. */
export async function unregistered({ admin }: TestCluster): Promise<void> {
  for (const resource of [validating, mutating]) {
    const uid = (await admin.get(resource, { name: registrationName }))?.metadata.uid;
    if (uid !== undefined) await admin.delete(resource, { name: registrationName }, { uid });
  }
}

const rbac = (kind: string, plural: string): Resource => ({
  group: 'rbac.authorization.k8s.io',
  version: 'v1',
  plural,
  kind,
  namespaced: false,
});
const clusterRoles = rbac('ClusterRole', 'clusterroles');
const clusterRoleBindings = rbac('ClusterRoleBinding', 'clusterrolebindings');

/** An operator of maintenances who may delete just these nodes; resolves with the user name. */
export async function operatorOf(c: TestCluster, nodes: readonly string[]): Promise<string> {
  const user = c.named('operator');
  const rules = [{ apiGroups: [''], resources: ['nodes'], verbs: ['delete'], resourceNames: nodes }];
  const options = { fieldManager: 'test', force: true };
  await c.admin.apply(clusterRoles, { metadata: { name: user }, rules } as KubeObject, options);
  const bind = (role: string, name: string) => {
    const roleRef = { apiGroup: clusterRoles.group, kind: 'ClusterRole', name: role };
    const subjects = [{ apiGroup: clusterRoles.group, kind: 'User', name: user }];
    return c.admin.apply(
      clusterRoleBindings,
      { metadata: { name }, roleRef, subjects } as KubeObject,
      options,
    );
  };
  await bind(user, user);
  await bind('node-maintenance-operator', `${user}-maintains`);
  return user;
}

/** Removes the roles and bindings of every operator of this file. */
export async function operatorsDropped({ admin, namespace }: TestCluster): Promise<void> {
  for (const resource of [clusterRoleBindings, clusterRoles]) {
    const { items } = await admin.list(resource);
    for (const { metadata } of items.filter((one) => one.metadata.name.startsWith(namespace)))
      await admin.delete(resource, { name: metadata.name }, { uid: metadata.uid ?? '' });
  }
}
