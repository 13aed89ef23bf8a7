import { describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../api/core.ts';
import { isMutatingPolicy, webhookOf } from '../../manifests/mutatingWebhooks.ts';
import { readManifests } from '../../manifests/read.ts';
import { renderManifests } from '../../manifests/render.ts';

interface Webhook {
  name: string;
  failurePolicy: string;
  matchConditions: { name: string; expression: string }[];
  clientConfig: { service: { namespace: string; path: string } };
}

const manifests = await readManifests();
const policies = manifests.filter(isMutatingPolicy);
const webhooksIn = (rendered: readonly KubeObject[]) =>
  (rendered.find(({ kind }) => kind === 'MutatingWebhookConfiguration') as unknown as { webhooks: Webhook[] })
    .webhooks;

describe('without MutatingAdmissionPolicies', () => {
  const rendered = renderManifests(manifests, { mutatingPolicies: false });

  test('the manifests contain none, and everything else', () => {
    const isPolicy = ({ kind = '' }: KubeObject) => kind.startsWith('MutatingAdmissionPolicy');
    expect(rendered.filter(isPolicy)).toEqual([]);
    const others = manifests.filter((one) => !isPolicy(one) && one.kind !== 'MutatingWebhookConfiguration');
    expect(rendered).toEqual(expect.arrayContaining(others));
    expect(rendered).toHaveLength(others.length + 1);
  });

  test('each policy has a webhook of its name and its failure policy', () => {
    const added = webhooksIn(rendered).slice(webhooksIn(manifests).length);
    expect(added.map(({ name, failurePolicy }) => ({ name, failurePolicy }))).toEqual(
      policies.map(({ metadata: { name }, spec: { failurePolicy } }) => ({ name, failurePolicy })),
    );
    expect(policies.length).toBeGreaterThanOrEqual(8);
  });

  test('only the record of the requester fails closed', () => {
    const closed = webhooksIn(rendered).filter(({ failurePolicy }) => failurePolicy === 'Fail');
    expect(closed.map(({ name }) => name)).toEqual(['requester.nodemaintenance.k8s.io']);
  });

  test('a webhook has the conditions of its policy that need no parameters', () => {
    for (const policy of policies) {
      const { matchConditions } = webhookOf(policy) as Webhook;
      expect(JSON.stringify(matchConditions)).not.toContain('params');
      expect(policy.spec.matchConditions).toEqual(expect.arrayContaining(matchConditions));
    }
    const gate = policies.find(({ metadata }) => metadata.name.startsWith('daemonset-gate'));
    expect((webhookOf(gate as never) as Webhook).matchConditions.map(({ name }) => name)).toEqual([
      'is-created-by-a-daemonset',
      'has-no-node',
      'is-no-node-agent',
      'has-no-such-gate',
    ]);
  });

  test('the webhooks call the Service in the namespace of the installation', () => {
    const moved = webhooksIn(renderManifests(manifests, { mutatingPolicies: false, namespace: 'berlin' }));
    for (const { name, clientConfig, matchConditions } of moved) {
      expect(clientConfig.service).toMatchObject({ namespace: 'berlin', path: `/${name.split('.')[0]}` });
      expect(JSON.stringify(matchConditions)).not.toContain(':node-maintenance:');
    }
  });
});
