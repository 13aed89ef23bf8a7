import type { NodeSelector } from '../../api/core.ts';
import type { Resource } from '../../kube/resources.ts';

/** Kinds that only tests read or write. */

const resourceOf =
  (group: string, version: string) =>
  (plural: string, kind: string, namespaced: boolean): Resource => ({
    group,
    version,
    plural,
    kind,
    namespaced,
  });

const core = resourceOf('', 'v1');
const apps = resourceOf('apps', 'v1');
const rbac = resourceOf('rbac.authorization.k8s.io', 'v1');
const admission = resourceOf('admissionregistration.k8s.io', 'v1');

export const serviceAccounts = core('serviceaccounts', 'ServiceAccount', true);
export const services = core('services', 'Service', true);
export const deployments = apps('deployments', 'Deployment', true);
export const replicaSets = apps('replicasets', 'ReplicaSet', true);
export const daemonSets = apps('daemonsets', 'DaemonSet', true);
export const priorityClasses = resourceOf('scheduling.k8s.io', 'v1')(
  'priorityclasses',
  'PriorityClass',
  false,
);
export const roles = rbac('roles', 'Role', true);
export const roleBindings = rbac('rolebindings', 'RoleBinding', true);
export const clusterRoles = rbac('clusterroles', 'ClusterRole', false);
export const clusterRoleBindings = rbac('clusterrolebindings', 'ClusterRoleBinding', false);
export const policies = admission('validatingadmissionpolicies', 'ValidatingAdmissionPolicy', false);
export const mutatingPolicies = admission('mutatingadmissionpolicies', 'MutatingAdmissionPolicy', false);
export const policyBindings = admission(
  'validatingadmissionpolicybindings',
  'ValidatingAdmissionPolicyBinding',
  false,
);
export const validatingWebhooks = admission(
  'validatingwebhookconfigurations',
  'ValidatingWebhookConfiguration',
  false,
);
export const mutatingWebhooks = admission(
  'mutatingwebhookconfigurations',
  'MutatingWebhookConfiguration',
  false,
);

/** Selects exactly these nodes. */
export function selectNodes(names: readonly string[]): NodeSelector {
  return {
    nodeSelectorTerms: names.map((name) => ({
      matchFields: [{ key: 'metadata.name', operator: 'In', values: [name] }],
    })),
  };
}
