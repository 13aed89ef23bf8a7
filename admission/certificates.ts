import { createPrivateKey, X509Certificate } from 'node:crypto';
import {
  authorityValidity,
  type CertificateStep,
  type Issued,
  type Lifetimes,
  servingValidity,
  type Validity,
} from '../domain/certificates.ts';
import { canonicalHost } from './host.ts';

/** A certificate and its private key, as PEM. */
export interface KeyPair {
  certificate: string;
  key: string;
}

/** Everything that the Secret holds: the authorities, oldest first, and what is served. */
export interface Material {
  authorities: readonly KeyPair[];
  serving: KeyPair | undefined;
}

/** The material after a step. */
export async function take(
  step: Exclude<CertificateStep, { kind: 'Rest' }>,
  material: Material,
  { hosts, lifetimes, now }: { hosts: readonly string[]; lifetimes: Lifetimes; now: number },
): Promise<Material> {
  const { authorities } = material;
  if (step.kind === 'DropAuthority')
    return { ...material, authorities: authorities.toSpliced(step.authority, 1) };
  // Only now: it takes 25 MB, and most processes never issue anything.
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

/** The material, or nothing of it when a part does not fit: somebody has damaged it, and it is made anew. */
export function sound(material: Material): Material {
  const pairs = [...material.authorities, ...(material.serving ? [material.serving] : [])];
  return pairs.every(fits) ? material : { authorities: [], serving: undefined };
}

function fits({ certificate, key }: KeyPair): boolean {
  try {
    return new X509Certificate(certificate).checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
}

/** What the material says about itself, for the decision what to do next. */
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

/** `DNS:localhost, IP Address:127.0.0.1` */
function hostsOf({ certificate }: KeyPair): string[] {
  const names = new X509Certificate(certificate).subjectAltName?.split(', ') ?? [];
  return names.map((name) => canonicalHost(name.slice(name.indexOf(':') + 1)));
}
