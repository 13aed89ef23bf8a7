import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import type { IncomingHttpHeaders } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { Connection } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import type { KeyPair } from '../../admission/keyPair.ts';
import { issueAuthority, issueClient, issueServing } from '../../admission/issue.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { temporalSettings } from '../../temporal-config/connection.ts';
import { explainFailure } from '../../temporal-config/connectionErrors.ts';
import { addAttributes, declaredNamespace } from '../../temporal-config/namespace.ts';
import type { Answer } from '../api/kubectl.ts';
import { eventuallyHolds } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { type TlsProxy, startTlsProxy } from '../kit/tlsProxy.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { UnreliableNetwork } from '../kube/unreliableNetwork.ts';

// Tests the sample profiles, with the addresses and files of this test, against the Temporal of the sandbox. A proxy in front of it
// terminates TLS, as a load balancer does, and requires certificates and keys.

const root = fileURLToPath(new URL('../..', import.meta.url));
const day = 24 * 3_600_000;
const now = Date.now();
const validity = { notBefore: now - day, notAfter: now + 30 * day };
const apiKey = 'a-key-of-temporal-cloud';

let sandbox: Sandbox;
let scratch: string;
let authority: KeyPair;
let toml: string;
let mutual: TlsProxy;
let cloud: TlsProxy;
let silent: Awaited<ReturnType<typeof UnreliableNetwork.beforePort>>;
const workers: WorkerProcess[] = [];

/** Issues a certificate of the worker that is valid for a day. */
const clientOf = (issuer: KeyPair, notBefore: number) =>
  issueClient(issuer, 'node-maintenance-worker', { notBefore, notAfter: notBefore + day });

const inScratch = (name: string) => join(scratch, name);

async function written(name: string, content: string): Promise<string> {
  await writeFile(inScratch(name), content);
  return inScratch(name);
}

/** Pairs of files, `NAME.crt` and `NAME.key`. */
async function writePair(name: string, { certificate, key }: KeyPair): Promise<void> {
  await written(`${name}.crt`, certificate);
  await written(`${name}.key`, key);
}

beforeAll(async () => {
  sandbox = await testSandbox();
  silent = await UnreliableNetwork.beforePort(Number(sandbox.temporalAddress.split(':')[1]));
  silent.network.swallow();
  scratch = await mkdtemp(join(tmpdir(), 'nm-profiles-'));
  authority = await issueAuthority(validity);
  const stranger = await issueAuthority(validity);
  await writePair('ca', authority);
  await writePair('stranger-ca', stranger);
  await writePair('tls', await clientOf(authority, now - 3_600_000));
  await writePair('expired', await clientOf(authority, now - 2 * day));
  await writePair('stranger', await clientOf(stranger, now - 3_600_000));
  await written('nonsense.crt', 'nonsense');
  await written('api-key', apiKey);
  await written('empty', '\n');
  const serving = await issueServing(authority, ['localhost'], validity);
  const target = sandbox.temporalAddress;
  mutual = await startTlsProxy({ target, serving, clientAuthority: authority.certificate });
  cloud = await startTlsProxy({
    target,
    serving,
    denies: ({ ':path': path, authorization, 'temporal-namespace': namespace }) => {
      if (authorization !== `Bearer ${apiKey}`) return { code: 16, message: 'invalid or missing API key' };
      // "This Service API is NOT compatible with Temporal Cloud": OperatorService, as the SDK documents.
      const isOfOperators = path?.includes('OperatorService') || path?.endsWith('/UpdateNamespace');
      if (isOfOperators) return { code: 7, message: 'unauthorized' };
      if (namespace === undefined || namespace === 'node-maintenance.a1b2c') return undefined;
      return { code: 7, message: `no permission for namespace ${namespace}` };
    },
  });
  toml = await written(
    'temporal.toml',
    await sampleWith({
      '127.0.0.1:7233': target,
      'temporal.example.com:7233': mutual.address,
      'eu-central-1.aws.api.temporal.io:7233': cloud.address,
      '/etc/node-maintenance/temporal/ca.crt': inScratch('ca.crt'),
      '/etc/node-maintenance/temporal/tls.crt': inScratch('tls.crt'),
      '/etc/node-maintenance/temporal/tls.key': inScratch('tls.key'),
    }),
  );
});

