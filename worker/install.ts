import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { parse, parseAllDocuments } from 'yaml';
import type { KubeObject } from '../api/core.ts';
import { FIELD_MANAGER, WORK_NAMESPACE } from '../api/names.ts';
import { findMissingRules } from '../kube/authorization.ts';
import type { Kube } from '../kube/client.ts';
import type { Log } from '../kube/log.ts';
import { type CustomResourceDefinition, type Resource, resources } from '../kube/resources.ts';

const deploy = new URL('../deploy/', import.meta.url);
/** Shows whether an installed object is the one of this release. */
const digestAnnotation = 'nodemaintenance.k8s.io/manifest-digest';

const policy = (kind: string, plural: string): Resource => ({
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural,
  kind,
  namespaced: false,
});

/** The kind of deploy/ that Kubernetes introduced last. */
const newestKind = policy('MutatingAdmissionPolicy', 'mutatingadmissionpolicies');

/** The kinds of the objects in deploy/. */
const kinds: Record<string, Resource> = {
  Namespace: resources.namespaces,
  CustomResourceDefinition: resources.customResourceDefinitions,
  ServiceAccount: {
    group: '',
    version: 'v1',
    plural: 'serviceaccounts',
    kind: 'ServiceAccount',
    namespaced: true,
  },
  MutatingAdmissionPolicy: newestKind,
  MutatingAdmissionPolicyBinding: policy('MutatingAdmissionPolicyBinding', 'mutatingadmissionpolicybindings'),
  ValidatingAdmissionPolicy: policy('ValidatingAdmissionPolicy', 'validatingadmissionpolicies'),
  ValidatingAdmissionPolicyBinding: policy(
    'ValidatingAdmissionPolicyBinding',
    'validatingadmissionpolicybindings',
  ),
  ...Object.fromEntries(
    ['Role', 'RoleBinding', 'ClusterRole', 'ClusterRoleBinding'].map((kind) => [
      kind,
      {
        group: 'rbac.authorization.k8s.io',
        version: 'v1',
        plural: `${kind.toLowerCase()}s`,
        kind,
        namespaced: !kind.startsWith('Cluster'),
      },
    ]),
  ),
};

/** Returns why the apiserver is too old for deploy/; undefined if it is not. */
export async function versionProblem(kube: Kube): Promise<string | undefined> {
  if (await kube.serves(newestKind)) return undefined;
  const { kind, group, version } = newestKind;
  return `the apiserver does not serve ${kind} of ${group}/${version}`;
}

/** The levels of the Pod Security Standards. */
export const podSecurityLevels = ['restricted', 'baseline', 'privileged'] as const;
export type PodSecurityLevel = (typeof podSecurityLevels)[number];

/**
 * Applies deploy/ by server-side apply, like `kubectl apply -k deploy`, and adds a digest of each manifest. The pods of Jobs of windows
 * are limited to a level of pod security.
 */
export async function install(kube: Kube, workPodSecurity: PodSecurityLevel, log: Log): Promise<void> {
  const manifests = await readManifests();
  for (const manifest of manifests) {
    const object = withPodSecurity(withDigest(manifest), workPodSecurity);
    await kube.apply(resourceOf(manifest), object, { fieldManager: FIELD_MANAGER, force: true });
    log.info('Manifest applied', { kind: manifest.kind, name: manifest.metadata.name });
  }
}

/** Returns a sentence for each object that is missing or belongs to another release. */
export async function installationProblems(kube: Kube, namespace: string): Promise<string[]> {
  const isChecked = ({ kind = '' }: KubeObject) =>
    kind === 'CustomResourceDefinition' || kind.includes('AdmissionPolicy');
  const manifests = (await readManifests()).filter(isChecked);
  const problems = await Promise.all(manifests.map((manifest) => manifestProblems(kube, manifest)));
  return [...problems.flat(), ...(await permissionProblems(kube, namespace))];
}

