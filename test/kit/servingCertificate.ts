import { request } from 'node:https';
import type { TLSSocket } from 'node:tls';
import { applyCertificateStep, type Material } from '../../admission/certificates.ts';
import type { KeyPair } from '../../admission/keyPair.ts';
import { defaultLifetimes } from '../../domain/admission/certificates.ts';

/** Issues a certificate for 127.0.0.1, as the admission server does, and its authority. */
export async function servingCertificate(): Promise<{ authority: KeyPair; serving: KeyPair }> {
  const context = { hosts: ['127.0.0.1'], lifetimes: defaultLifetimes, now: Date.now() };
  let material: Material = { authorities: [], serving: undefined };
  material = await applyCertificateStep({ kind: 'IssueAuthority' }, material, context);
  material = await applyCertificateStep({ kind: 'IssueServing', authority: 0 }, material, context);
  const [authority] = material.authorities;
  if (authority === undefined || material.serving === undefined) throw new Error('no certificate was issued');
  return { authority, serving: material.serving };
}

/** Returns the serial number of the certificate served at the port of this host, to a client that trusts the authorities. */
export function servedSerial(port: number, ca: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ host: '127.0.0.1', port, ca, agent: false }, (incoming) => {
      incoming.resume();
      resolve((outgoing.socket as TLSSocket).getPeerCertificate().serialNumber);
    });
    outgoing.once('error', reject);
    outgoing.end();
  });
}
