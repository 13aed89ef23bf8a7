import type { KubeObject } from '../../api/core.ts';
import type { Kube } from '../../kube/client.ts';
import type { Resource } from '../../kube/resources.ts';

const admission = (kind: string, plural: string): Resource => ({
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural,
  kind,
  namespaced: false,
});
const policies = admission('ValidatingAdmissionPolicy', 'validatingadmissionpolicies');
const bindings = admission('ValidatingAdmissionPolicyBinding', 'validatingadmissionpolicybindings');

export interface Rejection {
  /** The objects whose creation is rejected, such as `pods/eviction`. */
  apiGroup: string;
  apiVersion: string;
  resource: string;
  /** CEL: which of them are admitted. */
  expression: string;
  message: string;
}

/**
 * Makes the apiserver reject creations, as the policy or webhook of an application does, with this name. It takes effect a moment later. The returned
 * function ends it.
 */
export async function rejectCreations(
  kube: Kube,
  name: string,
  { apiGroup, apiVersion, resource, expression, message }: Rejection,
): Promise<() => Promise<void>> {
  const rule = {
    apiGroups: [apiGroup],
    apiVersions: [apiVersion],
    operations: ['CREATE'],
    resources: [resource],
  };
  const spec = {
    failurePolicy: 'Fail',
    matchConstraints: { resourceRules: [rule] },
    validations: [{ expression, message }],
  };
  const bound = { policyName: name, validationActions: ['Deny'] };
  const created = [
    [policies, await kube.create(policies, { metadata: { name }, spec } as KubeObject)],
    [bindings, await kube.create(bindings, { metadata: { name }, spec: bound } as KubeObject)],
  ] as const;
  return async () => {
    for (const [kind, { metadata }] of created.toReversed())
      await kube.delete(kind, { name }, { uid: metadata.uid ?? '' });
  };
}
