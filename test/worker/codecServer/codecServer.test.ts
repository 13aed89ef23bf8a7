import { createServer, type Server } from 'node:http';
import { request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { defaultPayloadConverter } from '@temporalio/common';
import { exportJWK, generateKeyPair, SignJWT, type JWTPayload } from 'jose';
import { silentLog } from '../../../kube/log.ts';
import { EncryptionCodec } from '../../../temporal-config/encryptionCodec.ts';
import { PayloadKeys } from '../../../temporal-config/payloadKeys.ts';
import { serveCodec } from '../../../worker/codecServer/codecServer.ts';
import { parseCodecServerConfig } from '../../../worker/codecServer/settings.ts';
import { codecServerExit } from '../../kit/codecServer.ts';
import { eventually } from '../../kit/eventually.ts';
import { type KeyFolder, keyFolder } from '../../kit/payloadKeys.ts';
import { servingCertificate } from '../../kit/servingCertificate.ts';

const token = 's3cret';
const emailClaim = 'https://saas-api.tmprl.cloud/user/email';

let keys: KeyFolder;
let scratch: string;
let tokenFile: string;
let provider: Server;
let signingKeys: Awaited<ReturnType<typeof generateKeyPair>>;
let jwksUrl: string;
const close: (() => void)[] = [];

beforeAll(async () => {
  keys = await keyFolder('k1');
  scratch = await mkdtemp(join(tmpdir(), 'nm-codec-'));
  tokenFile = await written('token', `${token}\n`);
  signingKeys = await generateKeyPair('RS256');
  const jwk = { ...(await exportJWK(signingKeys.publicKey)), kid: 'one', alg: 'RS256' };
  provider = createServer((_request, response) => response.end(JSON.stringify({ keys: [jwk] })));
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve));
  jwksUrl = `http://127.0.0.1:${(provider.address() as AddressInfo).port}/jwks.json`;
});

afterEach(() => {
  for (const end of close.splice(0)) end();
});

afterAll(async () => {
  provider?.close();
  await rm(scratch, { recursive: true, force: true });
  await keys?.discard();
});

async function written(name: string, content: string): Promise<string> {
  await writeFile(join(scratch, name), content);
  return join(scratch, name);
}

/** Serves with the flags of the command, and returns the URL. */
async function serving(...flags: string[]): Promise<string> {
  const config = parseCodecServerConfig(['--port', '0', ...flags], {});
  const codec = new EncryptionCodec({ keys: new PayloadKeys(keys.path) });
  const server = await serveCodec(codec, config, silentLog);
  close.push(() => server.close());
  return `${config.tls ? 'https' : 'http'}://127.0.0.1:${server.port}`;
}

interface Call {
  path?: string;
  method?: string;
  headers?: Record<string, string>;
  body?: unknown;
}

function call(
  url: string,
  { path = '/decode', method = 'POST', headers = {}, body }: Call = {},
): Promise<Response> {
  return fetch(`${url}${path}`, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    ...(method === 'POST' && {
      body: typeof body === 'string' ? body : JSON.stringify(body ?? { payloads: [] }),
    }),
  });
}

const bearer = (value: string) => ({ authorization: `Bearer ${value}` });

/** A payload as the UI sends it. */
function jsonOf(value: unknown): { metadata: Record<string, string>; data: string } {
  const { metadata, data } = defaultPayloadConverter.toPayload(value);
  const base64 = (bytes: Uint8Array | null | undefined) => Buffer.from(bytes ?? []).toString('base64');
  const fields = Object.entries(metadata ?? {}).map(([name, bytes]) => [name, base64(bytes)]);
  return { metadata: Object.fromEntries(fields) as Record<string, string>, data: base64(data) };
}

