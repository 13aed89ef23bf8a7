import type { KubeObject } from '../api/core.ts';
import { FIELD_MANAGER } from '../api/names.ts';
import type { Kube } from '../kube/client.ts';
import type { Resource } from '../kube/resources.ts';
import type { Material } from './certificates.ts';
import type { KeyPair } from './keyPair.ts';

/** A core/v1 Secret; its values are base64. */
export interface Secret extends KubeObject {
  type?: string;
  data?: Record<string, string>;
}

export const secrets: Resource<Secret> = {
  group: '',
  version: 'v1',
  plural: 'secrets',
  kind: 'Secret',
  namespaced: true,
};

export const secretName = 'node-maintenance-webhook';

const noMaterial: Material = { authorities: [], serving: undefined };

/** The keys of a kubernetes.io/tls Secret, plus the private keys of the authorities in the order of their certificates. */
const keys = {
  authorities: 'ca.crt',
  authorityKeys: 'ca.key',
  certificate: 'tls.crt',
  key: 'tls.key',
} as const;

/** Returns empty material for a missing or damaged Secret, so that new certificates are issued. */
export function materialOf(secret: Secret | undefined): Material {
  const [certificates, authorityKeys] = [keys.authorities, keys.authorityKeys].map((key) =>
    blocks(textOf(secret, key)),
  ) as [string[], string[]];
  if (certificates.length !== authorityKeys.length) return noMaterial;
  return {
    authorities: certificates.map((certificate, i) => ({ certificate, key: authorityKeys[i] ?? '' })),
    serving: servingOf(secret),
  };
}

/** Returns the serving certificate, or undefined if none was issued yet. */
export function servingOf(secret: Secret | undefined): KeyPair | undefined {
  const [certificate, key] = [textOf(secret, keys.certificate), textOf(secret, keys.key)];
  return certificate === '' || key === '' ? undefined : { certificate, key };
}

/** Returns the authorities that another program wrote, as PEM; undefined until they and the serving certificate are there. */
export function authoritiesIn(secret: Secret | undefined): string | undefined {
  const authorities = textOf(secret, keys.authorities);
  return authorities === '' || servingOf(secret) === undefined ? undefined : authorities;
}

/** Returns the `caBundle` of all trusted authorities. */
export function bundleOf({ authorities }: Material): string {
  return authorities.map(({ certificate }) => certificate).join('');
}

/** Writes the Secret. Rejects with Conflict if another client wrote it first. */
export async function storeMaterial(
  kube: Kube,
  namespace: string,
  before: Secret | undefined,
  material: Material,
): Promise<void> {
  const secret: Secret = {
    metadata: {
      namespace,
      name: secretName,
      labels: { 'app.kubernetes.io/part-of': 'node-maintenance' },
      ...(before?.metadata.resourceVersion && { resourceVersion: before.metadata.resourceVersion }),
    },
    type: before?.type ?? 'kubernetes.io/tls',
    data: {
      [keys.authorities]: encoded(bundleOf(material)),
      [keys.authorityKeys]: encoded(material.authorities.map(({ key }) => key).join('')),
      [keys.certificate]: encoded(material.serving?.certificate ?? ''),
      [keys.key]: encoded(material.serving?.key ?? ''),
    },
  };
  // Server-side apply: unlike create, RBAC can restrict it to the name of this object.
  await kube.apply(secrets, secret, { fieldManager: FIELD_MANAGER, force: true });
}

function textOf(secret: Secret | undefined, key: string): string {
  return Buffer.from(secret?.data?.[key] ?? '', 'base64').toString();
}

function encoded(text: string): string {
  return Buffer.from(text).toString('base64');
}

function blocks(pem: string): string[] {
  return pem.match(/-----BEGIN [^-]+-----[^-]+-----END [^-]+-----\n?/g) ?? [];
}
