import { mutating, validating } from '../admission/registration.ts';
import type { KubeObject } from '../api/core.ts';
import type { Component } from '../api/names.ts';
import type { MutatingPolicies } from '../domain/common/mutations.ts';
import { type InstallationReview, reviewInstallation } from '../domain/installation/review.ts';
import { findMissingRules } from '../kube/authorization.ts';
import type { Kube } from '../kube/client.ts';
import { isKubeError } from '../kube/errors.ts';
import { mutatingPoliciesIn, resourceOfManifest } from '../kube/installationKinds.ts';
import { resources } from '../kube/resources.ts';
import { isCompared, namespacesIn, reviewedObject } from '../manifests/comparison.ts';
import { readManifests } from '../manifests/read.ts';
import { renderManifests } from '../manifests/render.ts';

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
  const manifests = (await installedManifests(kube, check)).filter(isCompared);
  const found = await Promise.all(
    manifests.map(async (manifest) => ({ manifest, installed: await read(kube, manifest) })),
  );
  const objects = found.map(({ manifest, installed }) => reviewedObject(manifest, installed));
  const review = reviewInstallation(objects, release);
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
  const objects = [validating, mutating].map(async ({ kind }) => {
    const manifest = manifests.find((one) => one.kind === kind);
    if (manifest === undefined) throw new Error(`deploy/ contains no ${kind}`);
    return reviewedObject(manifest, await read(kube, manifest));
  });
  return reviewInstallation(await Promise.all(objects), release);
}

/** Returns undefined also if the process may not read the object: its permissions name the objects of one release. */
async function read(kube: Kube, manifest: KubeObject): Promise<KubeObject | undefined> {
  const resource = resourceOfManifest(manifest);
  if (resource === undefined) throw new Error(`No installation contains a ${manifest.kind}`);
  const { name } = manifest.metadata;
  return kube.get(resource, { name }).catch((error: unknown) => {
    if (isKubeError(error, 'Forbidden')) return undefined;
    throw error;
  });
}

/**
 * Returns the manifests of deploy/ that are installed: with MutatingAdmissionPolicies if there are any, otherwise with webhooks in place of
 * them, also after the control plane was upgraded to a version that serves them.
 */
async function installedManifests(
  kube: Kube,
  options: Pick<InstallationCheck, 'namespace' | 'readinessGates'>,
): Promise<KubeObject[]> {
  const hasPolicies = (await installedPolicies(kube)) === 'Installed';
  return renderManifests(await readManifests(), { ...options, mutatingPolicies: hasPolicies });
}

/** Returns whether MutatingAdmissionPolicies of deploy/ are installed, and not webhooks in place of them. */
export async function installedPolicies(kube: Kube): Promise<MutatingPolicies> {
  return mutatingPoliciesIn(kube, await readManifests());
}

function otherNamespaceProblem(installed: readonly string[], namespace: string): string {
  return `the installed policies apply to the worker in namespace ${installed.join(', ')}, not in ${namespace}: start it with --namespace ${installed[0]}, or install for this namespace (npm start -- --install --namespace ${namespace}, or npm run -s manifests -- --namespace ${namespace} | kubectl apply --server-side --force-conflicts -f -)`;
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
