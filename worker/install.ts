import type { KubeObject } from '../api/core.ts';
import { FIELD_MANAGER } from '../api/names.ts';
import type { Kube } from '../kube/client.ts';
import { mutatingPolicies, resourceOfManifest } from '../kube/installationKinds.ts';
import type { Log } from '../kube/log.ts';
import type { Resource } from '../kube/resources.ts';
import { withDigest } from '../manifests/comparison.ts';
import { readInstallation } from '../manifests/read.ts';
import { type InstallationOptions, renderManifests } from '../manifests/render.ts';

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
    const object = withDigest(manifest, plain[i] ?? manifest);
    await kube.apply(resourceOf(manifest), object, { fieldManager: FIELD_MANAGER, force: true });
    log.info('Manifest applied', { kind: manifest.kind, name: manifest.metadata.name });
  }
}

function resourceOf(manifest: KubeObject): Resource {
  const resource = resourceOfManifest(manifest);
  if (resource === undefined)
    throw new Error(
      `deploy/ contains a ${manifest.kind}, which --install does not support: use kubectl apply -k deploy`,
    );
  return resource;
}
