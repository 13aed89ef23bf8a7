import 'reflect-metadata';
import { createPrivateKey } from 'node:crypto';
import * as x509 from '@peculiar/x509';
import type { KeyPair } from '../../admission/certificates.ts';

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };

/** Issues a client certificate of this authority, valid for a day from `notBefore` (milliseconds). */
export async function issueClient(authority: KeyPair, notBefore: number): Promise<KeyPair> {
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: '02',
    subject: 'CN=node-maintenance-worker',
    issuer: new x509.X509Certificate(authority.certificate).subject,
    notBefore: new Date(notBefore),
    notAfter: new Date(notBefore + 24 * 3_600_000),
    publicKey: keys.publicKey,
    signingKey: createPrivateKey(authority.key).toCryptoKey(algorithm, false, ['sign']),
    signingAlgorithm: algorithm,
    extensions: [new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.clientAuth])],
  });
  const pkcs8 = Buffer.from(await crypto.subtle.exportKey('pkcs8', keys.privateKey));
  const key = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' });
  return {
    certificate: certificate.toString('pem'),
    key: key.export({ format: 'pem', type: 'pkcs8' }).toString(),
  };
}
