import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { parse, parseAllDocuments } from 'yaml';
import type { KubeObject } from '../api/core.ts';
import { FIELD_MANAGER } from '../api/names.ts';
import { missingRules } from '../kube/authorization.ts';
import type { Kube } from '../kube/client.ts';
import type { Log } from '../kube/log.ts';
import { type CustomResourceDefinition, type Resource, resources } from '../kube/resources.ts';

const deploy = new URL('../deploy/', import.meta.url);
/** Tells whether an installed object is the one that this worker was released with. */
const digestAnnotation = 'nodemaintenance.k8s.io/manifest-digest';

const policy = (kind: string, plural: string): Resource => ({
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural,
  kind,
  namespaced: false,
});

/** Of all kinds in deploy/ the one that Kubernetes had last. */
const youngest = policy('MutatingAdmissionPolicy', 'mutatingadmissionpolicies');

/** The kinds that deploy/ consists of. */
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
  MutatingAdmissionPolicy: youngest,
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

/** Whether the apiserver is too old for deploy/, in one sentence. */
export async function versionProblem(kube: Kube): Promise<string | undefined> {
  if (await kube.serves(youngest)) return undefined;
  const { kind, group, version } = youngest;
  return `the apiserver does not serve ${kind} of ${group}/${version}`;
}

/** Applies deploy/ by server-side apply: what `kubectl apply -k deploy` does, and a digest of each manifest. */
export async function install(kube: Kube, log: Log): Promise<void> {
  const manifests = await readManifests();
  for (const manifest of manifests) {
    const object = withDigest(manifest);
    await kube.apply(resourceOf(manifest), object, { fieldManager: FIELD_MANAGER, force: true });
    log.info('Manifest applied', { kind: manifest.kind, name: manifest.metadata.name });
  }
}

/** What the cluster lacks, or has from another release; one sentence each, empty when all is well. */
export async function installationProblems(kube: Kube, namespace: string): Promise<string[]> {
  const isChecked = ({ kind = '' }: KubeObject) =>
    kind === 'CustomResourceDefinition' || kind.includes('AdmissionPolicy');
  const manifests = (await readManifests()).filter(isChecked);
  const problems = await Promise.all(manifests.map((manifest) => problem(kube, manifest)));
  return [...problems.flat(), ...(await missingRights(kube, namespace))];
}

/** Of the Role, which the worker may not read: it grew since earlier releases. */
async function missingRights(kube: Kube, namespace: string): Promise<string[]> {
  const { group, plural: resource } = resources.leases;
  const verbs = ['get', 'list', 'create', 'patch', 'delete'];
  const missing = await missingRules(kube, [{ group, resource, verbs, namespace }]);
  return missing.map(
    (rule) =>
      `the worker may not ${rule.verbs.join(', ')} leases in namespace ${namespace}: its Role node-maintenance-worker is of another release than this worker, or not bound there`,
  );
}

async function problem(kube: Kube, manifest: KubeObject): Promise<string[]> {
  const { name } = manifest.metadata;
  const what = `${manifest.kind} ${name}`;
  const installed = await kube.get(resourceOf(manifest), { name });
  if (installed === undefined) return [`${what} is missing`];
  if (manifest.kind === 'CustomResourceDefinition' && !isEstablished(installed as CustomResourceDefinition))
    return [`${what} is not established yet`];
  return hasDigest(installed, manifest) ? [] : [`${what} is of another release than this worker`];
}

function isEstablished({ status }: CustomResourceDefinition): boolean {
  const conditions = status?.conditions ?? [];
  return conditions.some((seen) => seen.type === 'Established' && seen.status === 'True');
}

/** Without our annotation (kubectl applied it) the schema itself is compared, as far as the manifest goes. */
function hasDigest(installed: KubeObject, manifest: KubeObject): boolean {
  const digest = installed.metadata.annotations?.[digestAnnotation];
  return digest === undefined
    ? contains(installed, { ...manifest, metadata: {} })
    : digest === digestOf(manifest);
}

/** Whether `actual` has everything that `wanted` says; the apiserver adds defaults. */
function contains(actual: unknown, wanted: unknown): boolean {
  if (Array.isArray(wanted)) {
    return (
      Array.isArray(actual) &&
      actual.length === wanted.length &&
      wanted.every((item, i) => contains(actual[i], item))
    );
  }
  if (typeof wanted !== 'object' || wanted === null) return actual === wanted;
  if (typeof actual !== 'object' || actual === null) return false;
  return Object.entries(wanted).every(([key, value]) =>
    contains((actual as Record<string, unknown>)[key], value),
  );
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
      `deploy/ has a ${manifest.kind}, which --install does not know: use kubectl apply -k deploy`,
    );
  return resource;
}

/** The objects that a kustomization lists, those of the folders that it names included. */
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
