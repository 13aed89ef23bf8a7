import { describe, expect, test } from '@jest/globals';
import {
  type Endpoint,
  paths,
  registrationPatch,
  webhookConfigurations,
  type WebhookConfiguration,
} from '../../admission/registration.ts';

const configurations = webhookConfigurations();
const [validating] = configurations as [WebhookConfiguration];
const service: Endpoint = {
  kind: 'Service',
  namespace: 'node-maintenance',
  name: 'node-maintenance-admission',
};

/** Returns the configuration as it is after the registration. */
const registered = (endpoint: Endpoint, caBundle: string): WebhookConfiguration => {
  const values = registrationPatch(validating, endpoint, caBundle).filter(({ op }) => op === 'replace');
  const webhooks = validating.webhooks.map((webhook, i) => ({
    ...webhook,
    clientConfig: values[i]?.value as WebhookConfiguration['webhooks'][number]['clientConfig'],
  }));
  return { ...validating, webhooks };
};

test('every path has a webhook, without an authority', () => {
  const webhooks = configurations.flatMap((one) => one.webhooks);
  const installed = webhooks.map(({ clientConfig: { service: to, caBundle } }) => ({
    path: to?.path,
    caBundle,
  }));
  const expected = Object.values(paths).map((path) => ({ path, caBundle: undefined }));
  expect(new Set(installed)).toEqual(new Set(expected));
});

describe('the registration', () => {
  test('of a Service adds only the authority', () => {
    const [checked, replaced] = registrationPatch(validating, service, 'Y2E=');
    expect(checked).toEqual({
      op: 'test',
      path: '/webhooks/0/name',
      value: 'authorization.nodemaintenance.k8s.io',
    });
    expect(replaced).toEqual({
      op: 'replace',
      path: '/webhooks/0/clientConfig',
      value: { ...validating.webhooks[0]?.clientConfig, caBundle: 'Y2E=' },
    });
  });

  test.each<{ host: string; url: string }>([
    { host: 'nm.example.com', url: 'https://nm.example.com:8443/authorization' },
    { host: '2001:db8::1', url: 'https://[2001:db8::1]:8443/authorization' },
  ])('of host $host replaces the Service by $url', ({ host, url }) => {
    const { webhooks } = registered({ kind: 'Url', host, port: 8443 }, 'Y2E=');
    expect(webhooks[0]?.clientConfig).toEqual({ url, caBundle: 'Y2E=' });
  });

  test('changes nothing twice', () => {
    expect(registrationPatch(registered(service, 'Y2E='), service, 'Y2E=')).toEqual([]);
  });

  test('of another authority replaces each one', () => {
    const patch = registrationPatch(registered(service, 'Y2E='), service, 'Y2I=');
    expect(patch).toHaveLength(2 * validating.webhooks.length);
  });

  test('in a configuration without webhooks changes nothing', () => {
    expect(registrationPatch({ metadata: { name: 'empty' } }, service, 'Y2E=')).toEqual([]);
  });
});
