import { createHash } from 'node:crypto';
import type { KubeObject } from '../api/core.ts';
import { VERSION_LABEL } from '../api/names.ts';
import { type Definition, definitionProblem, unknownFields } from '../domain/installation/definition.ts';
import type { InstalledObject, ReviewedObject } from '../domain/installation/review.ts';

/** Compares the objects of an installation with the manifests of this release. */

/** Shows whether an installed object is the one of this release. */
const digestAnnotation = 'nodemaintenance.k8s.io/manifest-digest';

/** Returns the manifest with a digest of `plain`: the same manifest without the choices that users may change later. */
export function withDigest(manifest: KubeObject, plain: KubeObject): KubeObject {
  const annotations = { ...manifest.metadata.annotations, [digestAnnotation]: digestOf(plain) };
  return { ...manifest, metadata: { ...manifest.metadata, annotations } };
}

/** Reports whether processes compare an object of this kind: CRDs and policies. */
export function isCompared({ kind = '' }: KubeObject): boolean {
  return kind === 'CustomResourceDefinition' || kind.includes('AdmissionPolicy');
}

export function isWebhooks({ kind = '' }: KubeObject): boolean {
  return kind.endsWith('WebhookConfiguration');
}

/** Compares the installed object of a CRD, a policy or a webhook configuration with its manifest. */
export function reviewedObject(manifest: KubeObject, installed: KubeObject | undefined): ReviewedObject {
  const { kind = '', metadata } = manifest;
  return { kind, name: metadata.name, installed: installed && compared(installed, manifest) };
}

function compared(installed: KubeObject, manifest: KubeObject): InstalledObject {
  const release = installed.metadata.labels?.[VERSION_LABEL];
  // Webhook configurations have the addresses that the admission server has registered.
  if (isWebhooks(manifest)) {
    const isOurs = contains(withoutAddresses(installed), withoutAddresses(manifest));
    return { release, isOurs, unknownFields: [] };
  }
  const isOurs = isCurrent(installed, manifest);
  if (manifest.kind !== 'CustomResourceDefinition') return { release, isOurs, unknownFields: [] };
  const [actual, wanted] = [installed, manifest] as unknown as [Definition, Definition];
  const problem = definitionProblem(actual, wanted);
  const unknown = problem === undefined ? unknownFields(actual, wanted) : [];
  return { release, isOurs, problem, unknownFields: unknown };
}

/** Returns the namespaces of the ServiceAccounts that the policy names. */
export function namespacesIn(installed: KubeObject | undefined): string[] {
  const accounts = JSON.stringify(installed ?? {}).matchAll(
    /system:serviceaccount:([a-z0-9-]+):node-maintenance-/g,
  );
  return [...accounts].flatMap(([, namespace]) => namespace ?? []);
}

function withoutAddresses(configuration: KubeObject): object {
  const { webhooks = [] } = configuration as { webhooks?: { clientConfig?: unknown }[] };
  return { webhooks: webhooks.map(({ clientConfig: _, ...webhook }) => webhook) };
}

/** Compares the fields of the manifest if the object has no digest, because kubectl applied it. */
function isCurrent(installed: KubeObject, manifest: KubeObject): boolean {
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

function digestOf(manifest: KubeObject): string {
  return createHash('sha256').update(JSON.stringify(manifest)).digest('hex').slice(0, 16);
}
