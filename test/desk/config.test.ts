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

describe('notices', () => {
  test('are sent to nobody unless told; then patiently', () => {
    expect(parseConfig([], {}).notifications).toBeUndefined();
    expect(parseConfig(['--notify-url', 'https://on-call.example.com/x'], {}).notifications).toEqual({
      url: 'https://on-call.example.com/x',
      headersFile: undefined,
      caFile: undefined,
      timeoutSeconds: 10,
      patienceHours: 24,
    });
  });

  test('go where the environment says', () => {
    const env = {
      NOTIFY_URL: 'http://bridge:8080/',
      NOTIFY_HEADERS_FILE: '/etc/h',
      NOTIFY_TIMEOUT: '2',
      NOTIFY_PATIENCE: '48',
      CLUSTER_NAME: 'prod-1',
    };
    const { notifications, clusterName } = parseConfig([], env);
    expect(notifications).toMatchObject({ headersFile: '/etc/h', timeoutSeconds: 2, patienceHours: 48 });
    expect(clusterName).toBe('prod-1');
  });

  test.each([
    { env: { NOTIFY_URL: 'on-call' }, says: '--notify-url (NOTIFY_URL): expected a URL of http or https' },
    { env: { NOTIFY_URL: 'ftp://x/' }, says: '--notify-url (NOTIFY_URL): expected a URL of http or https' },
    { env: { NOTIFY_URL: 'https://me:s3cret@x/' }, says: 'by --notify-headers-file' },
    { env: { NOTIFY_CA_FILE: '/ca' }, says: '--notify-url (NOTIFY_URL): expected beside' },
    {
      env: { NOTIFY_TIMEOUT: '0' },
      says: '--notify-timeout (NOTIFY_TIMEOUT): expected whole seconds, 1 to 60',
    },
    {
      env: { NOTIFY_PATIENCE: 'x' },
      says: '--notify-patience (NOTIFY_PATIENCE): expected whole hours, 1 to 168',
    },
    { env: { CLUSTER_NAME: 'Prod 1' }, says: '--cluster-name (CLUSTER_NAME): expected lower case' },
  ])('$env are refused', ({ env, says }) => {
    const parse = () => parseConfig([], env as NodeJS.ProcessEnv);
    expect(parse).toThrow(says);
    expect(parse).not.toThrow('s3cret');
  });
});
