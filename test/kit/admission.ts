import type { AddressInfo } from 'node:net';
import { Admission } from '../../admission/admission.ts';
import type { DirectEvictions } from '../../admission/evacuations.ts';
import { validating, type WebhookConfiguration } from '../../admission/registration.ts';
import { GATE_VERB, SYSTEM_NAMESPACE, WEBHOOK_CONFIGURATION } from '../../api/names.ts';
import type { Lifetimes } from '../../domain/admission/certificates.ts';
import type { KubeObject } from '../../api/core.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import { silentLog, type TestCluster } from './cluster.ts';

/** An admission server in this process, with the identity and permissions of deploy/. */
export interface TestAdmission {
  port: number;
  admission: Admission;
  /** Ends it as a crash does: it stays registered. */
  stopped(): Promise<void>;
}

/** Starts an admission server; with `isMaintainer` it also maintains the certificates and the registration. */
export async function servedAdmission(
  { admission: view }: TestCluster,
  {
    isMaintainer = true,
    lifetimes,
    directEvictions = 'reject',
    host = '127.0.0.1',
  }: { isMaintainer?: boolean; lifetimes?: Lifetimes; directEvictions?: DirectEvictions; host?: string } = {},
): Promise<TestAdmission> {
  const admission = new Admission({
    view,
    namespace: SYSTEM_NAMESPACE,
    directEvictions,
    log: silentLog,
    onRejection: () => undefined,
    podsMaxAgeMs: 500,
    ...(lifetimes && { lifetimes }),
  });
  await new Promise<void>((resolve) => admission.server.listen(0, '127.0.0.1', resolve));
  const { port } = admission.server.address() as AddressInfo;
  const serving = new AbortController();
  admission.start(serving.signal);
  const endpoint = { kind: 'Url', host, port } as const;
  const registration = isMaintainer
    ? admission.runRegistration(view.kube, endpoint, serving.signal)
    : Promise.resolve();
  return {
    port,
    admission,
    stopped: async () => {
      serving.abort();
      await registration;
      admission.server.close();
      admission.server.closeAllConnections();
    },
  };
}

export async function registered({ admin }: TestCluster): Promise<WebhookConfiguration | undefined> {
  return admin.get(validating, { name: WEBHOOK_CONFIGURATION });
}

const rbac = (kind: string, plural: string): Resource => ({
  group: 'rbac.authorization.k8s.io',
  version: 'v1',
  plural,
  kind,
  namespaced: false,
});
const options = { fieldManager: 'test', force: true };
const clusterRoles = rbac('ClusterRole', 'clusterroles');
const clusterRoleBindings = rbac('ClusterRoleBinding', 'clusterrolebindings');

/** Creates an operator of maintenances who may delete only these nodes, and returns the user name. */
export async function operatorOf(c: TestCluster, nodes: readonly string[]): Promise<string> {
  const user = c.named('operator');
  await mayDelete(c, user, nodes);
  await bound(c, user, user, user);
  await bound(c, 'node-maintenance-operator', user, `${user}-maintains`);
  return user;
}

async function bound({ admin }: TestCluster, role: string, user: string, name: string): Promise<void> {
  const roleRef = { apiGroup: clusterRoles.group, kind: 'ClusterRole', name: role };
  const subjects = [{ apiGroup: clusterRoles.group, kind: 'User', name: user }];
  const binding = { metadata: { name }, roleRef, subjects } as KubeObject;
  await admin.apply(clusterRoleBindings, binding, options);
}

/** Permits a user to gate these nodes; without names, by the role of deploy/ for all nodes. */
export async function gateWriterOf(c: TestCluster, user: string, nodes?: readonly string[]): Promise<void> {
  if (nodes === undefined) return bound(c, 'node-maintenance-gate-writer', user, `${user}-gates`);
  const { group, plural } = resources.nodeReadinesses;
  const rules = [{ apiGroups: [group], resources: [plural], verbs: [GATE_VERB], resourceNames: nodes }];
  await c.admin.apply(clusterRoles, { metadata: { name: `${user}-gates` }, rules } as KubeObject, options);
  return bound(c, `${user}-gates`, user, `${user}-gates`);
}

/** Changes which nodes an operator may delete. An empty list would allow all of them. */
export async function mayDelete(
  { admin }: TestCluster,
  user: string,
  nodes: readonly string[],
): Promise<void> {
  const rules = [{ apiGroups: [''], resources: ['nodes'], verbs: ['delete'], resourceNames: nodes }];
  await admin.apply(clusterRoles, { metadata: { name: user }, rules } as KubeObject, options);
}

/** Deletes the roles and bindings of every operator of this file. */
export async function operatorsDropped({ admin, namespace }: TestCluster): Promise<void> {
  for (const resource of [clusterRoleBindings, clusterRoles]) {
    const { items } = await admin.list(resource);
    for (const { metadata } of items.filter((one) => one.metadata.name.startsWith(namespace)))
      await admin.delete(resource, { name: metadata.name }, { uid: metadata.uid ?? '' });
  }
}