afterEach(async () => {
  // Stops them gracefully: other test files share the sandbox, and would find the Leases of killed workers.
  await Promise.all(workers.splice(0).map((worker) => worker.stop()));
});

afterAll(async () => {
  await mutual?.close();
  await cloud?.close();
  await silent?.close();
  await rm(scratch, { recursive: true, force: true });
  await releaseSandbox(sandbox);
});

async function sampleWith(replacements: Record<string, string>): Promise<string> {
  let content = await readFile(join(root, 'temporal-config/temporal.toml'), 'utf8');
  for (const [from, to] of Object.entries(replacements)) {
    expect(content).toContain(`"${from}"`);
    content = content.replace(`"${from}"`, JSON.stringify(to));
  }
  return content;
}

/** Returns the environment of a profile, without the variables that select the Temporal of the sandbox. */
function environment(
  profile: string,
  differs: Record<string, string> = {},
): Record<string, string | undefined> {
  const own = { TEMPORAL_ADDRESS: undefined, TEMPORAL_NAMESPACE: undefined };
  // Temporal Cloud has a certificate that every machine trusts.
  const trusted = { TEMPORAL_API_KEY: apiKey, TEMPORAL_TLS_SERVER_CA_CERT_PATH: inScratch('ca.crt') };
  const variables = { TEMPORAL_CONFIG_FILE: toml, TEMPORAL_PROFILE: profile };
  return { ...own, ...variables, ...(profile === 'cloud' && trusted), ...differs };
}

async function ran(
  command: string,
  args: string[],
  env: Record<string, string | undefined>,
): Promise<Answer> {
  const child = spawn(command, args, {
    cwd: root,
    env: { ...process.env, ...sandbox.env, NODE_OPTIONS: '', ...env },
  });
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  return { code: code as number, stdout, stderr };
}

const configure = (profile: string, ...args: string[]) =>
  ran(process.execPath, ['temporal-config/main.ts', ...args], environment(profile));

function start(env: Record<string, string | undefined>): WorkerProcess {
  const started = startWorker(sandbox, { env: { ...env, NODE_MAINTENANCE_NAMESPACE: 'node-maintenance' } });
  workers.push(started);
  return started;
}

const workersVerb = (env: Record<string, string | undefined>) =>
  ran(join(sandbox.bin, 'kubectl'), ['maintenance', 'workers'], { HOME: sandbox.dir, ...env });

const isPoll = (headers: IncomingHttpHeaders) =>
  /Poll(Workflow|Activity)TaskQueue$/.test(headers[':path'] ?? '');

