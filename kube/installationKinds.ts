import { type Resource, resources } from './resources.ts';

function admission(kind: string, plural: string): Resource {
  return { group: 'admissionregistration.k8s.io', version: 'v1', plural, kind, namespaced: false };
}

function rbac(kind: string): Resource {
  const plural = `${kind.toLowerCase()}s`;
  return {
    group: 'rbac.authorization.k8s.io',
    version: 'v1',
    plural,
    kind,
    namespaced: !kind.startsWith('Cluster'),
  };
}

function core(kind: string, plural: string): Resource {
  return { group: '', version: 'v1', plural, kind, namespaced: true };
}

/** The kinds of the objects of an installation: those in deploy/, and the Secret that the admission server writes. */
export const installationKinds: Readonly<Record<string, Resource>> = {
  Namespace: resources.namespaces,
  CustomResourceDefinition: resources.customResourceDefinitions,
  Deployment: resources.deployments,
  Service: resources.services as Resource,
  PodDisruptionBudget: resources.podDisruptionBudgets,
  ServiceAccount: core('ServiceAccount', 'serviceaccounts'),
  ConfigMap: core('ConfigMap', 'configmaps'),
  Secret: core('Secret', 'secrets'),
  NetworkPolicy: {
    group: 'networking.k8s.io',
    version: 'v1',
    plural: 'networkpolicies',
    kind: 'NetworkPolicy',
    namespaced: true,
  },
  // Served since Kubernetes 1.36: webhooks replace them before.
  MutatingAdmissionPolicy: admission('MutatingAdmissionPolicy', 'mutatingadmissionpolicies'),
  MutatingAdmissionPolicyBinding: admission(
    'MutatingAdmissionPolicyBinding',
    'mutatingadmissionpolicybindings',
  ),
  ValidatingAdmissionPolicy: admission('ValidatingAdmissionPolicy', 'validatingadmissionpolicies'),
  ValidatingAdmissionPolicyBinding: admission(
    'ValidatingAdmissionPolicyBinding',
    'validatingadmissionpolicybindings',
  ),
  ValidatingWebhookConfiguration: admission(
    'ValidatingWebhookConfiguration',
    'validatingwebhookconfigurations',
  ),
  MutatingWebhookConfiguration: admission('MutatingWebhookConfiguration', 'mutatingwebhookconfigurations'),
  ...Object.fromEntries(
    ['Role', 'RoleBinding', 'ClusterRole', 'ClusterRoleBinding'].map((kind) => [kind, rbac(kind)]),
  ),
};
