import { describe, expect, test } from '@jest/globals';
import { parseConfig, type WebhookHost } from '../../worker/config.ts';

describe('the apiserver reaches the admission server', () => {
  const inPod = { KUBERNETES_SERVICE_HOST: '10.0.0.1' };

  test.each<{ when: string; argv?: string[]; env: NodeJS.ProcessEnv; want: WebhookHost }>([
    { when: 'by its Service in a cluster', env: inPod, want: { kind: 'Service' } },
    {
      when: 'at this host from a pod that works on another cluster',
      env: { ...inPod, KUBECONFIG: 'kubeconfig' },
      want: { kind: 'Host', host: '127.0.0.1' },
    },
    { when: 'at this host outside of a cluster', env: {}, want: { kind: 'Host', host: '127.0.0.1' } },
    {
      when: 'at the host of the environment',
      env: { ...inPod, WEBHOOK_HOST: 'nm.example.com' },
      want: { kind: 'Host', host: 'nm.example.com' },
    },
    {
      when: 'at the host of a flag, which takes precedence over the environment',
      argv: ['--webhook-host', '10.1.2.3'],
      env: { WEBHOOK_HOST: 'nm.example.com' },
      want: { kind: 'Host', host: '10.1.2.3' },
    },
  ])('$when', ({ argv = [], env, want }) => {
    expect(parseConfig(argv, env).webhookHost).toEqual(want);
  });

  test('at its own port', () => {
    expect(parseConfig([], {}).webhookPort).toEqual({ number: 9443, isExplicit: false });
    expect(parseConfig([], { WEBHOOK_PORT: '8443' }).webhookPort).toEqual({ number: 8443, isExplicit: true });
  });
});

describe('the addresses that the servers listen on', () => {
  const addresses = (argv: string[], env: NodeJS.ProcessEnv) => {
    const { healthPort, metricsPort, webhookPort } = parseConfig(argv, env);
    return [healthPort, metricsPort, webhookPort].map(({ address }) => address);
  };

  test('are all of the host, unless flags or the environment name one', () => {
    expect(addresses([], {})).toEqual([undefined, undefined, undefined]);
    const env = {
      HEALTH_BIND_ADDRESS: '10.0.0.1',
      METRICS_BIND_ADDRESS: '10.0.0.1',
      WEBHOOK_BIND_ADDRESS: '::',
    };
    expect(addresses(['--metrics-bind-address', '127.0.0.1'], env)).toEqual(['10.0.0.1', '127.0.0.1', '::']);
  });

  test.each(['localhost', '', '10.0.0.1:8080', '10.0.0.0/8'])('are not %j', (address) => {
    expect(() => addresses([], { HEALTH_BIND_ADDRESS: address })).toThrow(
      '--health-bind-address (HEALTH_BIND_ADDRESS): expected an IP address of this host, such as 127.0.0.1 or ::',
    );
  });
});

test('readiness gates are enabled, unless a flag or the environment disables them', () => {
  expect(parseConfig([], {}).readinessGates).toBe(true);
  expect(parseConfig(['--readiness-gates', 'false'], {}).readinessGates).toBe(false);
  expect(parseConfig([], { READINESS_GATES: 'false' }).readinessGates).toBe(false);
});