/** Checks the permissions of the Role by access reviews, because the worker may not read the Role. */
async function permissionProblems(kube: Kube, namespace: string): Promise<string[]> {
  const { group, plural: resource } = resources.leases;
  const verbs = ['get', 'list', 'create', 'patch', 'delete'];
  const missing = await findMissingRules(kube, [{ group, resource, verbs, namespace }]);
  return missing.map(
    (rule) =>
      `the worker may not ${rule.verbs.join(', ')} leases in namespace ${namespace}: Role node-maintenance-worker belongs to another release than this worker, or has no RoleBinding there`,
  );
}

async function manifestProblems(kube: Kube, manifest: KubeObject): Promise<string[]> {
  const { name } = manifest.metadata;
  const object = `${manifest.kind} ${name}`;
  const installed = await kube.get(resourceOf(manifest), { name });
  if (installed === undefined) return [`${object} is missing`];
  if (manifest.kind === 'CustomResourceDefinition' && !isEstablished(installed as CustomResourceDefinition))
    return [`${object} is not established yet`];
  return hasDigest(installed, manifest) ? [] : [`${object} belongs to another release than this worker`];
}

function isEstablished({ status }: CustomResourceDefinition): boolean {
  const conditions = status?.conditions ?? [];
  return conditions.some(({ type, status: value }) => type === 'Established' && value === 'True');
}

/** Compares the fields of the manifest if the object has no digest, because kubectl applied it. */
function hasDigest(installed: KubeObject, manifest: KubeObject): boolean {
  const digest = installed.metadata.annotations?.[digestAnnotation];
  return digest === undefined
    ? contains(installed, { ...manifest, metadata: {} })
    : digest === digestOf(manifest);
}

/** Reports whether `actual` has all fields of `desired`; the apiserver adds defaults. */
function contains(actual: unknown, desired: unknown): boolean {
  if (Array.isArray(desired)) {
    return (
      Array.isArray(actual) &&
      actual.length === desired.length &&
      desired.every((item, i) => contains(actual[i], item))
    );
  }
  if (typeof desired !== 'object' || desired === null) return actual === desired;
  if (typeof actual !== 'object' || actual === null) return false;
  return Object.entries(desired).every(([key, value]) =>
    contains((actual as Record<string, unknown>)[key], value),
  );
}

/** Sets the level on the namespace of the Jobs, as the component deploy/privileged-work does for `privileged`. */
function withPodSecurity(manifest: KubeObject, level: PodSecurityLevel): KubeObject {
  const { kind, metadata } = manifest;
  if (kind !== 'Namespace' || metadata.name !== WORK_NAMESPACE) return manifest;
  const modes = ['enforce', 'warn'].map((mode) => [`pod-security.kubernetes.io/${mode}`, level]);
  return {
    ...manifest,
    metadata: { ...metadata, labels: { ...metadata.labels, ...Object.fromEntries(modes) } },
  };
}

function withDigest(manifest: KubeObject): KubeObject {
  const annotations = { ...manifest.metadata.annotations, [digestAnnotation]: digestOf(manifest) };
  return { ...manifest, metadata: { ...manifest.metadata, annotations } };
}

function digestOf(manifest: KubeObject): string {
  return createHash('sha256').update(JSON.stringify(manifest)).digest('hex').slice(0, 16);
}

function resourceOf(manifest: KubeObject): Resource {
  const resource = kinds[manifest.kind ?? ''];
  if (resource === undefined)
    throw new Error(
      `deploy/ contains a ${manifest.kind}, which --install does not support: use kubectl apply -k deploy`,
    );
  return resource;
}

/** Reads the objects that a kustomization lists, also those of the folders that it names. */
async function readManifests(folder = deploy): Promise<KubeObject[]> {
  const { resources: entries } = parse(await readFile(new URL('kustomization.yaml', folder), 'utf8')) as {
    resources: string[];
  };
  const manifests = await Promise.all(
    entries.map(async (entry) => {
      if (!entry.endsWith('.yaml')) return readManifests(new URL(`${entry}/`, folder));
      const text = await readFile(new URL(entry, folder), 'utf8');
      return parseAllDocuments(text).map((document) => document.toJS() as KubeObject);
    }),
  );
  return manifests.flat();
}