describe('encode and decode', () => {
  test.each(['', '/default', '/a/b/default'])('return what was sent, below the path "%s"', async (prefix) => {
    const url = await serving('--anonymous-auth');
    const payloads = [jsonOf({ reason: 'disk' }), jsonOf(undefined)];
    const encoded = await call(url, { path: `${prefix}/encode`, body: { payloads } });
    expect(encoded.headers.get('content-type')).toBe('application/json');
    const sent = (await encoded.json()) as { payloads: { metadata: Record<string, string> }[] };
    expect(sent.payloads.map(({ metadata }) => metadata)).toEqual([
      { encoding: btoa('binary/encrypted'), 'encryption-key-id': btoa('k1') },
      { encoding: btoa('binary/encrypted'), 'encryption-key-id': btoa('k1') },
    ]);
    expect(JSON.stringify(sent)).not.toContain(payloads[0]?.data);
    const decoded = await call(url, { path: `${prefix}/decode`, body: sent });
    expect(await decoded.json()).toEqual({ payloads });
  });

  test('return what is not encrypted, or with a key that is missing, as it was sent', async () => {
    const url = await serving('--anonymous-auth');
    const foreign = {
      metadata: { encoding: btoa('binary/encrypted'), 'encryption-key-id': btoa('gone') },
      data: btoa('?'),
      externalPayloads: [{ sizeBytes: '7' }],
    };
    const payloads = [jsonOf('plain'), foreign, {}];
    expect(await (await call(url, { body: { payloads } })).json()).toEqual({ payloads });
  });

  test.each([
    { when: 'no JSON', body: '{"payloads":' },
    { when: 'no object', body: [] },
    { when: 'payloads that are no list', body: { payloads: 7 } },
    { when: 'data that is no base64', body: { payloads: [{ data: '%%%' }] } },
    { when: 'too many payloads', body: { payloads: Array.from({ length: 50_001 }, () => ({})) } },
    { when: 'metadata that is no map', body: { payloads: [{ metadata: { encoding: 7 } }] } },
  ])('reject $when with what they expect', async ({ body }) => {
    const answer = await call(await serving('--anonymous-auth'), { body });
    expect(answer.status).toBe(400);
    expect(await answer.text()).toContain('expected {"payloads": [{"metadata": {...}, "data": ...}]}');
  });

  test('are the only paths, next to the health of the server', async () => {
    const url = await serving('--token-file', tokenFile);
    expect((await call(url, { path: '/healthz', method: 'GET' })).status).toBe(200);
    expect((await call(url, { path: '/download', headers: bearer(token) })).status).toBe(404);
    expect((await call(url, { path: '/decode', method: 'GET', headers: bearer(token) })).status).toBe(405);
  });
});

describe('a page of another origin', () => {
  const origin = 'https://cloud.temporal.io';

  test('that is allowed may send its token, and reads every answer', async () => {
    const url = await serving('--token-file', tokenFile, '--cors-origins', `http://localhost:8233,${origin}`);
    const preflight = await call(url, { method: 'OPTIONS', headers: { origin } });
    expect(preflight.status).toBe(204);
    expect(Object.fromEntries(preflight.headers)).toMatchObject({
      'access-control-allow-origin': origin,
      'access-control-allow-methods': 'POST',
      'access-control-allow-headers': 'authorization, content-type, x-namespace',
      vary: 'origin',
    });
    for (const headers of [bearer(token), bearer('wrong')]) {
      const answer = await call(url, { headers: { origin, 'x-namespace': 'default', ...headers } });
      expect(answer.headers.get('access-control-allow-origin')).toBe(origin);
    }
  });

  test.each(['https://evil.example.com', 'https://cloud.temporal.io.evil.example.com', 'null', '*'])(
    'that is not allowed reads no answer: %s',
    async (other) => {
      const url = await serving('--anonymous-auth', '--cors-origins', origin);
      for (const method of ['OPTIONS', 'POST']) {
        const answer = await call(url, { method, headers: { origin: other } });
        expect(answer.headers.get('access-control-allow-origin')).toBeNull();
      }
    },
  );
});