describe('evacuator classes', () => {
  test('are known by a list, and have 300 s to respond otherwise', () => {
    expect(parseConfig([], {}).evacuators).toEqual({
      responseSeconds: 300,
      knownClasses: [],
      deployments: true,
      deploymentRegistration: 'annotated',
    });
    const env = {
      EVACUATOR_CLASSES: 'a.example.com, *',
      EVACUATOR_RESPONSE_TIMEOUT: '60',
      DEPLOYMENT_EVACUATOR: 'false',
    };
    expect(parseConfig([], env).evacuators).toEqual({
      responseSeconds: 60,
      knownClasses: ['a.example.com', '*'],
      deployments: false,
      deploymentRegistration: 'annotated',
    });
  });

  test('of Deployments are registered by annotations, unless an installation chooses otherwise', () => {
    const env = { DEPLOYMENT_REGISTRATION: 'automatic' };
    expect(parseConfig([], env).evacuators.deploymentRegistration).toBe('automatic');
    expect(() => parseConfig(['--deployment-registration', 'always'], {})).toThrow(
      '--deployment-registration (DEPLOYMENT_REGISTRATION): expected one of annotated, automatic (got "always")',
    );
    expect(() => parseConfig(['--deployment-evacuator', 'false'], env)).toThrow(
      '--deployment-registration (DEPLOYMENT_REGISTRATION): automatic requires --deployment-evacuator true',
    );
  });

  test('are not used where another API is chosen, but for pods that EvictionRequests do not support', () => {
    expect(parseConfig([], {}).evictionApi).toEqual({ api: 'evacuation', responseSeconds: 30 });
    const env = { EVICTION_API: 'auto', EVICTION_REQUEST_RESPONSE_TIMEOUT: '5' };
    expect(parseConfig([], env).evictionApi).toEqual({ api: 'auto', responseSeconds: 5 });
    expect(() => parseConfig(['--eviction-api', 'both'], {})).toThrow(
      '--eviction-api (EVICTION_API): expected one of evacuation, lifecycle, auto (got "both")',
    );
    expect(() => parseConfig(['--deployment-registration', 'automatic'], env)).toThrow(
      '--deployment-registration (DEPLOYMENT_REGISTRATION): automatic requires --eviction-api evacuation',
    );
  });

  test('respond to Evictions with the controller of this project, or with another one if asked to', () => {
    const partsOf = (env: NodeJS.ProcessEnv) => {
      const { evictionRequestController, evictionRequestResponders } = parseConfig([], env);
      return { controller: evictionRequestController, responders: evictionRequestResponders };
    };
    expect(partsOf({})).toEqual({ controller: false, responders: false });
    expect(partsOf({ EVICTION_REQUEST_CONTROLLER: 'true' })).toEqual({ controller: true, responders: true });
    expect(partsOf({ EVICTION_REQUEST_RESPONDERS: 'true' })).toEqual({ controller: false, responders: true });
    const contradiction = { EVICTION_REQUEST_CONTROLLER: 'true', EVICTION_REQUEST_RESPONDERS: 'false' };
    expect(() => parseConfig([], contradiction)).toThrow(
      '--eviction-request-responders (EVICTION_REQUEST_RESPONDERS): false requires --eviction-request-controller false',
    );
  });

  test('that are not DNS subdomains are rejected', () => {
    expect(() => parseConfig(['--evacuator-classes', 'A.io'], {})).toThrow(
      '--evacuator-classes (EVACUATOR_CLASSES): expected evacuator classes separated by commas, such as migrate.example.com, or * for every class (got "A.io")',
    );
  });
});

test('every client of the admission server is answered, unless authorities and names are given', () => {
  expect(parseConfig([], {}).webhookClients).toBeUndefined();
  expect(parseConfig(['--webhook-client-ca', '/ca.crt'], {}).webhookClients).toEqual({
    caFile: '/ca.crt',
    names: [],
  });
  const env = { WEBHOOK_CLIENT_CA: '/ca.crt', WEBHOOK_CLIENT_NAMES: 'apiserver-1, apiserver-2' };
  expect(parseConfig([], env).webhookClients?.names).toEqual(['apiserver-1', 'apiserver-2']);
  expect(() => parseConfig(['--webhook-client-names', 'apiserver'], {})).toThrow(
    '--webhook-client-ca (WEBHOOK_CLIENT_CA): required with --webhook-client-names',
  );
  expect(() => parseConfig([], { WEBHOOK_CLIENT_CA: '' })).toThrow('expected a file');
});

