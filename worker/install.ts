import { createHash } from 'node:crypto';
import type { KubeObject } from '../api/core.ts';
import { FIELD_MANAGER } from '../api/names.ts';
import type { Kube } from '../kube/client.ts';
import { installationKinds } from '../kube/installationKinds.ts';
import type { Log } from '../kube/log.ts';
import type { Resource } from '../kube/resources.ts';
import { readInstallation } from '../manifests/read.ts';
import { type InstallationOptions, renderManifests } from '../manifests/render.ts';

/** Shows whether an installed object is the one of this release. */
const digestAnnotation = 'nodemaintenance.k8s.io/manifest-digest';

/** Served since Kubernetes 1.36: webhooks replace it before. */
export const mutatingPolicies = resourceOfKind('MutatingAdmissionPolicy');

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

/** Compares the fields of the manifest if the object has no digest, because kubectl applied it. */
export function hasDigest(installed: KubeObject, manifest: KubeObject): boolean {
  const digest = installed.metadata.annotations?.[digestAnnotation];
  return digest === undefined
    ? contains(installed, { ...manifest, metadata: {} })
    : digest === digestOf(manifest);
}

/** Reports whether `actual` has all fields of `desired`; the apiserver adds defaults. */
export function contains(actual: unknown, desired: unknown): boolean {
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

export function resourceOf({ kind = '' }: KubeObject): Resource {
  return resourceOfKind(kind);
}

function resourceOfKind(kind: string): Resource {
  const resource = installationKinds[kind];
  if (resource === undefined)
    throw new Error(
      `deploy/ contains a ${kind}, which --install does not support: use kubectl apply -k deploy`,
    );
  return resource;
}
