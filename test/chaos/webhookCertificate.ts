import { issuedOf } from '../../admission/certificates.ts';
import { issueServing } from '../../admission/issue.ts';
import { materialOf, secretName, secrets, storeMaterial } from '../../admission/secret.ts';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import type { Kube } from '../../kube/client.ts';

const hourMs = 3_600_000;

/** Replaces the serving certificate of the webhooks by one of the same authority that has expired. */
export async function expireWebhookCertificate(kube: Kube): Promise<void> {
  const { secret, material, serving: issued } = await read(kube);
  const authority = material.authorities[issued?.issuer ?? -1];
  if (issued === undefined || authority === undefined)
    throw new Error('the webhooks have no serving certificate of their authority');
  const validity = { notBefore: issued.notBefore - 2 * hourMs, notAfter: Date.now() - hourMs };
  const serving = await issueServing(authority, issued.hosts, validity);
  await storeMaterial(kube, SYSTEM_NAMESPACE, secret, { ...material, serving });
}

/** Returns what keeps the apiserver from asking the webhooks. */
export async function webhookProblems(kube: Kube): Promise<string[]> {
  const { serving } = await read(kube);
  if (serving === undefined) return ['the webhooks have no serving certificate'];
  return serving.notAfter > Date.now() ? [] : ['the serving certificate of the webhooks has expired'];
}

async function read(kube: Kube) {
  const secret = await kube.get(secrets, { namespace: SYSTEM_NAMESPACE, name: secretName });
  const material = materialOf(secret);
  return { secret, material, serving: issuedOf(material).serving };
}
