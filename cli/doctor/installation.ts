import type { KubeObject } from '../../api/core.ts';
import { VERSION_LABEL } from '../../api/names.ts';
import type { MutatingPolicies } from '../../domain/common/mutations.ts';
import type { InstallationFacts } from '../../domain/doctor/installation.ts';
import { reviewInstallation, type ReviewedObject } from '../../domain/installation/review.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import type { Kube } from '../../kube/client.ts';
import { mutatingPoliciesIn, resourceOfManifest } from '../../kube/installationKinds.ts';
import { isCompared, isWebhooks, namespacesIn, reviewedObject } from '../../manifests/comparison.ts';
import { readManifests } from '../../manifests/read.ts';
import { renderManifests, taintsNewNodes } from '../../manifests/render.ts';

const maxConcurrentRequests = 16;

/** Returns the release whose manifests this program contains, such as `0.1.0`. */
export async function ownRelease(): Promise<string> {
  const labels = (await readManifests()).flatMap(({ metadata }) => metadata.labels?.[VERSION_LABEL] ?? []);
  return labels[0] ?? 'unknown';
}

/** Returns whether the apiserver has the MutatingAdmissionPolicies of deploy/. Rejects with a KubeError. */
export async function policiesIn(kube: Kube, signal: AbortSignal): Promise<MutatingPolicies> {
  return mutatingPoliciesIn(kube, await readManifests(), { signal });
}

/** Compares the CRDs, policies and webhooks of the cluster with the manifests of this release. */
export async function installationFacts(
  kube: Kube,
  namespace: string,
  signal: AbortSignal,
): Promise<InstallationFacts> {
  const hasPolicies = (await policiesIn(kube, signal)) === 'Installed';
  const manifests = (await readManifests()).filter((one) => isCompared(one) || isWebhooks(one));
  const readinessGates = hasPolicies || (await haveTaintWebhooks(kube, manifests, signal));
  const wanted = renderManifests(manifests, { namespace, mutatingPolicies: hasPolicies, readinessGates });
  const found = new Map<KubeObject, KubeObject | undefined>();
  await forEachBounded(maxConcurrentRequests, wanted, async (manifest) => {
    const resource = resourceOfManifest(manifest);
    if (resource === undefined) return;
    found.set(manifest, await kube.get(resource, { name: manifest.metadata.name }, { signal }));
  });
  // Workers that run without readiness gates have none of these policies.
  const gates = [...found].filter(([manifest]) => taintsNewNodes(manifest));
  const withoutGates = gates.every(([, installed]) => installed === undefined);
  const compared = [...found].filter(([manifest]) => !(withoutGates && taintsNewNodes(manifest)));
  const objects = compared.map(([manifest, installed]) => reviewedObject(manifest, installed));
  const version = await ownRelease();
  return {
    version,
    namespace,
    compared: compared.length,
    differing: objects.flatMap(difference).toSorted(),
    problems: reviewInstallation(objects, version).problems,
    namespaces: [...new Set(compared.flatMap(([, installed]) => namespacesIn(installed)))].toSorted(),
  };
}

/** Reports whether the webhooks that replace policies give new nodes the readiness taint, as they do unless the workers run without readiness gates. */
async function haveTaintWebhooks(
  kube: Kube,
  manifests: readonly KubeObject[],
  signal: AbortSignal,
): Promise<boolean> {
  const rendered = renderManifests(manifests, { mutatingPolicies: false });
  const configuration = rendered.find(({ kind }) => kind === 'MutatingWebhookConfiguration');
  const resource = configuration && resourceOfManifest(configuration);
  if (configuration === undefined || resource === undefined) return true;
  const { name } = configuration.metadata;
  const installed = await kube.get(resource, { name }, { signal });
  const { webhooks = [] } = (installed ?? {}) as { webhooks?: readonly { name: string }[] };
  return webhooks.length === 0 || webhooks.some((one) => taintsNewNodes({ metadata: { name: one.name } }));
}

function difference({ kind, name, installed }: ReviewedObject): string[] {
  if (installed === undefined) return [`${kind} ${name} is missing`];
  if (installed.isOurs) return [];
  return [`${kind} ${name} of release ${installed.release ?? 'unknown'}`];
}
