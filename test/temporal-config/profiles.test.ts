import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { Connection } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import type { KeyPair } from '../../admission/certificates.ts';
import { issueAuthority, issueServing } from '../../admission/issue.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { temporalSettings } from '../../temporal-config/connection.ts';
import { explained } from '../../temporal-config/reach.ts';
import type { Answer } from '../api/kubectl.ts';
import { issueClient } from '../kit/clientCertificate.ts';
import { eventuallyHolds } from '../kit/holds.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { type TlsFront, tlsFront } from '../kit/tlsFront.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';

// The sample profiles, with the addresses and files of this test in place of the sample's, against the sandbox's Temporal: it has no
// TLS of its own, so that a front ends it, as a load balancer does, and asks for certificates and keys.

const root = fileURLToPath(new URL('../..', import.meta.url));
const day = 24 * 3_600_000;
const now = Date.now();
const lasting = { notBefore: now - day, notAfter: now + 30 * day };
const apiKey = 'a-key-of-temporal-cloud';

let sandbox: Sandbox;
let scratch: string;
let authority: KeyPair;
let toml: string;
let mutual: TlsFront;
let cloud: TlsFront;
const workers: WorkerProcess[] = [];

const inScratch = (name: string) => join(scratch, name);

async function written(name: string, content: string): Promise<string> {
  await writeFile(inScratch(name), content);
  return inScratch(name);
}

/** Pairs of files, `NAME.crt` and `NAME.key`. */
async function keep(name: string, { certificate, key }: KeyPair): Promise<void> {
  await written(`${name}.crt`, certificate);
  await written(`${name}.key`, key);
}

