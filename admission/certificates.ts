import { createPrivateKey, X509Certificate } from 'node:crypto';
import {
  authorityValidity,
  type CertificateStep,
  type Issued,
  type Lifetimes,
  servingValidity,
  type Validity,
} from '../domain/admission/certificates.ts';
import { canonicalHost } from './host.ts';
import type { KeyPair } from './keyPair.ts';

/** The content of the Secret: the authorities, oldest first, and the serving certificate. */
export interface Material {
  authorities: readonly KeyPair[];
  serving: KeyPair | undefined;
}

/** Returns the material after a step. */
export async function applyCertificateStep(
  step: Exclude<CertificateStep, { kind: 'Wait' }>,
  material: Material,
  { hosts, lifetimes, now }: { hosts: readonly string[]; lifetimes: Lifetimes; now: number },
): Promise<Material> {
  const { authorities } = material;
  if (step.kind === 'DropAuthority')
    return { ...material, authorities: authorities.toSpliced(step.authority, 1) };
  // Imported on demand: the module takes 25 MB, and most processes never issue a certificate.
  const { issueAuthority, issueServing } = await import('./issue.ts');
  switch (step.kind) {
    case 'IssueAuthority': {
      const authority = await issueAuthority(authorityValidity(lifetimes, now));
      return { ...material, authorities: [...authorities, authority] };
    }
    case 'IssueServing': {
      const authority = authorities[step.authority];
      if (authority === undefined) throw new Error(`there is no authority ${step.authority}`);
      const validity = servingValidity(validityOf(authority.certificate), lifetimes, now);
      return { ...material, serving: await issueServing(authority, hosts, validity) };
    }
  }
}

/** Returns the material, or empty material if a key does not match its certificate: damaged material is replaced. */
export function validMaterial(material: Material): Material {
  const pairs = [...material.authorities, ...(material.serving ? [material.serving] : [])];
  return pairs.every(isMatchingPair) ? material : { authorities: [], serving: undefined };
}

function isMatchingPair({ certificate, key }: KeyPair): boolean {
  try {
    return new X509Certificate(certificate).checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
}

/** Extracts the facts from which `nextCertificateStep` decides. */
export function issuedOf({ authorities, serving }: Material): Issued {
  return {
    authorities: authorities.map(({ certificate }) => validityOf(certificate)),
    serving: serving && {
      ...validityOf(serving.certificate),
      issuer: issuerOf(serving, authorities),
      hosts: hostsOf(serving),
    },
  };
}

function validityOf(pem: string): Validity {
  const { validFrom, validTo } = new X509Certificate(pem);
  return { notBefore: Date.parse(validFrom), notAfter: Date.parse(validTo) };
}

function issuerOf(serving: KeyPair, authorities: readonly KeyPair[]): number | undefined {
  const certificate = new X509Certificate(serving.certificate);
  const index = authorities.findIndex((authority) =>
    certificate.verify(new X509Certificate(authority.certificate).publicKey),
  );
  return index === -1 ? undefined : index;
}

/** Parses `DNS:localhost, IP Address:127.0.0.1`. */
function hostsOf({ certificate }: KeyPair): string[] {
  const names = new X509Certificate(certificate).subjectAltName?.split(', ') ?? [];
  return names.map((name) => canonicalHost(name.slice(name.indexOf(':') + 1)));
}
