import { createHash } from 'node:crypto';
import { mutating, validating, type WebhookConfiguration } from '../admission/registration.ts';
import type { KubeObject } from '../api/core.ts';
import { type Component, FIELD_MANAGER, WEBHOOK_CONFIGURATION } from '../api/names.ts';
import { findMissingRules } from '../kube/authorization.ts';
import type { Kube } from '../kube/client.ts';
import type { Log } from '../kube/log.ts';
import { type CustomResourceDefinition, type Resource, resources } from '../kube/resources.ts';
import { readInstallation, readManifests } from '../manifests/read.ts';
import { type InstallationOptions, renderManifests } from '../manifests/render.ts';

/** Shows whether an installed object is the one of this release. */
const digestAnnotation = 'nodemaintenance.k8s.io/manifest-digest';

const policy = (kind: string, plural: string): Resource => ({
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural,
  kind,
  namespaced: false,
});

/** Served since Kubernetes 1.36: webhooks replace it before. */
const mutatingPolicies = policy('MutatingAdmissionPolicy', 'mutatingadmissionpolicies');

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
  NetworkPolicy: {
    group: 'networking.k8s.io',
    version: 'v1',
    plural: 'networkpolicies',
    kind: 'NetworkPolicy',
    namespaced: true,
  },
  MutatingAdmissionPolicy: mutatingPolicies,
  MutatingAdmissionPolicyBinding: policy('MutatingAdmissionPolicyBinding', 'mutatingadmissionpolicybindings'),
  ValidatingAdmissionPolicy: policy('ValidatingAdmissionPolicy', 'validatingadmissionpolicies'),
  ValidatingAdmissionPolicyBinding: policy(
    'ValidatingAdmissionPolicyBinding',
    'validatingadmissionpolicybindings',
  ),
  [validating.kind]: validating,
  [mutating.kind]: mutating,
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

const minMinorVersion = 33;

/** Returns why the apiserver is too old for deploy/; undefined if it is not. `version` is one such as `v1.37.1`. */
export function versionProblem(version: string): string | undefined {
  const [, major, minor] = /^v?(\d+)\.(\d+)/.exec(version) ?? [];
  const isOld = Number(major) === 1 && Number(minor) < minMinorVersion;
  return isOld ? `the apiserver has version ${version}` : undefined;
}

/** Applies deploy/ by server-side apply, like `npm run manifests`, and adds a digest of each manifest. */
export async function install(kube: Kube, options: InstallationOptions, log: Log): Promise<void> {
  const { namespace } = options;
  const manifests = await readInstallation(options);
  const served = { mutatingPolicies: await kube.serves(mutatingPolicies) };
  const plain = renderManifests(manifests, {
    ...served,
    ...(namespace !== undefined && { namespace }),
    ...(options.readinessGates !== undefined && { readinessGates: options.readinessGates }),
  });
  for (const [i, manifest] of renderManifests(manifests, { ...options, ...served }).entries()) {
    const object = withDigest(manifest, digestOf(plain[i] ?? manifest));
    await kube.apply(resourceOf(manifest), object, { fieldManager: FIELD_MANAGER, force: true });
    log.info('Manifest applied', { kind: manifest.kind, name: manifest.metadata.name });
  }
}

/** The part of the installation that a process checks, with the client whose permissions it checks. */
export interface InstallationCheck {
  kube: Kube;
  namespace: string;
  component: Component;
  /** Whether the process runs with readiness gates. */
  readinessGates: boolean;
}

/** Returns a sentence for each object that is missing, or belongs to another release or to another namespace. */
export async function installationProblems({
  kube,
  namespace,
  component,
  readinessGates,
}: InstallationCheck): Promise<string[]> {
  const isChecked = ({ kind = '' }: KubeObject) =>
    kind === 'CustomResourceDefinition' || kind.includes('AdmissionPolicy');
  const manifests = (await installedManifests(kube, { namespace, readinessGates })).filter(isChecked);
  const found = await Promise.all(
    manifests.map(async (manifest) => {
      const { name } = manifest.metadata;
      return { manifest, installed: await kube.get(resourceOf(manifest), { name }) };
    }),
  );
  const others = new Set(found.flatMap(({ installed }) => namespacesIn(installed)));
  others.delete(namespace);
  // Every policy would be reported as that of another release.
  if (others.size > 0) return [otherNamespaceProblem([...others].toSorted(), namespace)];
  return [
    ...found.flatMap(({ manifest, installed }) => manifestProblems(manifest, installed)),
    ...(await permissionProblems({ kube, namespace, component, readinessGates })),
  ];
}