beforeAll(async () => {
  sandbox = await testSandbox();
  scratch = await mkdtemp(join(tmpdir(), 'nm-profiles-'));
  authority = await issueAuthority(lasting);
  const stranger = await issueAuthority(lasting);
  await keep('ca', authority);
  await keep('stranger-ca', stranger);
  await keep('tls', await issueClient(authority, now - 3_600_000));
  await keep('expired', await issueClient(authority, now - 2 * day));
  await keep('stranger', await issueClient(stranger, now - 3_600_000));
  await written('nonsense.crt', 'nonsense');
  const serving = await issueServing(authority, ['localhost'], lasting);
  const target = sandbox.temporalAddress;
  mutual = await tlsFront({ target, serving, clientAuthority: authority.certificate });
  cloud = await tlsFront({
    target,
    serving,
    denies: ({ ':path': path, authorization, 'temporal-namespace': namespace }) => {
      if (authorization !== `Bearer ${apiKey}`) return { code: 16, words: 'invalid or missing API key' };
      // "This Service API is NOT compatible with Temporal Cloud": OperatorService, in the words of the SDK.
      const isOfOperators = path?.includes('OperatorService') || path?.endsWith('/UpdateNamespace');
      if (isOfOperators) return { code: 7, words: 'unauthorized' };
      if (namespace === undefined || namespace === 'node-maintenance.a1b2c') return undefined;
      return { code: 7, words: `no permission for namespace ${namespace}` };
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
  // Gracefully: other files share the sandbox, and would see the Leases of those that died.
  await Promise.all(workers.splice(0).map((worker) => worker.stop()));
});

afterAll(async () => {
  await mutual?.close();
  await cloud?.close();
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

/** Of a profile, for a process that the sandbox would send to its own Temporal. */
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

function begun(env: Record<string, string | undefined>): WorkerProcess {
  const started = startWorker(sandbox, { env: { ...env, NODE_MAINTENANCE_NAMESPACE: 'node-maintenance' } });
  workers.push(started);
  return started;
}

const workersVerb = (env: Record<string, string | undefined>) =>
  ran(join(sandbox.bin, 'kubectl'), ['maintenance', 'workers'], { HOME: sandbox.dir, ...env });

describe('a profile of temporal.toml brings the worker, the plugin of kubectl and temporal-config to Temporal', () => {
  test('that is local, without TLS', async () => {
    expect(await configure('local', 'diff')).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('namespace default\n  - retention: 1d\n  + retention: 30d\n'),
    });
    const local = begun(environment('local'));
    await local.ready();
    expect((await workersVerb(environment('local'))).stdout).toContain('node-maintenance: workflow ');
  });

  test('with a client certificate, in a namespace that apply has made', async () => {
    const applied = await configure('cluster', 'apply');
    expect(applied).toMatchObject({ code: 0, stderr: '' });
    expect(applied.stdout).toContain('namespace node-maintenance: done\nsearch attributes: done\n');
    expect((await configure('cluster', 'diff')).code).toBe(0);
    const certified = begun(environment('cluster'));
    await certified.ready();
    expect(certified.log()).not.toContain('Search attributes');
    const { stdout } = await workersVerb(environment('cluster'));
    expect(stdout).toContain('node-maintenance: workflow ');
    const used = new Set(mutual.calls.map((headers) => headers[':path']?.split('/').at(-1)));
    expect([...used]).toEqual(
      expect.arrayContaining(['PollWorkflowTaskQueue', 'DescribeTaskQueue', 'CreateSchedule']),
    );
  });

  test('with an API key, which goes with the namespace on every call, where operators have no rights', async () => {
    const direct = await Connection.connect({ address: sandbox.temporalAddress });
    await direct.workflowService.registerNamespace({
      namespace: 'node-maintenance.a1b2c',
      workflowExecutionRetentionPeriod: msToTs('7 days'),
    });
    await direct.close();
    const applied = await configure('cloud', 'apply');
    expect(applied.code).toBe(1);
    expect(applied.stderr).toContain(
      'search attributes: Temporal does not show them here, as in Temporal Cloud',
    );
    expect(applied.stderr).toContain(
      'namespace node-maintenance.a1b2c: unauthorized: see that the credentials may',
    );
    expect(applied.stdout).toContain('Schedule os-patch-year-end: done\n');
    const keyed = begun(environment('cloud'));
    await keyed.ready();
    expect((await workersVerb(environment('cloud'))).stdout).toContain('node-maintenance: workflow ');
    const polls = cloud.calls.filter((headers) => headers[':path']?.endsWith('/PollWorkflowTaskQueue'));
    expect(polls.length).toBeGreaterThan(0);
    for (const call of polls)
      expect(call).toMatchObject({
        authorization: `Bearer ${apiKey}`,
        'temporal-namespace': 'node-maintenance.a1b2c',
      });
  });
});

describe('what is wrong with a profile is said in one line, with the setting and the remedy', () => {
  interface Row {
    when: string;
    profile?: string;
    env?: () => Record<string, string>;
    says: () => string;
  }
  const cert = 'TEMPORAL_TLS_CLIENT_CERT_PATH';
  const key = 'TEMPORAL_TLS_CLIENT_KEY_PATH';
  const ca = 'TEMPORAL_TLS_SERVER_CA_CERT_PATH';
  const pair = (name: string) => ({ [cert]: inScratch(`${name}.crt`), [key]: inScratch(`${name}.key`) });

  const rows: Row[] = [
    {
      when: 'a file that is not there',
      env: () => ({ TEMPORAL_CONFIG_FILE: '/nowhere/temporal.toml' }),
      says: () =>
        'TEMPORAL_CONFIG_FILE: there is no file /nowhere/temporal.toml: correct the path, or leave it out',
    },
    {
      when: 'a profile that the file does not have',
      profile: 'clowd',
      says: () =>
        `${toml}: there is no profile "clowd"; it has local, cluster, cloud: correct --profile or TEMPORAL_PROFILE`,
    },
    {
      when: 'a certificate that cannot be read',
      env: () => ({ [cert]: '/nowhere/tls.crt' }),
      says: () =>
        `tls.client_cert_path (${cert}): /nowhere/tls.crt cannot be read (ENOENT): correct the path`,
    },
    {
      when: 'a certificate that is none',
      env: () => ({ [cert]: inScratch('nonsense.crt') }),
      says: () =>
        `tls.client_cert_path (${cert}): ${inScratch('nonsense.crt')} is no certificate: give one in PEM`,
    },
    {
      when: 'a certificate that has expired',
      env: () => pair('expired'),
      says: () => `tls.client_cert_path (${cert}): the certificate ${inScratch('expired.crt')} has expired (`,
    },
    {
      when: 'the key of another certificate',
      env: () => ({ [key]: inScratch('stranger.key') }),
      says: () =>
        `tls.client_key_path (${key}): ${inScratch('stranger.key')} is the key of another certificate than`,
    },
    {
      when: 'a certificate of an authority that the server does not know',
      env: () => pair('stranger'),
      says: () => `tls.client_cert_path (${cert}): ${mutual.address} refuses the certificate`,
    },
    {
      when: 'no certificate, where the server wants one',
      profile: 'cloud',
      env: () => ({ TEMPORAL_ADDRESS: mutual.address }),
      says: () => `tls.client_cert_path (${cert}): ${mutual.address} wants the certificate of a client`,
    },
    {
      when: 'a server whose authority nobody gave',
      env: () => ({ [ca]: inScratch('stranger-ca.crt') }),
      says: () =>
        `tls.server_ca_cert_path (${ca}): no authority that is trusted here has signed the certificate of ${mutual.address} (`,
    },
    {
      when: 'a server by another name than its certificate has',
      env: () => ({ TEMPORAL_TLS_SERVER_NAME: 'temporal.example.com' }),
      says: () => 'tls.server_name (TEMPORAL_TLS_SERVER_NAME): ',
    },
    {
      when: 'verification that is not to be',
      env: () => ({ TEMPORAL_TLS_DISABLE_HOST_VERIFICATION: 'true' }),
      says: () =>
        'TEMPORAL_TLS_DISABLE_HOST_VERIFICATION: the certificate of the server is always verified: unset it',
    },
    {
      when: 'TLS to a server that has none',
      env: () => ({ TEMPORAL_ADDRESS: sandbox.temporalAddress }),
      says: () => `tls: ${sandbox.temporalAddress} does not speak TLS: `,
    },
    {
      when: 'plain words to a server that wants TLS',
      profile: 'local',
      env: () => ({ TEMPORAL_ADDRESS: cloud.address }),
      says: () =>
        `tls: ${cloud.address} does not speak plainly, and probably wants TLS: add a table tls to the profile`,
    },
    {
      when: 'an address at which nobody answers',
      profile: 'local',
      env: () => ({ TEMPORAL_ADDRESS: '127.0.0.1:1' }),
      says: () =>
        'address (TEMPORAL_ADDRESS): nobody answers at 127.0.0.1:1 (ECONNREFUSED): correct it, or start Temporal there',
    },
    {
      when: 'a key that is wrong',
      profile: 'cloud',
      env: () => ({ TEMPORAL_API_KEY: 'another' }),
      says: () =>
        `api_key (TEMPORAL_API_KEY): ${cloud.address} refuses the key (invalid or missing API key): give one that is valid`,
    },
    {
      when: 'an empty key',
      profile: 'cloud',
      env: () => ({ TEMPORAL_API_KEY: '' }),
      says: () => 'api_key (TEMPORAL_API_KEY): it is empty: give the key',
    },
    {
      when: 'a namespace over which the key has no rights',
      profile: 'cloud',
      env: () => ({ TEMPORAL_NAMESPACE: 'of-others' }),
      says: () =>
        `api_key (TEMPORAL_API_KEY): ${cloud.address} refuses the key (no permission for namespace of-others)`,
    },
    {
      when: 'a namespace that does not exist',
      profile: 'local',
      env: () => ({ TEMPORAL_NAMESPACE: 'nowhere' }),
      says: () => `namespace (TEMPORAL_NAMESPACE): ${sandbox.temporalAddress} has no namespace "nowhere"`,
    },
  ];

  /** All at once, because a handshake that fails is tried until a deadline. */
  const outcomes = new Map<string, Promise<unknown>>();
  beforeAll(() => {
    for (const { when, profile = 'cluster', env = () => ({}) } of rows)
      outcomes.set(
        when,
        connected(environment(profile, env())).catch((error: unknown) => error),
      );
  });

  test.each(rows)('$when', async ({ when, says }) => {
    expect(await outcomes.get(when)).toMatchObject({ message: expect.stringContaining(says()) });
  });

  test.each([
    {
      when: 'a misspelled key',
      content: '[profile.default.tls]\nclient_cert_pth = "x"\n',
      says: 'client_cert_pth',
    },
    { when: 'no TOML', content: 'profile = [', says: 'Invalid TOML document' },
    { when: 'no profiles', content: '', says: 'it has no profile: correct it' },
  ])('a file with $when', async ({ content, says }) => {
    const file = await written('bad.toml', content);
    const env = { TEMPORAL_CONFIG_FILE: file };
    expect(() => temporalSettings({ env })).toThrow(says);
    expect(() => temporalSettings({ env })).toThrow(file);
  });

  test('by the worker, which exits when waiting cannot mend it, and waits otherwise', async () => {
    const missing = begun(environment('clowd'));
    expect(await missing.exited()).toBe(1);
    expect(missing.log()).toContain('there is no profile \\"clowd\\"');
    const refused = begun(environment('cloud', { TEMPORAL_API_KEY: 'another' }));
    await eventuallyHolds(
      'it says why it waits',
      () => refused.log(),
      (log) => log.includes('refuses the key'),
    );
  });

  test('by the plugin of kubectl and by temporal-config', async () => {
    const stranger = environment('cluster', pair('stranger'));
    const answer = await ran(process.execPath, ['temporal-config/main.ts', 'diff'], stranger);
    expect(answer).toMatchObject({ code: 2, stdout: '' });
    expect(answer.stderr).toContain(`${mutual.address} refuses the certificate`);
    expect((await workersVerb(environment('clowd'))).stderr).toContain('there is no profile "clowd"');
  });
});

async function connected(env: Record<string, string | undefined>): Promise<void> {
  const settings = temporalSettings({ env });
  const { connectionOptions, namespace } = settings;
  await explained(settings, async () => {
    const connection = await Connection.connect({ ...connectionOptions, connectTimeout: 5_000 });
    try {
      await connection.workflowService.describeNamespace({ namespace });
    } finally {
      await connection.close();
    }
  });
}