describe('the worker, the kubectl plugin and temporal-config connect to Temporal with a profile', () => {
  test('without TLS', async () => {
    expect(await configure('local', 'diff')).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('namespace default\n  - retention: 1d\n  + retention: 30d\n'),
    });
    const local = start(environment('local'));
    await local.ready();
    expect((await workersVerb(environment('local'))).stdout).toContain('node-maintenance: workflow ');
  });

  test('with a client certificate, in a namespace that apply created', async () => {
    const applied = await configure('cluster', 'apply');
    expect(applied).toMatchObject({ code: 0, stderr: '' });
    expect(applied.stdout).toContain('namespace node-maintenance: done\nsearch attributes: done\n');
    expect((await configure('cluster', 'diff')).code).toBe(0);
    const certified = start(environment('cluster'));
    await certified.ready();
    expect(certified.log()).not.toContain('Search attributes');
    const { stdout } = await workersVerb(environment('cluster'));
    expect(stdout).toContain('node-maintenance: workflow ');
    const used = new Set(mutual.calls.map((headers) => headers[':path']?.split('/').at(-1)));
    expect([...used]).toEqual(
      expect.arrayContaining(['PollWorkflowTaskQueue', 'DescribeTaskQueue', 'CreateSchedule']),
    );
  });

  test('with an API key, which every call sends with the namespace, without operator permissions', async () => {
    const direct = await Connection.connect({ address: sandbox.temporalAddress });
    const namespace = 'node-maintenance.a1b2c';
    await direct.workflowService.registerNamespace({
      namespace,
      workflowExecutionRetentionPeriod: msToTs('7 days'),
    });
    const applied = await configure('cloud', 'apply');
    expect(applied.code).toBe(1);
    expect(applied.stderr).toContain('search attributes cannot be listed (as in Temporal Cloud)');
    expect(applied.stderr).toContain(
      'namespace node-maintenance.a1b2c: unauthorized: check that the credentials may',
    );
    expect(applied.stdout).toContain('Schedule os-patch-year-end: done\n');
    const keyed = start(environment('cloud'));
    const waiting = await eventuallyHolds(
      'the worker to say that the search attributes are missing',
      () => keyed.readyz(),
      (answer) => answer.includes('search attributes'),
    );
    expect(waiting).toContain(
      `, and no maintenance starts or advances: search attributes NodeMaintenanceStage, NodeMaintenanceName, MaintenanceNodes, KubernetesCluster of namespace ${namespace} are missing, and this worker could not register them (unauthorized): temporal operator search-attribute create --namespace ${namespace} --name NodeMaintenanceStage --type Keyword --name NodeMaintenanceName --type Keyword --name MaintenanceNodes --type KeywordList --name KubernetesCluster --type Keyword; in Temporal Cloud use its UI or tcld namespace search-attributes add`,
    );
    expect(keyed.log()).toContain('"msg":"Waiting for Temporal at ');
    const polledBefore = cloud.calls.filter(isPoll);
    await addAttributes(direct, namespace, declaredNamespace().searchAttributes);
    await direct.close();
    await keyed.ready();
    expect(polledBefore).toEqual([]);
    expect((await workersVerb(environment('cloud'))).stdout).toContain('node-maintenance: workflow ');
    const polls = cloud.calls.filter(isPoll);
    expect(polls.length).toBeGreaterThan(0);
    for (const call of polls)
      expect(call).toMatchObject({
        authorization: `Bearer ${apiKey}`,
        'temporal-namespace': 'node-maintenance.a1b2c',
      });
  });
});

