import { mutating, validating } from '../../admission/registration.ts';
import type { KubeObject } from '../../api/core.ts';
import { WEBHOOK_CONFIGURATION } from '../../api/names.ts';
import type { Kube } from '../../kube/client.ts';
import { readManifests } from '../../manifests/read.ts';
import { renderManifests } from '../../manifests/render.ts';
import { mutatingPolicies } from './resources.ts';

/** The tests that run with webhooks in place of policies keep the mutating ones (test/api/mutatingWebhooks.slow.test.ts). */
const configurations = () =>
  process.env['NM_TEST_MUTATING_WEBHOOKS'] === undefined ? [validating, mutating] : [validating];

/** Deletes the webhook configurations. */
export async function removeRegistration(admin: Kube): Promise<void> {
  for (const resource of configurations()) {
    const uid = (await admin.get(resource, { name: WEBHOOK_CONFIGURATION }))?.metadata.uid;
    if (uid !== undefined) await admin.delete(resource, { name: WEBHOOK_CONFIGURATION }, { uid });
  }
}

/** Reports whether policies make the mutations, and not webhooks: Kubernetes serves them since 1.36. */
export async function hasMutatingPolicies(admin: Kube): Promise<boolean> {
  return (await admin.serves(mutatingPolicies)) && (await admin.list(mutatingPolicies)).items.length > 0;
}

/** Applies the webhook configurations as the sandbox does. */
export async function installRegistration(admin: Kube): Promise<void> {
  const options = { webhookHosts: ['127.0.0.1'], mutatingPolicies: await hasMutatingPolicies(admin) };
  const manifests = renderManifests(await readManifests(), options);
  for (const resource of configurations())
    for (const manifest of manifests.filter(({ kind }) => kind === resource.kind))
      await admin.apply<KubeObject>(resource, manifest, { fieldManager: 'kubectl', force: true });
}

/** Makes the webhooks as they are before the first admission server runs, for the tests that follow. */
export async function resetRegistration(admin: Kube): Promise<void> {
  await removeRegistration(admin);
  await installRegistration(admin);
}
