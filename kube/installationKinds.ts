import type { KubeObject } from '../api/core.ts';
import type { Kube, RequestOptions } from './client.ts';
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

/** Served since Kubernetes 1.36: webhooks replace it before. */
export const mutatingPolicies = admission('MutatingAdmissionPolicy', 'mutatingadmissionpolicies');

/** The kinds of the objects of an installation: those in deploy/, and the Secret that the admission server writes. */
export const installationKinds: Readonly<Record<string, Resource>> = {
  Namespace: resources.namespaces,
  CustomResourceDefinition: resources.customResourceDefinitions,
  DaemonSet: resources.daemonSets as Resource,
  Deployment: resources.deployments,
  Service: resources.services as Resource,
  PodDisruptionBudget: resources.podDisruptionBudgets,
  ServiceAccount: core('ServiceAccount', 'serviceaccounts'),
  ConfigMap: core('ConfigMap', 'configmaps'),
  Secret: core('Secret', 'secrets'),
  ResourceQuota: core('ResourceQuota', 'resourcequotas'),
  NetworkPolicy: {
    group: 'networking.k8s.io',
    version: 'v1',
    plural: 'networkpolicies',
    kind: 'NetworkPolicy',
    namespaced: true,
  },
  MutatingAdmissionPolicy: mutatingPolicies,
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

/** Returns where the apiserver has an object of deploy/; undefined for a kind that no installation contains. */
export function resourceOfManifest({ kind = '' }: KubeObject): Resource | undefined {
  return installationKinds[kind];
}

/** Returns whether the apiserver serves MutatingAdmissionPolicies, and has any of these. Rejects with a KubeError. */
export async function mutatingPoliciesIn(
  kube: Kube,
  manifests: readonly KubeObject[],
  options: RequestOptions = {},
): Promise<'Installed' | 'NotInstalled' | 'NotServed'> {
  if (!(await kube.serves(mutatingPolicies, options))) return 'NotServed';
  const policies = manifests.filter(({ kind }) => kind === mutatingPolicies.kind);
  const installed = await Promise.all(
    policies.map(({ metadata: { name } }) => kube.get(mutatingPolicies, { name }, options)),
  );
  return installed.some((one) => one !== undefined) ? 'Installed' : 'NotInstalled';
}
