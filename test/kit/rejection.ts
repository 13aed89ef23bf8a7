import type { KubeObject } from '../../api/core.ts';
import type { Kube } from '../../kube/client.ts';
import { policies, policyBindings } from './resources.ts';

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
export function rejectCreations(
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
  return denyByPolicy(kube, name, {
    failurePolicy: 'Fail',
    matchConstraints: { resourceRules: [rule] },
    validations: [{ expression, message }],
  });
}

/** Creates a ValidatingAdmissionPolicy with this spec, and its binding. The returned function deletes both. */
export async function denyByPolicy(kube: Kube, name: string, spec: object): Promise<() => Promise<void>> {
  const bound = { policyName: name, validationActions: ['Deny'] };
  const created = [
    [policies, await kube.create(policies, { metadata: { name }, spec } as KubeObject)],
    [policyBindings, await kube.create(policyBindings, { metadata: { name }, spec: bound } as KubeObject)],
  ] as const;
  return async () => {
    for (const [kind, { metadata }] of created.toReversed())
      await kube.delete(kind, { name }, { uid: metadata.uid ?? '' });
  };
}