describe('without a valid token', () => {
  async function expectRejected(url: string, headers: Record<string, string>): Promise<void> {
    const answer = await call(url, { headers });
    expect(answer.status).toBe(401);
    expect(answer.headers.get('www-authenticate')).toBe('Bearer');
  }

  test('of the file nothing is answered, and the file may change', async () => {
    const url = await serving('--token-file', tokenFile);
    for (const headers of [
      {},
      bearer('wrong'),
      bearer(''),
      { authorization: token },
      { authorization: `Basic ${token}` },
    ])
      await expectRejected(url, headers);
    expect((await call(url, { headers: bearer(token) })).status).toBe(200);
    await written('token', 'another');
    await expectRejected(url, bearer(token));
    expect((await call(url, { headers: bearer('another') })).status).toBe(200);
    await written('token', '');
    await expectRejected(url, bearer('another'));
    await rm(tokenFile);
    expect((await call(url, { headers: bearer('another') })).status).toBe(500);
    await written('token', `${token}\n`);
  });

  const jwt = (claims: JWTPayload, key = signingKeys.privateKey, alg = 'RS256') =>
    new SignJWT({ iss: 'https://login.tmprl.cloud/', aud: 'ui', ...claims })
      .setProtectedHeader({ alg, kid: 'one' })
      .setExpirationTime(claims.exp ?? '5m')
      .sign(key);

  const jane = { [emailClaim]: 'jane@example.com' };
  const flags = () => [
    '--jwks-url',
    jwksUrl,
    '--jwt-claim',
    emailClaim,
    '--jwt-users',
    '*@example.com,tom@other.org',
    '--jwt-audience',
    'ui',
  ];

  test('of a user who is allowed nothing is answered', async () => {
    const url = await serving(...flags(), '--jwt-issuer', 'https://login.tmprl.cloud/');
    const accepted = [jane, { [emailClaim]: 'tom@other.org' }];
    for (const claims of accepted)
      expect((await call(url, { headers: bearer(await jwt(claims)) })).status).toBe(200);
    const stranger = await generateKeyPair('RS256');
    const shared = new TextEncoder().encode('x'.repeat(64));
    const rejected = [
      await jwt({ [emailClaim]: 'jane@example.com.evil.org' }),
      await jwt({ [emailClaim]: 'jane@sub.example.com' }),
      await jwt({ [emailClaim]: 'ann@other.org' }),
      await jwt({ email: 'jane@example.com' }),
      await jwt({ ...jane, iss: 'https://evil.example.com/' }),
      await jwt({ ...jane, aud: 'another' }),
      await jwt({ ...jane, aud: undefined as never }),
      await jwt({ ...jane, exp: Math.floor(Date.now() / 1_000) - 60 }),
      await jwt(jane, stranger.privateKey),
      await jwt(jane, shared as never, 'HS256'),
      (await jwt(jane)).replace(/\.[^.]+$/, '.'),
      'not.a.jwt',
    ];
    for (const [index, value] of rejected.entries()) {
      const { status } = await call(url, { headers: bearer(value) });
      expect({ index, status }).toEqual({ index, status: 401 });
    }
  });

  test.each([
    { email_verified: false, status: 401 },
    { email_verified: 'false', status: 401 },
    { email_verified: true, status: 200 },
    { email_verified: undefined, status: 200 },
  ])('of a user with claim email and email_verified $email_verified: $status', async (claims) => {
    const url = await serving(...flags(), '--jwt-claim', 'email');
    const { status, ...verified } = claims;
    const value = await jwt({ email: 'jane@example.com', ...verified });
    expect((await call(url, { headers: bearer(value) })).status).toBe(status);
  });

  test('nothing is answered while the keys of the provider cannot be read', async () => {
    const url = await serving(...flags(), '--jwks-url', 'http://127.0.0.1:1/jwks.json');
    await expectRejected(url, bearer(await jwt(jane)));
  });

  test('a token of the file is enough beside JWTs', async () => {
    const url = await serving(...flags(), '--token-file', tokenFile);
    expect((await call(url, { headers: bearer(token) })).status).toBe(200);
    expect((await call(url, { headers: bearer(await jwt(jane)) })).status).toBe(200);
    await expectRejected(url, bearer('neither'));
  });

  test('a body is not read', async () => {
    const url = await serving('--token-file', tokenFile);
    // Larger than what is accepted: a server that read it would answer 413.
    const body = 'x'.repeat(9_000_000);
    const status = await call(url, { body })
      .then((answer) => answer.status)
      .catch(() => 401);
    expect(status).toBe(401);
  });
});

test('TLS: the certificate is replaced when its files change', async () => {
  const [first, second] = [await servingCertificate(), await servingCertificate()];
  const certificateFile = await written('tls.crt', first.serving.certificate);
  const keyFile = await written('tls.key', first.serving.key);
  const url = await serving(
    '--anonymous-auth',
    '--tls-cert-file',
    certificateFile,
    '--tls-private-key-file',
    keyFile,
  );
  const health = (ca: string) =>
    new Promise<string>((resolve, reject) => {
      request(`${url}/healthz`, { ca, agent: false }, (response) => resolve(text(response)))
        .on('error', reject)
        .end();
    });
  expect(await health(first.authority.certificate)).toBe('ok\n');
  await written('tls.crt', second.serving.certificate);
  await written('tls.key', second.serving.key);
  await eventually('the other certificate', async () =>
    expect(await health(second.authority.certificate)).toBe('ok\n'),
  );
});