describe('the error of an invalid profile is one line with the setting and the remedy', () => {
  interface Row {
    when: string;
    profile?: string;
    env?: () => Record<string, string>;
    want: () => string;
  }
  const cert = 'TEMPORAL_TLS_CLIENT_CERT_PATH';
  const key = 'TEMPORAL_TLS_CLIENT_KEY_PATH';
  const ca = 'TEMPORAL_TLS_SERVER_CA_CERT_PATH';
  const pair = (name: string) => ({ [cert]: inScratch(`${name}.crt`), [key]: inScratch(`${name}.key`) });

  const rows: Row[] = [
    {
      when: 'a file that does not exist',
      env: () => ({ TEMPORAL_CONFIG_FILE: '/nowhere/temporal.toml' }),
      want: () =>
        'TEMPORAL_CONFIG_FILE: file /nowhere/temporal.toml does not exist: correct the path or omit it',
    },
    {
      when: 'a profile that the file does not have',
      profile: 'clowd',
      want: () =>
        `${toml}: there is no profile "clowd"; it has local, cluster, cloud: correct --profile or TEMPORAL_PROFILE`,
    },
    {
      when: 'a certificate that cannot be read',
      env: () => ({ [cert]: '/nowhere/tls.crt' }),
      want: () =>
        `tls.client_cert_path (${cert}): /nowhere/tls.crt cannot be read (ENOENT): correct the path`,
    },
    {
      when: 'an invalid certificate',
      env: () => ({ [cert]: inScratch('nonsense.crt') }),
      want: () =>
        `tls.client_cert_path (${cert}): ${inScratch('nonsense.crt')} is not a certificate: use PEM`,
    },
    {
      when: 'a certificate that has expired',
      env: () => pair('expired'),
      want: () => `tls.client_cert_path (${cert}): the certificate ${inScratch('expired.crt')} has expired (`,
    },
    {
      when: 'the key of another certificate',
      env: () => ({ [key]: inScratch('stranger.key') }),
      want: () =>
        `tls.client_key_path (${key}): ${inScratch('stranger.key')} does not belong to the certificate of`,
    },
    {
      when: 'a certificate of a CA that the server does not trust',
      env: () => pair('stranger'),
      want: () => `tls.client_cert_path (${cert}): ${mutual.address} rejects the certificate`,
    },
    {
      when: 'no certificate, but the server requires one',
      profile: 'cloud',
      env: () => ({ TEMPORAL_ADDRESS: mutual.address }),
      want: () => `tls.client_cert_path (${cert}): ${mutual.address} requires a client certificate`,
    },
    {
      when: 'a server whose CA is not configured',
      env: () => ({ [ca]: inScratch('stranger-ca.crt') }),
      want: () =>
        `tls.server_ca_cert_path (${ca}): the certificate of ${mutual.address} is not signed by a trusted CA (`,
    },
    {
      when: 'a server name that the certificate is not valid for',
      env: () => ({ TEMPORAL_TLS_SERVER_NAME: 'temporal.example.com' }),
      want: () => 'tls.server_name (TEMPORAL_TLS_SERVER_NAME): ',
    },
    {
      when: 'disabled verification',
      env: () => ({ TEMPORAL_TLS_DISABLE_HOST_VERIFICATION: 'true' }),
      want: () => 'TEMPORAL_TLS_DISABLE_HOST_VERIFICATION: server certificates are always verified: unset it',
    },
    {
      when: 'TLS to a server without TLS',
      env: () => ({ TEMPORAL_ADDRESS: sandbox.temporalAddress }),
      want: () => `tls: ${sandbox.temporalAddress} does not support TLS: `,
    },
    {
      when: 'an unencrypted connection to a server that requires TLS',
      profile: 'local',
      env: () => ({ TEMPORAL_ADDRESS: cloud.address }),
      want: () =>
        `tls: ${cloud.address} does not accept unencrypted connections, and probably requires TLS: add a table tls to the profile`,
    },
    {
      when: 'an address without a server',
      profile: 'local',
      env: () => ({ TEMPORAL_ADDRESS: '127.0.0.1:1' }),
      want: () =>
        'address (TEMPORAL_ADDRESS): no response from 127.0.0.1:1 (ECONNREFUSED): correct the address, or start Temporal there',
    },
    {
      when: 'a wrong key',
      profile: 'cloud',
      env: () => ({ TEMPORAL_API_KEY: 'another' }),
      want: () =>
        `api_key (TEMPORAL_API_KEY): ${cloud.address} rejects the key (invalid or missing API key): set a valid key`,
    },
    {
      when: 'an empty key',
      profile: 'cloud',
      env: () => ({ TEMPORAL_API_KEY: '' }),
      want: () => 'api_key (TEMPORAL_API_KEY): empty: set the key',
    },
    {
      when: 'a file of the key that does not exist',
      profile: 'local',
      env: () => ({ TEMPORAL_API_KEY_FILE: '/nowhere/api-key' }),
      want: () => 'TEMPORAL_API_KEY_FILE: /nowhere/api-key cannot be read (ENOENT): correct the path',
    },
    {
      when: 'an empty file of the key',
      profile: 'local',
      env: () => ({ TEMPORAL_API_KEY_FILE: inScratch('empty') }),
      want: () => `TEMPORAL_API_KEY_FILE: ${inScratch('empty')} is empty: write the key into it`,
    },
    {
      when: 'a key and a file of the key',
      profile: 'cloud',
      env: () => ({ TEMPORAL_API_KEY_FILE: inScratch('api-key') }),
      want: () => 'TEMPORAL_API_KEY_FILE: TEMPORAL_API_KEY is set too: set one of them',
    },
    {
      when: 'a folder of payload keys that does not exist',
      profile: 'local',
      env: () => ({ NODE_MAINTENANCE_PAYLOAD_KEYS: '/nowhere/keys' }),
      want: () => 'NODE_MAINTENANCE_PAYLOAD_KEYS: /nowhere/keys cannot be read (ENOENT): correct the path',
    },
    {
      when: 'a namespace that the key may not use',
      profile: 'cloud',
      env: () => ({ TEMPORAL_NAMESPACE: 'forbidden' }),
      want: () =>
        `api_key (TEMPORAL_API_KEY): ${cloud.address} rejects the key (no permission for namespace forbidden)`,
    },
    {
      when: 'a server that accepts connections and does not respond',
      profile: 'local',
      env: () => ({ TEMPORAL_ADDRESS: silent.address }),
      want: () => `address (TEMPORAL_ADDRESS): no response from ${silent.address} (timeout)`,
    },
    {
      when: 'a namespace that does not exist',
      profile: 'local',
      env: () => ({ TEMPORAL_NAMESPACE: 'nowhere' }),
      want: () => `namespace (TEMPORAL_NAMESPACE): ${sandbox.temporalAddress} has no namespace "nowhere"`,
    },
  ];

  /** Runs all at the same time, because a failed handshake is retried until a deadline. */
  const outcomes = new Map<string, Promise<unknown>>();
  beforeAll(() => {
    for (const { when, profile = 'cluster', env = () => ({}) } of rows)
      outcomes.set(
        when,
        connected(environment(profile, env())).catch((error: unknown) => error),
      );
  });

  test.each(rows)('$when', async ({ when, want }) => {
    expect(await outcomes.get(when)).toMatchObject({ message: expect.stringContaining(want()) });
  });

  test.each([
    {
      when: 'a misspelled key',
      content: '[profile.default.tls]\nclient_cert_pth = "x"\n',
      want: 'client_cert_pth',
    },
    { when: 'no TOML', content: 'profile = [', want: 'Invalid TOML document' },
    { when: 'no profiles', content: '', want: 'the file has no profile: correct it' },
  ])('a file with $when', async ({ content, want }) => {
    const file = await written('bad.toml', content);
    const env = { TEMPORAL_CONFIG_FILE: file };
    expect(() => temporalSettings({ env })).toThrow(want);
    expect(() => temporalSettings({ env })).toThrow(file);
  });

  test('is reported by the worker, which exits if waiting does not help, and waits otherwise', async () => {
    const missing = start(environment('clowd'));
    expect(await missing.exited()).toBe(1);
    expect(missing.log()).toContain('there is no profile \\"clowd\\"');
    const refused = start(environment('cloud', { TEMPORAL_API_KEY: 'another' }));
    await eventuallyHolds(
      'the log to contain the reason',
      () => refused.log(),
      (log) => log.includes('rejects the key'),
    );
  });

  test('is reported by the kubectl plugin and by temporal-config', async () => {
    const stranger = environment('cluster', pair('stranger'));
    const answer = await ran(process.execPath, ['temporal-config/main.ts', 'diff'], stranger);
    expect(answer).toMatchObject({ code: 2, stdout: '' });
    expect(answer.stderr).toContain(`${mutual.address} rejects the certificate`);
    expect((await workersVerb(environment('clowd'))).stderr).toContain('there is no profile "clowd"');
  });
});

async function connected(env: Record<string, string | undefined>): Promise<void> {
  const settings = temporalSettings({ env });
  const { connectionOptions, namespace } = settings;
  await explainFailure(settings, async () => {
    const connection = await Connection.connect({ ...connectionOptions, connectTimeout: 5_000 });
    try {
      await connection.workflowService.describeNamespace({ namespace });
    } finally {
      await connection.close();
    }
  });
}
