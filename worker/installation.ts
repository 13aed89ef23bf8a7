import { mutating, validating, type WebhookConfiguration } from '../admission/registration.ts';
import type { KubeObject } from '../api/core.ts';
import { type Component, VERSION_LABEL, WEBHOOK_CONFIGURATION } from '../api/names.ts';
import { type Definition, definitionProblem, unknownFields } from '../domain/installation/definition.ts';
import {
  type InstalledObject,
  type InstallationReview,
  type ReviewedObject,
  reviewInstallation,
} from '../domain/installation/review.ts';
import { findMissingRules } from '../kube/authorization.ts';
import type { Kube } from '../kube/client.ts';
import { isKubeError } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import { readManifests } from '../manifests/read.ts';
import { renderManifests } from '../manifests/render.ts';
import { contains, hasDigest, mutatingPolicies, resourceOf } from './install.ts';

/** The part of the installation that a process checks, with the client whose permissions it checks. */
export interface InstallationCheck {
  kube: Kube;
  namespace: string;
  component: Component;
  /** Whether the process runs with readiness gates. */
  readinessGates: boolean;
  /** The release of the process, such as `0.1.0`. */
  release: string;
}

/** Compares the installed CRDs and policies with those of this release. */
export async function reviewManifests(check: InstallationCheck): Promise<InstallationReview> {
  const { kube, namespace, release } = check;
  const isChecked = ({ kind = '' }: KubeObject) =>
    kind === 'CustomResourceDefinition' || kind.includes('AdmissionPolicy');
  const manifests = (await installedManifests(kube, check)).filter(isChecked);
  const found = await Promise.all(
    manifests.map(async (manifest) => ({ manifest, installed: await read(kube, manifest) })),
  );
  const review = reviewInstallation(found.map(reviewed), release);
  const others = new Set(found.flatMap(({ installed }) => namespacesIn(installed)));
  others.delete(namespace);
  const problems =
    others.size > 0
      ? // Every policy would be reported as changed.
        [otherNamespaceProblem([...others].toSorted(), namespace)]
      : [...review.problems, ...(await permissionProblems(check))];
  return { ...review, problems };
}

/** Compares the installed webhook configurations with those of this release. */
export async function reviewWebhooks({
  kube,
  release,
  ...options
}: Omit<InstallationCheck, 'component'>): Promise<InstallationReview> {
  const manifests = await installedManifests(kube, options);
  const objects = [validating, mutating].map(async ({ kind }): Promise<ReviewedObject> => {
    const manifest = manifests.find((one) => one.kind === kind);
    if (manifest === undefined) throw new Error(`deploy/ contains no ${kind}`);
    const installed = await read(kube, manifest);
    const isOurs = (one: KubeObject) =>
      contains(
        withoutAddresses(one as WebhookConfiguration),
        withoutAddresses(manifest as WebhookConfiguration),
      );
    return {
      kind,
      name: WEBHOOK_CONFIGURATION,
      installed: installed && { release: releaseOf(installed), isOurs: isOurs(installed), unknownFields: [] },
    };
  });
  return reviewInstallation(await Promise.all(objects), release);
}

/** Returns undefined also if the process may not read the object: its permissions name the objects of one release. */
async function read(kube: Kube, manifest: KubeObject): Promise<KubeObject | undefined> {
  const { name } = manifest.metadata;
  return kube.get(resourceOf(manifest), { name }).catch((error: unknown) => {
    if (isKubeError(error, 'Forbidden')) return undefined;
    throw error;
  });
}

function reviewed({
  manifest,
  installed,
}: {
  manifest: KubeObject;
  installed: KubeObject | undefined;
}): ReviewedObject {
  const { kind = '', metadata } = manifest;
  return { kind, name: metadata.name, installed: installed && compared(installed, manifest) };
}

function compared(installed: KubeObject, manifest: KubeObject): InstalledObject {
  const common = { release: releaseOf(installed), isOurs: hasDigest(installed, manifest) };
  if (manifest.kind !== 'CustomResourceDefinition') return { ...common, unknownFields: [] };
  const [actual, wanted] = [installed, manifest] as unknown as [Definition, Definition];
  const problem = definitionProblem(actual, wanted);
  return { ...common, problem, unknownFields: problem === undefined ? unknownFields(actual, wanted) : [] };
}

function releaseOf({ metadata }: KubeObject): string | undefined {
  return metadata.labels?.[VERSION_LABEL];
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