test('Jobs of windows are not enabled unless they are chosen', () => {
  expect(parseConfig(['--install'], {}).windowJobs).toEqual({ kind: 'None' });
  expect(parseConfig(['--window-jobs', 'false'], { WINDOW_JOBS: 'true' }).windowJobs).toEqual({
    kind: 'None',
  });
  const enabled = { kind: 'Enabled', podSecurity: 'baseline' };
  expect(parseConfig(['--window-jobs', '--install'], {})).toMatchObject({
    windowJobs: enabled,
    install: true,
  });
  expect(parseConfig([], { WINDOW_JOBS: 'true' }).windowJobs).toEqual(enabled);
  expect(() => parseConfig([], { WINDOW_JOBS: 'yes' })).toThrow(
    '--window-jobs (WINDOW_JOBS): expected one of true, false (got "yes")',
  );
});

test('Jobs of windows run with pod security baseline, unless another level is chosen', () => {
  expect(parseConfig(['--window-jobs', '--work-pod-security', 'privileged'], {}).windowJobs).toEqual({
    kind: 'Enabled',
    podSecurity: 'privileged',
  });
  expect(() => parseConfig(['--install', '--work-pod-security', 'privileged'], {})).toThrow(
    '--work-pod-security (WORK_POD_SECURITY): applies to the Jobs of windows only: add --window-jobs (WINDOW_JOBS=true) to enable them (got "privileged")',
  );
  expect(() => parseConfig([], { WORK_POD_SECURITY: 'root' })).toThrow(
    '--work-pod-security (WORK_POD_SECURITY): expected one of restricted, baseline, privileged (got "root")',
  );
});

test('the namespace of an installation has no other purpose', () => {
  expect(parseConfig([], {}).namespace).toBe('node-maintenance');
  expect(parseConfig(['--namespace', 'berlin'], {}).namespace).toBe('berlin');
  expect(() => parseConfig(['--namespace', 'Berlin'], {})).toThrow(
    '--namespace (NODE_MAINTENANCE_NAMESPACE): expected a DNS label, such as node-maintenance (got "Berlin")',
  );
  expect(() => parseConfig([], { NODE_MAINTENANCE_NAMESPACE: 'node-maintenance-work' })).toThrow(
    'expected a namespace of its own: this one has another purpose (got "node-maintenance-work")',
  );
});

describe('a process runs', () => {
  const componentsOf = (argv: string[], env: NodeJS.ProcessEnv = {}) => [
    ...parseConfig(argv, env).components,
  ];

  test('controllers and admission, unless a flag or the environment names one', () => {
    expect(componentsOf([])).toEqual(['controllers', 'admission']);
    expect(componentsOf(['--components', 'admission, controllers'])).toEqual(['admission', 'controllers']);
    expect(componentsOf([], { COMPONENTS: 'controllers' })).toEqual(['controllers']);
  });

  test.each(['', 'admission,', 'webhooks', 'controllers;admission'])('no components "%s"', (names) => {
    expect(() => componentsOf(['--components', names])).toThrow(
      `--components (COMPONENTS): expected one or more of controllers, admission, separated by commas (got "${names}")`,
    );
  });

  test('admission with the identity of the controllers, unless it is given one of its own', () => {
    expect(parseConfig([], {}).admissionKubeconfig).toBeUndefined();
    expect(parseConfig([], { ADMISSION_KUBECONFIG: '/a' }).admissionKubeconfig).toBe('/a');
  });
});

test('workflows are bundled at the start, unless a file has them', () => {
  expect(parseConfig([], {}).workflowBundle).toBeUndefined();
  expect(parseConfig(['--workflow-bundle', '/w.js'], {}).workflowBundle).toBe('/w.js');
  expect(parseConfig([], { WORKFLOW_BUNDLE: '/w.js' }).workflowBundle).toBe('/w.js');
});

test('1,000 workflows stay in memory, unless the limit of the pod allows more or less', () => {
  expect(parseConfig([], {}).workflowCache).toBe(1_000);
  expect(parseConfig([], { WORKFLOW_CACHE: '2000' }).workflowCache).toBe(2_000);
  expect(() => parseConfig(['--workflow-cache', '5'], {})).toThrow(
    '--workflow-cache (WORKFLOW_CACHE): expected a number of runs, 10 to 100000 (got "5")',
  );
});

