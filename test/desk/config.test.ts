import { describe, expect, test } from '@jest/globals';
import { parseConfig, type WebhookHost } from '../../worker/config.ts';

describe('the apiserver finds the admission server', () => {
  const inPod = { KUBERNETES_SERVICE_HOST: '10.0.0.1' };

  test.each<{ when: string; argv?: string[]; env: NodeJS.ProcessEnv; want: WebhookHost }>([
    { when: 'in a cluster by its Service', env: inPod, want: { kind: 'Service' } },
    {
      when: 'in a pod that works on another cluster by this host',
      env: { ...inPod, KUBECONFIG: 'kubeconfig' },
      want: { kind: 'Host', host: '127.0.0.1' },
    },
    { when: 'elsewhere by this host', env: {}, want: { kind: 'Host', host: '127.0.0.1' } },
    {
      when: 'by the host that the environment names',
      env: { ...inPod, WEBHOOK_HOST: 'nm.example.com' },
      want: { kind: 'Host', host: 'nm.example.com' },
    },
    {
      when: 'by the host that an option names',
      argv: ['--webhook-host', '10.1.2.3'],
      env: { WEBHOOK_HOST: 'nm.example.com' },
      want: { kind: 'Host', host: '10.1.2.3' },
    },
  ])('$when', ({ argv = [], env, want }) => {
    expect(parseConfig(argv, env).webhookHost).toEqual(want);
  });

  test('on a port of its own', () => {
    expect(parseConfig([], {}).webhookPort).toEqual({ number: 9443, named: false });
    expect(parseConfig([], { WEBHOOK_PORT: '8443' }).webhookPort).toEqual({ number: 8443, named: true });
  });
});

test('readiness gates are on, unless an option or the environment says otherwise', () => {
  expect(parseConfig([], {}).readinessGates).toBe(true);
  expect(parseConfig(['--readiness-gates', 'false'], {}).readinessGates).toBe(false);
  expect(parseConfig([], { READINESS_GATES: 'false' }).readinessGates).toBe(false);
});
