import { existsSync } from 'node:fs';
import { stringify } from 'yaml';
import { type Layout, writePrivate } from './layout.ts';

/** Common name of the client certificate with which the apiserver calls webhooks. */
export const webhookClientName = 'sandbox-apiserver';

const lifetimeMs = 10 * 365 * 24 * 3_600_000;

/**
 * Gives the apiserver a client certificate for webhooks, which it presents to those that ask for one (`--webhook-client-ca`). Keeps the one
 * of an earlier run.
 */
export async function writeWebhookClient(layout: Layout): Promise<void> {
  if (existsSync(layout.admission)) return;
  // Imported on demand: the module takes 25 MB.
  const { issueAuthority, issueClient } = await import('../admission/issue.ts');
  const now = Date.now();
  const validity = { notBefore: now - 3_600_000, notAfter: now + lifetimeMs };
  const authority = await issueAuthority(validity);
  const { certificate, key } = await issueClient(authority, webhookClientName, validity);
  writePrivate(layout.webhookClientCa, authority.certificate);
  writePrivate(layout.webhookKubeconfig, webhookKubeconfig(certificate, key));
  writePrivate(layout.admission, admissionConfiguration(layout.webhookKubeconfig));
}

/** The user `*` stands for every webhook. */
function webhookKubeconfig(certificate: string, key: string): string {
  const [certificateData, keyData] = [certificate, key].map((pem) => Buffer.from(pem).toString('base64'));
  const user = { 'client-certificate-data': certificateData, 'client-key-data': keyData };
  return stringify({ apiVersion: 'v1', kind: 'Config', users: [{ name: '*', user }] });
}

function admissionConfiguration(kubeConfigFile: string): string {
  const apiVersion = 'apiserver.config.k8s.io/v1';
  const configuration = { apiVersion, kind: 'WebhookAdmissionConfiguration', kubeConfigFile };
  const plugins = ['ValidatingAdmissionWebhook', 'MutatingAdmissionWebhook'];
  return stringify({
    apiVersion,
    kind: 'AdmissionConfiguration',
    plugins: plugins.map((name) => ({ name, configuration })),
  });
}