describe('notifications', () => {
  test('are not sent without a URL, and retried for a day with one', () => {
    expect(parseConfig([], {}).notifications).toBeUndefined();
    expect(parseConfig(['--notify-url', 'https://on-call.example.com/x'], {}).notifications).toEqual({
      url: 'https://on-call.example.com/x',
      headersFile: undefined,
      caFile: undefined,
      timeoutSeconds: 10,
      maxAgeHours: 24,
    });
  });

  test('are configured by the environment', () => {
    const env = {
      NOTIFY_URL: 'http://bridge:8080/',
      NOTIFY_HEADERS_FILE: '/etc/h',
      NOTIFY_TIMEOUT: '2',
      NOTIFY_MAX_AGE: '48',
    };
    const { notifications } = parseConfig([], env);
    expect(notifications).toMatchObject({ headersFile: '/etc/h', timeoutSeconds: 2, maxAgeHours: 48 });
  });

  test.each([
    { env: { NOTIFY_URL: 'on-call' }, want: '--notify-url (NOTIFY_URL): expected a URL of http or https' },
    { env: { NOTIFY_URL: 'ftp://x/' }, want: '--notify-url (NOTIFY_URL): expected a URL of http or https' },
    { env: { NOTIFY_URL: 'https://me:s3cret@x/' }, want: 'with --notify-headers-file' },
    {
      env: { NOTIFY_CA_FILE: '/ca' },
      want: '--notify-url (NOTIFY_URL): required with --notify-headers-file',
    },
    {
      env: { NOTIFY_TIMEOUT: '0' },
      want: '--notify-timeout (NOTIFY_TIMEOUT): expected whole seconds, 1 to 60',
    },
    {
      env: { NOTIFY_MAX_AGE: 'x' },
      want: '--notify-max-age (NOTIFY_MAX_AGE): expected whole hours, 1 to 168',
    },
  ])('$env are rejected', ({ env, want }) => {
    const parse = () => parseConfig([], env as NodeJS.ProcessEnv);
    expect(parse).toThrow(want);
    expect(parse).not.toThrow('s3cret');
  });
});

describe('invalid settings', () => {
  test('are all reported, each with flag, variable and value', () => {
    const argv = ['--health-port', '65536', '--log-level', 'loud'];
    const env = { READINESS_GRACE: '1.5', DIRECT_EVICTIONS: '' };
    expect(() => parseConfig(argv, env)).toThrow(
      [
        '--health-port (HEALTH_PORT): expected a port, 0 to 65535 (got "65536")',
        '--direct-evictions (DIRECT_EVICTIONS): expected one of reject, allow (got "")',
        '--readiness-grace (READINESS_GRACE): expected whole seconds, 0 to 3600 (got "1.5")',
        '--log-level (LOG_LEVEL): expected one of trace, debug, info, warn, error (got "loud")',
      ].join('\n'),
    );
  });

  test('of the process environment do not matter', () => {
    process.env['HEALTH_PORT'] = 'x';
    try {
      expect(parseConfig([], {}).healthPort).toEqual({ number: 8080, isExplicit: false });
    } finally {
      delete process.env['HEALTH_PORT'];
    }
  });
});

describe('the name of the cluster', () => {
  test('is undefined unless it is set', () => {
    expect(parseConfig([], {}).cluster).toBeUndefined();
  });

  test.each(['berlin-1', 'b', 'node-maintenance', '1'.repeat(63)])('may be %s', (cluster) => {
    expect(parseConfig(['--cluster', cluster], {}).cluster).toBe(cluster);
    expect(parseConfig([], { NODE_MAINTENANCE_CLUSTER: cluster }).cluster).toBe(cluster);
  });

  test.each([
    {
      cluster: 'Berlin 1',
      want: '--cluster (NODE_MAINTENANCE_CLUSTER): expected at most 63 lower case letters',
    },
    { cluster: 'berlin.1', want: 'expected at most 63 lower case letters' },
    { cluster: '1'.repeat(64), want: 'expected at most 63 lower case letters' },
    { cluster: '', want: 'expected at most 63 lower case letters' },
    { cluster: 'node-maintenance-rack', want: 'expected another beginning than node-maintenance-' },
    { cluster: 'maintenance-window-os', want: 'expected another beginning' },
    { cluster: 'notify-1', want: 'expected another beginning' },
  ])('must not be "$cluster"', ({ cluster, want }) => {
    expect(() => parseConfig(['--cluster', cluster], {})).toThrow(want);
  });
});