describe('settings that are invalid end the command with the setting and the remedy', () => {
  test.each([
    {
      flags: [],
      want: '--token-file (CODEC_SERVER_TOKEN_FILE): the server decrypts for everyone who may call it: set',
    },
    {
      flags: ['--anonymous-auth', '--token-file', '/t'],
      want: '--anonymous-auth: everyone would be answered: omit it',
    },
    {
      flags: ['--jwks-url', 'https://x.example.com'],
      want: '--jwt-users (CODEC_SERVER_JWT_USERS): required with --jwks-url',
    },
    {
      flags: ['--token-file', '/t', '--jwt-users', 'a'],
      want: '--jwks-url (CODEC_SERVER_JWKS_URL): required with --jwt-users',
    },
    ...['keys.json', 'http://login.example.com', 'http://127.0.0.1.example.com', 'file:///keys.json'].map(
      (url) => ({
        flags: ['--jwks-url', url, '--jwt-users', 'a', '--jwt-audience', 'ui'],
        want: '--jwks-url (CODEC_SERVER_JWKS_URL): expected an https: URL, such as https://login.tmprl.cloud/',
      }),
    ),
    {
      flags: ['--jwks-url', 'https://x.example.com', '--jwt-users', 'a'],
      want: '--jwt-audience (CODEC_SERVER_JWT_AUDIENCE): required with --jwks-url: its keys sign tokens for other applications too: set the aud of',
    },
    ...['*', '*com', '*@', '*@com', '*@*.com', '*@example.', 'j*@example.com', 'a,*'].map((users) => ({
      flags: ['--jwks-url', 'https://x.example.com', '--jwt-users', users, '--jwt-audience', 'ui'],
      want: '--jwt-users (CODEC_SERVER_JWT_USERS): expected users separated by commas, such as jane@example.com, or *@example.com for',
    })),
    {
      flags: ['--anonymous-auth', '--cors-origins', '*'],
      want: '--cors-origins (CODEC_SERVER_CORS_ORIGINS): expected origins',
    },
    {
      flags: ['--anonymous-auth', '--bind-address', 'all'],
      want: '--bind-address (CODEC_SERVER_BIND_ADDRESS): expected an IP address',
    },
    {
      flags: ['--anonymous-auth', '--tls-cert-file', '/c'],
      want: '--tls-private-key-file (CODEC_SERVER_TLS_PRIVATE_KEY_FILE): required with --tls-cert-file',
    },
  ])('$flags', ({ flags, want }) => {
    expect(() => parseCodecServerConfig(flags, {})).toThrow(want);
  });

  test.each(['http://127.0.0.2:1/keys', 'http://localhost/keys', 'http://[::1]:1/keys'])(
    'without TLS the keys of JWTs are read from the same machine: %s',
    (url) => {
      const flags = ['--jwks-url', url, '--jwt-users', 'jane', '--jwt-audience', 'ui'];
      expect(parseCodecServerConfig(flags, {}).authorization.jwt?.jwksUrl).toBe(url);
    },
  );

  test('the folder of the keys is required', async () => {
    const { code, output } = await codecServerExit(['--anonymous-auth'], {
      NODE_MAINTENANCE_PAYLOAD_KEYS: '',
    });
    expect(code).toBe(1);
    expect(output).toBe('NODE_MAINTENANCE_PAYLOAD_KEYS: required: set it to the folder of the keys\n');
  });

  test('flags come first, and without any nothing is served', async () => {
    const env = { NODE_MAINTENANCE_PAYLOAD_KEYS: keys.path };
    const { code, output } = await codecServerExit([], env);
    expect(code).toBe(2);
    expect(output).toContain(
      'set --token-file or --jwks-url, or --anonymous-auth if nobody else can connect',
    );
    expect(parseCodecServerConfig(['--anonymous-auth'], {})).toMatchObject({
      address: '127.0.0.1',
      port: 8888,
    });
  });
});