/**
 * Returns the manifests of deploy/ that are installed: with MutatingAdmissionPolicies if there are any, otherwise with webhooks in place of
 * them, also after the control plane was upgraded to a version that serves them.
 */
async function installedManifests(
  kube: Kube,
  options: Pick<InstallationCheck, 'namespace' | 'readinessGates'>,
): Promise<KubeObject[]> {
  const manifests = await readManifests();
  const policies = manifests.filter(({ kind }) => kind === mutatingPolicies.kind);
  const installed = (await kube.serves(mutatingPolicies))
    ? await Promise.all(policies.map(({ metadata: { name } }) => kube.get(mutatingPolicies, { name })))
    : [];
  const hasPolicies = installed.some((one) => one !== undefined);
  return renderManifests(manifests, { ...options, mutatingPolicies: hasPolicies });
}

/** Returns the namespaces of the ServiceAccounts that the policy names. */
function namespacesIn(installed: KubeObject | undefined): string[] {
  const accounts = JSON.stringify(installed ?? {}).matchAll(
    /system:serviceaccount:([a-z0-9-]+):node-maintenance-/g,
  );
  return [...accounts].flatMap(([, namespace]) => namespace ?? []);
}

function otherNamespaceProblem(installed: readonly string[], namespace: string): string {
  return `the installed policies apply to the worker in namespace ${installed.join(', ')}, not in ${namespace}: start it with --namespace ${installed[0]}, or install for this namespace (npm start -- --install --namespace ${namespace}, or npm run -s manifests -- --namespace ${namespace} | kubectl apply --server-side --force-conflicts -f -)`;
}

/** Returns a sentence for each webhook configuration that is missing or whose webhooks are those of another release. */
export async function webhookProblems({
  kube,
  namespace,
  readinessGates,
}: Omit<InstallationCheck, 'component'>): Promise<string[]> {
  const manifests = await installedManifests(kube, { namespace, readinessGates });
  const problems = [validating, mutating].map(async (resource) => {
    const manifest = manifests.find(({ kind }) => kind === resource.kind);
    const installed = await kube.get(resource, { name: WEBHOOK_CONFIGURATION });
    if (manifest === undefined) throw new Error(`deploy/ contains no ${resource.kind}`);
    const object = `${resource.kind} ${WEBHOOK_CONFIGURATION}`;
    if (installed === undefined) return [`${object} is missing`];
    const isCurrent = contains(
      withoutAddresses(installed),
      withoutAddresses(manifest as WebhookConfiguration),
    );
    return isCurrent ? [] : [`${object} belongs to another release than this admission server`];
  });
  return (await Promise.all(problems)).flat();
}

/** The admission server registers its own address. */
function withoutAddresses({ webhooks }: WebhookConfiguration): object {
  return { webhooks: webhooks.map(({ clientConfig: _, ...webhook }) => webhook) };
}

/** Checks the permissions of the Role by access reviews, because the process may not read the Role. */
async function permissionProblems({ kube, namespace, component }: InstallationCheck): Promise<string[]> {
  const { group, plural: resource } = resources.leases;
  const verbs = ['get', 'list', 'create', 'patch', 'delete'];
  const missing = await findMissingRules(kube, [{ group, resource, verbs, namespace }]);
  return missing.map(
    (rule) =>
      `this process may not ${rule.verbs.join(', ')} leases in namespace ${namespace}: Role ${component} belongs to another release than this process, or has no RoleBinding there`,
  );
}

function manifestProblems(manifest: KubeObject, installed: KubeObject | undefined): string[] {
  const object = `${manifest.kind} ${manifest.metadata.name}`;
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

/** The digest is that of the manifest without the choices that users may change later. */
function withDigest(manifest: KubeObject, digest: string): KubeObject {
  const annotations = { ...manifest.metadata.annotations, [digestAnnotation]: digest };
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
