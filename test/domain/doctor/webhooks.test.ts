import { describe, expect, test } from '@jest/globals';
import {
  certificateFindings,
  type RegisteredWebhook,
  type WebhookFacts,
  webhookFindings,
} from '../../../domain/doctor/webhooks.ts';

const webhook = (name: string, differs: Partial<RegisteredWebhook> = {}): RegisteredWebhook => ({
  name: `${name}.nodemaintenance.k8s.io`,
  failurePolicy: 'Ignore',
  address: 'Service nm/node-maintenance-admission',
  caBundle: 'PEM',
  ...differs,
});
const webhooks = [
  webhook('authorization', { failurePolicy: 'Fail' }),
  webhook('warnings'),
  webhook('evictions'),
];
const facts: WebhookFacts = {
  webhooks,
  probe: { kind: 'Answered' },
  missingMutations: [],
  readyEndpoints: 1,
};
const findings = (differs: Partial<WebhookFacts>) => webhookFindings({ ...facts, ...differs });
const problems = (differs: Partial<WebhookFacts>) =>
  findings(differs).filter(({ result }) => result !== 'ok');

describe('webhooks', () => {
  test('are ok when the apiserver gets an answer, also one that denies', () => {
    const message = 'the apiserver reaches 3 webhooks at Service nm/node-maintenance-admission';
    expect(findings({})).toEqual([{ result: 'ok', message }]);
    expect(findings({ probe: { kind: 'Denied', message: 'no' } })).toEqual([{ result: 'ok', message }]);
  });

  test('that could not be read are ok when the server answers', () => {
    expect(problems({ webhooks: undefined, readyEndpoints: undefined })).toEqual([]);
  });

  test.each<{ when: string; differs: Partial<WebhookFacts>; text: string | RegExp; remedy: string }>([
    {
      when: 'none is installed',
      differs: { webhooks: [] },
      text: 'no webhook is installed',
      remedy: 'kubectl apply',
    },
    {
      when: 'no server has registered itself',
      differs: { webhooks: [webhook('warnings', { caBundle: '' })] },
      text: 'has registered its certificate authority in warnings.nodemaintenance.k8s.io',
      remedy: 'start the admission server',
    },
    {
      when: 'the Service has no endpoint',
      differs: { readyEndpoints: 0 },
      text: 'no ready endpoint',
      remedy: 'start',
    },
    {
      when: 'one of them goes elsewhere',
      differs: { webhooks: [...webhooks, webhook('evacuations', { address: 'https://evil.example' })] },
      text: 'evacuations.nodemaintenance.k8s.io has another address or certificate authority',
      remedy: 'restart the admission server',
    },
    {
      when: 'the connection is refused',
      differs: {
        probe: { kind: 'Failed', webhook: 'authorization.x', message: 'dial tcp: connection refused' },
      },
      text: 'cannot call webhook authorization.x, which fails closed: dial tcp',
      remedy: 'port 9443',
    },
    {
      when: 'the certificate is that of another authority',
      differs: { probe: { kind: 'Failed', webhook: 'authorization.x', message: 'x509: unknown authority' } },
      text: 'x509',
      remedy: 'the caBundle of the webhook configurations is not that of the server',
    },
    {
      when: 'one that fails open does not answer',
      differs: { probe: { kind: 'Silent' } },
      text: /no answer.*: webhooks with failurePolicy Fail \(authorization\) reject .*with Ignore \(warnings, evictions\)/,
      remedy: 'failing open',
    },
    {
      when: 'a policy of others rejects maintenances',
      differs: { probe: { kind: 'Rejected', message: 'policy x denied the request' } },
      text: 'maintenances cannot be created: policy x',
      remedy: 'must be allowed',
    },
    {
      when: 'the user may not create maintenances',
      differs: { probe: { kind: 'NotPermitted' } },
      text: 'not checked',
      remedy: 'node-maintenance-operator',
    },
    {
      when: 'a policy does not change the object',
      differs: { missingMutations: ['its requester', 'its complete drain plan'] },
      text: 'stored without its requester and its complete drain plan',
      remedy: 'MutatingAdmissionPolicies',
    },
  ])('are reported when $when', ({ differs, text, remedy }) => {
    const [finding, ...more] = problems(differs);
    expect(more).toEqual([]);
    expect(finding?.message).toMatch(text);
    expect(finding?.remedy).toContain(remedy);
  });
});

describe('certificates', () => {
  const day = 86_400_000;
  const now = Date.parse('2026-01-01T12:00:00Z');
  const authority = (fromDays: number, toDays: number) => ({
    notBefore: now + fromDays * day,
    notAfter: now + toDays * day,
  });

  test.each([
    { when: 'fresh', authorities: [authority(-1, 89)], want: 'ok' },
    { when: 'due for renewal, which is retried', authorities: [authority(-61, 29)], want: 'ok' },
    { when: 'not renewed', authorities: [authority(-80, 10)], want: 'warning' },
    { when: 'renewed, beside the old one', authorities: [authority(-80, 10), authority(-1, 89)], want: 'ok' },
    { when: 'expired', authorities: [authority(-91, -1)], want: 'error' },
    { when: 'of a server whose clock is ahead', authorities: [authority(1, 90)], want: 'error' },
    { when: 'no certificate', authorities: undefined, want: 'error' },
  ])('that are $when: $want', ({ authorities, want }) => {
    const bundles = ['a.x', 'b.x'].map((name) => ({ webhook: name, authorities }));
    expect(certificateFindings(bundles, now).map(({ result }) => result)).toEqual([want]);
  });

  test('of one webhook are named', () => {
    const bundles = [
      { webhook: 'a.x', authorities: [authority(-1, 89)] },
      { webhook: 'b.x', authorities: undefined },
    ];
    expect(certificateFindings(bundles, now)).toEqual([
      expect.objectContaining({ result: 'error', object: 'webhook/b.x' }),
    ]);
  });
});
