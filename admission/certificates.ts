// What @peculiar/x509 needs and leaves to its users to choose.
import 'reflect-metadata';
import { createPrivateKey, randomBytes, type webcrypto, X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import * as x509 from '@peculiar/x509';
import {
  authorityValidity,
  type CertificateStep,
  type Issued,
  type Lifetimes,
  servingValidity,
  type Validity,
} from '../domain/certificates.ts';

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

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };

/** The material after a step. */
export async function take(
  step: Exclude<CertificateStep, { kind: 'Rest' }>,
  material: Material,
  { hosts, lifetimes, now }: { hosts: readonly string[]; lifetimes: Lifetimes; now: number },
): Promise<Material> {
  const { authorities } = material;
  switch (step.kind) {
    case 'DropAuthority':
      return { ...material, authorities: authorities.toSpliced(step.authority, 1) };
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

/** The material, or nothing of it when a part cannot be read: somebody has damaged it, and it is made anew. */
export function readable(material: Material): Material {
  try {
    issuedOf(material);
    for (const { key } of material.authorities) createPrivateKey(key);
    return material;
  } catch {
    return { authorities: [], serving: undefined };
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
  return names.map((name) => name.slice(name.indexOf(':') + 1));
}

async function issueAuthority(validity: Validity): Promise<KeyPair> {
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: serialNumber(),
    // Two authorities at a time: their names tell which one signed.
    name: `CN=node-maintenance-webhook-ca-${randomBytes(4).toString('hex')}`,
    ...datesOf(validity),
    keys,
    signingAlgorithm: algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return pairOf(certificate, keys.privateKey);
}

async function issueServing(
  authority: KeyPair,
  hosts: readonly string[],
  validity: Validity,
): Promise<KeyPair> {
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const issuer = new x509.X509Certificate(authority.certificate);
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serialNumber(),
    subject: 'CN=node-maintenance-webhook',
    issuer: issuer.subject,
    ...datesOf(validity),
    publicKey: keys.publicKey,
    signingKey: createPrivateKey(authority.key).toCryptoKey(algorithm, false, ['sign']),
    signingAlgorithm: algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      new x509.SubjectAlternativeNameExtension(
        hosts.map((value) => ({ type: isIP(value) === 0 ? 'dns' : 'ip', value })),
      ),
      await x509.AuthorityKeyIdentifierExtension.create(issuer),
    ],
  });
  return pairOf(certificate, keys.privateKey);
}

/** Positive, and never the same twice. */
function serialNumber(): string {
  return `01${randomBytes(15).toString('hex')}`;
}

function datesOf({ notBefore, notAfter }: Validity): { notBefore: Date; notAfter: Date } {
  return { notBefore: new Date(notBefore), notAfter: new Date(notAfter) };
}

async function pairOf(certificate: x509.X509Certificate, privateKey: webcrypto.CryptoKey): Promise<KeyPair> {
  const pkcs8 = Buffer.from(await crypto.subtle.exportKey('pkcs8', privateKey));
  const key = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' });
  return {
    certificate: `${certificate.toString('pem')}\n`,
    key: key.export({ format: 'pem', type: 'pkcs8' }).toString(),
  };
}
