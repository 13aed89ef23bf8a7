import type { KubeObject } from '../../api/core.ts';
import { WORK_NAMESPACE } from '../../api/names.ts';
import { isMutatingPolicy, withoutMutatingPolicies } from '../mutatingWebhooks.ts';
import { renderManifests, taintsNewNodes } from '../render.ts';
import { type Expression, lines, onlyIf, templateOf, value } from './templates.ts';

/** Stands for the namespace of the release until a template is complete. */
const releaseNamespace = 'namespace-of-the-release';

type Filter = (manifest: KubeObject) => boolean;

const ofKind =
  (...kinds: string[]): Filter =>
  ({ kind = '' }) =>
    kinds.includes(kind);
const not =
  (filter: Filter): Filter =>
  (manifest) =>
    !filter(manifest);
const isPolicy: Filter = (manifest) =>
  isMutatingPolicy(manifest) || manifest.kind === 'MutatingAdmissionPolicyBinding';
/** The roles that administrators bind to users. */
const isUserRole: Filter = ({ kind, metadata }) =>
  kind === 'ClusterRole' && !/^node-maintenance-(worker|admission|agent)/.test(metadata.name);

const usesPolicies: Expression = 'eq (include "node-maintenance.mutatingPolicies" .) "true"';
const hasGates: Expression = '.Values.readinessGates.enabled';

/** Returns the templates of what deploy/ installs, by the name of the file. */
export function installationTemplates(deploy: readonly KubeObject[]): Record<string, string> {
  const manifests = renderManifests(deploy, { namespace: releaseNamespace });
  const text = (...filters: Filter[]) =>
    withReleaseNamespace(
      templateOf(manifests.filter((manifest) => filters.every((filter) => filter(manifest)))),
    );
  const webhooks = withoutMutatingPolicies(manifests).filter(ofKind('MutatingWebhookConfiguration'));
  const rbac = ofKind('ServiceAccount', 'Role', 'RoleBinding', 'ClusterRole', 'ClusterRoleBinding');
  const crds = manifests.filter(ofKind('CustomResourceDefinition')).map(kept);
  // Helm creates the namespace of the release.
  const isRelease: Filter = ({ metadata }) => metadata.name === releaseNamespace;
  return {
    'crds.yaml': onlyIf('.Values.crds.install', templateOf(crds)),
    'namespaces.yaml': text(ofKind('Namespace'), not(isRelease)),
    'resource-quota.yaml': onlyIf('.Values.resourceQuota.enabled', text(ofKind('ResourceQuota'))),
    'rbac.yaml': text(rbac, not(isUserRole)),
    'user-roles.yaml': onlyIf('.Values.userRoles.create', text(isUserRole)),
    'validating-policies.yaml': text(ofKind('ValidatingAdmissionPolicy', 'ValidatingAdmissionPolicyBinding')),
    'validating-webhooks.yaml': text(ofKind('ValidatingWebhookConfiguration')),
    'mutating-policies.yaml': onlyIf(
      usesPolicies,
      text(isPolicy, not(taintsNewNodes)) + onlyIf(hasGates, `---\n${text(isPolicy, taintsNewNodes)}`),
    ),
    'mutating-webhooks.yaml':
      onlyIf(usesPolicies, text(ofKind('MutatingWebhookConfiguration'))) +
      onlyIf(`not (${usesPolicies})`, gatesOptional(withReleaseNamespace(templateOf(webhooks)))),
  };
}

/** Returns the templates of what is optional in deploy/. */
export function optionalTemplates(
  windowJobs: readonly KubeObject[],
  temporalUser: readonly KubeObject[],
  evictionRequests: readonly KubeObject[],
): Record<string, string> {
  const requests = renderManifests(evictionRequests, { namespace: releaseNamespace });
  const jobs = renderManifests(windowJobs, { namespace: releaseNamespace }).map(withPodSecurity);
  return {
    'window-jobs.yaml': onlyIf('.Values.windowJobs.enabled', withReleaseNamespace(templateOf(jobs))),
    'eviction-requests.yaml': onlyIf(
      'or .Values.evictionRequestController.enabled .Values.evictionRequestResponders.enabled',
      withReleaseNamespace(templateOf(requests)),
    ),
    'temporal-user.yaml': onlyIf('.Values.temporalUser.allNodes', templateOf(temporalUser)),
  };
}

function withReleaseNamespace(text: string): string {
  return text.replaceAll(releaseNamespace, '{{ .Release.Namespace }}');
}

/** The webhooks of readiness taints are only there with readiness gates. */
function gatesOptional(text: string): string {
  return text
    .split(/^(?= {2}- name: )/m)
    .map((part) => (/^ {2}- name: (prepared-)?readiness-taint\./.test(part) ? onlyIf(hasGates, part) : part))
    .join('');
}

function kept(crd: KubeObject): KubeObject {
  const policy = lines('{{- if .Values.crds.keep }}', 'helm.sh/resource-policy: keep', '{{- end }}');
  const annotations = { ...crd.metadata.annotations, policy };
  return { ...crd, metadata: { ...crd.metadata, annotations } };
}

function withPodSecurity(manifest: KubeObject): KubeObject {
  const { kind, metadata } = manifest;
  if (kind !== 'Namespace' || metadata.name !== WORK_NAMESPACE) return manifest;
  const level = value('.Values.windowJobs.podSecurity');
  const modes = { 'pod-security.kubernetes.io/enforce': level, 'pod-security.kubernetes.io/warn': level };
  return { ...manifest, metadata: { ...metadata, labels: { ...metadata.labels, ...modes } } };
}
