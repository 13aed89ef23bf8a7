// @peculiar/x509 requires a reflect-metadata implementation from its users.
import 'reflect-metadata';
import { createPrivateKey, randomBytes, type webcrypto } from 'node:crypto';
import { isIP } from 'node:net';
import * as x509 from '@peculiar/x509';
import type { Validity } from '../domain/admission/certificates.ts';
import type { KeyPair } from './keyPair.ts';

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };

export async function issueAuthority(validity: Validity): Promise<KeyPair> {
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: serialNumber(),
    // Two authorities exist at a time: their names distinguish them.
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

export function issueServing(
  authority: KeyPair,
  hosts: readonly string[],
  validity: Validity,
): Promise<KeyPair> {
  const names = hosts.map((value) => ({ type: isIP(value) === 0 ? 'dns' : 'ip', value }) as const);
  return issueLeaf(authority, 'node-maintenance-webhook', validity, [
    new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
    new x509.SubjectAlternativeNameExtension(names),
  ]);
}

/** Issues a certificate with which a client authenticates. */
export function issueClient(authority: KeyPair, commonName: string, validity: Validity): Promise<KeyPair> {
  return issueLeaf(authority, commonName, validity, [
    new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.clientAuth]),
  ]);
}

async function issueLeaf(
  authority: KeyPair,
  commonName: string,
  validity: Validity,
  extensions: readonly x509.Extension[],
): Promise<KeyPair> {
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const issuer = new x509.X509Certificate(authority.certificate);
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serialNumber(),
    subject: `CN=${commonName}`,
    issuer: issuer.subject,
    ...datesOf(validity),
    publicKey: keys.publicKey,
    signingKey: createPrivateKey(authority.key).toCryptoKey(algorithm, false, ['sign']),
    signingAlgorithm: algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      ...extensions,
      await x509.AuthorityKeyIdentifierExtension.create(issuer),
    ],
  });
  return pairOf(certificate, keys.privateKey);
}

/** Returns a positive, unique number. */
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