describe('leader election', () => {
  const timing = (...argv: string[]) => parseConfig(argv, {}).leaderElection;

  test('waits 3 s for a leader that does not renew, unless flags or the environment say otherwise', () => {
    expect(timing()).toEqual({ leaseDurationSeconds: 3, renewDeadlineSeconds: 2, retryPeriodSeconds: 0.5 });
    expect(parseConfig([], { LEADER_ELECT_LEASE_DURATION: '15' }).leaderElection).toEqual({
      leaseDurationSeconds: 15,
      renewDeadlineSeconds: 10,
      retryPeriodSeconds: 2.5,
    });
    const flags = ['--leader-elect-lease-duration=15', '--leader-elect-renew-deadline=12.5'];
    expect(timing(...flags, '--leader-elect-retry-period=2')).toEqual({
      leaseDurationSeconds: 15,
      renewDeadlineSeconds: 12.5,
      retryPeriodSeconds: 2,
    });
  });

  test.each([
    { argv: ['--leader-elect-lease-duration=1'], because: 'expected whole seconds, 2 to 120 (got "1")' },
    { argv: ['--leader-elect-lease-duration=2.5'], because: 'expected whole seconds, 2 to 120 (got "2.5")' },
    {
      argv: ['--leader-elect-renew-deadline=1e1'],
      because: 'expected seconds such as 0.5, 0.5 to 120 (got "1e1")',
    },
    {
      argv: ['--leader-elect-renew-deadline=2.6'],
      because: 'expected at most 2.5, 0.5 less than --leader-elect-lease-duration (got "2.6")',
    },
    {
      argv: ['--leader-elect-retry-period=1.1'],
      because: 'expected at most 1, half of --leader-elect-renew-deadline (got "1.1")',
    },
  ])('$argv is rejected: $because', ({ argv, because }) => {
    expect(() => timing(...argv)).toThrow(because);
  });

  // Two leaders never write at once: the former one stops before the Lease expires, with a margin.
  test('any accepted durations leave a margin of half a second, and room for a renewal that fails', () => {
    for (let duration = 2; duration <= 120; duration++) {
      const { leaseDurationSeconds, renewDeadlineSeconds, retryPeriodSeconds } = timing(
        `--leader-elect-lease-duration=${duration}`,
      );
      expect(leaseDurationSeconds - renewDeadlineSeconds).toBeGreaterThanOrEqual(0.5);
      expect(renewDeadlineSeconds / retryPeriodSeconds).toBeGreaterThanOrEqual(2);
    }
  });
});

describe('identity Leases', () => {
  const settings = (...argv: string[]) => parseConfig(argv, {}).identityLeases;

  test('last an hour and are renewed every 10 s, unless flags or the environment say otherwise', () => {
    const defaults = { enabled: true, leaseDurationSeconds: 3600, renewEverySeconds: 10 };
    expect(settings()).toEqual(defaults);
    expect(parseConfig([], { IDENTITY_LEASES: 'false' }).identityLeases).toEqual({
      ...defaults,
      enabled: false,
    });
    expect(settings('--identity-lease-duration=12', '--identity-lease-renew-interval=4')).toEqual({
      enabled: true,
      leaseDurationSeconds: 12,
      renewEverySeconds: 4,
    });
  });

  test('that would expire between two renewals are rejected', () => {
    expect(() => settings('--identity-lease-duration=29')).toThrow(
      '--identity-lease-renew-interval (IDENTITY_LEASE_RENEW_INTERVAL): expected at most 9, a third of --identity-lease-duration',
    );
  });
});
