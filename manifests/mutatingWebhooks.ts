import type { KubeObject } from '../api/core.ts';
import { ADMISSION_SERVICE, SYSTEM_NAMESPACE } from '../api/names.ts';

/**
 * MutatingAdmissionPolicy v1 is served since Kubernetes 1.36. Before, the admission server does what the policies of deploy/ do
 * (admission/mutations.ts): each policy is replaced by a webhook with the same rules and the same conditions (docs/adr/0047).
 */

const policyKind = 'MutatingAdmissionPolicy';
const configurationKind = 'MutatingWebhookConfiguration';

interface MatchCondition {
  name: string;
  expression: string;
}

interface MutatingAdmissionPolicy extends KubeObject {
  spec: {
    failurePolicy: string;
    reinvocationPolicy: string;
    matchConstraints: { objectSelector?: object; resourceRules: object[] };
    matchConditions: MatchCondition[];
  };
}

interface WebhookConfiguration extends KubeObject {
  webhooks: object[];
}

/** Returns the manifests for an apiserver that does not serve MutatingAdmissionPolicies. */
export function withoutMutatingPolicies(manifests: readonly KubeObject[]): KubeObject[] {
  const webhooks = manifests.filter(isMutatingPolicy).map(webhookOf);
  return manifests
    .filter(({ kind }) => kind !== policyKind && kind !== `${policyKind}Binding`)
    .map((manifest) => (manifest.kind === configurationKind ? withWebhooks(manifest, webhooks) : manifest));
}

export function isMutatingPolicy(manifest: KubeObject): manifest is MutatingAdmissionPolicy {
  return manifest.kind === policyKind;
}

function withWebhooks(manifest: KubeObject, webhooks: readonly object[]): KubeObject {
  const configuration = manifest as WebhookConfiguration;
  return { ...configuration, webhooks: [...configuration.webhooks, ...webhooks] } as KubeObject;
}

/**
 * A policy that fails closed becomes a webhook that does: who may change nodes must be recorded. The others fail open, because they match
 * Pods and Nodes, or because the worker does the same later.
 */
export function webhookOf({ metadata, spec }: MutatingAdmissionPolicy): object {
  const { failurePolicy, reinvocationPolicy, matchConstraints, matchConditions } = spec;
  const { objectSelector, resourceRules } = matchConstraints;
  return {
    name: metadata.name,
    sideEffects: 'None',
    admissionReviewVersions: ['v1'],
    matchPolicy: 'Equivalent',
    rules: resourceRules.map((rule) => ({ ...rule, scope: '*' })),
    ...(objectSelector && { objectSelector }),
    failurePolicy,
    reinvocationPolicy,
    timeoutSeconds: failurePolicy === 'Fail' ? 10 : 2,
    // The server evaluates what depends on the parameters of the policy.
    matchConditions: matchConditions.filter(({ expression }) => !/\bparams\b/.test(expression)),
    clientConfig: {
      service: {
        namespace: SYSTEM_NAMESPACE,
        name: ADMISSION_SERVICE,
        path: `/${metadata.name.split('.')[0]}`,
        port: 443,
      },
    },
  };
}
