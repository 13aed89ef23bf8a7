import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { issueAuthority, issueServing } from '../../../admission/issue.ts';
import { cloudEventOf } from '../../../api/notification.ts';
import { windowOpened } from '../../../domain/notifications/events.ts';
import { freePort } from '../../../worker/http.ts';
import { post, readFiles } from '../../../worker/notifications/endpoint.ts';
import { eventually } from '../../kit/eventually.ts';
import { startTestEndpoint, type TestEndpoint } from '../../kit/notificationEndpoint.ts';

let dir: string;
let plain: TestEndpoint;
let tls: TestEndpoint;
let caFile: string;

const written = async (name: string, text: string): Promise<string> => {
  const file = join(dir, name);
  await writeFile(file, text);
  return file;
};

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nm-endpoint-'));
  const validity = { notBefore: Date.now() - 60_000, notAfter: Date.now() + 3_600_000 };
  const authority = await issueAuthority(validity);
  const { certificate: cert, key } = await issueServing(authority, ['127.0.0.1'], validity);
  caFile = await written('ca.pem', authority.certificate);
  plain = await startTestEndpoint();
  tls = await startTestEndpoint({ cert, key });
});

afterAll(async () => {
  await Promise.all([plain?.close(), tls?.close()]);
  await rm(dir, { recursive: true, force: true });
});

const opened = windowOpened(
  { name: 'os-patch', uid: 'w-1' },
  { runId: 'r-1', end: '2026-01-01T04:00:00Z' },
  '2026-01-01T00:00:00Z',
);
const event = cloudEventOf(opened, 'prod-1');
const to = ({ url }: TestEndpoint, differs: object = {}) => ({
  url,
  headersFile: undefined,
  caFile: undefined,
  timeoutSeconds: 30,
  ...differs,
});

test('an event is sent in structured mode, with the current headers of the file', async () => {
  const headersFile = await written('headers', '# for us\n\nAuthorization: Bearer one\nX-Team:  sre \n');
  expect(await post(to(plain, { headersFile }), event)).toMatchObject({ status: 204 });
  await written('headers', 'Authorization: Bearer two');
  await post(to(plain, { headersFile }), event);
  const [first, second] = plain.requests;
  expect(first?.event).toEqual(event);
  expect(first?.headers).toMatchObject({
    'content-type': 'application/cloudevents+json; charset=utf-8',
    authorization: 'Bearer one',
    'x-team': 'sre',
  });
  expect(second?.headers.authorization).toBe('Bearer two');
});

test('any response is returned', async () => {
  plain.respondWith(() => ({ status: 429, headers: { 'retry-after': '3' } }));
  expect(await post(to(plain), event)).toEqual({ status: 429, retryAfter: '3' });
});

test('an endpoint that does not respond in time is a timeout', async () => {
  plain.respondWith(() => 'Hangs');
  await expect(post(to(plain, { timeoutSeconds: 1 }), event)).rejects.toThrow('timeout after 1 s');
});

test('a certificate of a private CA is verified with --notify-ca-file, and rejected without it', async () => {
  expect(await post(to(tls, { caFile }), event)).toMatchObject({ status: 204 });
  await expect(post(to(tls), event)).rejects.toThrow(/certificate/);
  expect(tls.requests).toHaveLength(1);
});

test('the chat bridge of the documentation forwards a notification, and returns the response of the chat', async () => {
  let status = 200;
  const texts: string[] = [];
  const chat = createServer((request, response) => {
    json(request)
      .then((body) => {
        texts.push((body as { text: string }).text);
        response.writeHead(status).end();
      })
      .catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => chat.listen(0, '127.0.0.1', resolve));
  const CHAT_URL = `http://127.0.0.1:${(chat.address() as AddressInfo).port}/`;
  const PORT = String(await freePort());
  const script = fileURLToPath(new URL('../../../docs/examples/chat-bridge.mjs', import.meta.url));
  const bridge = spawn(process.execPath, [script], { env: { CHAT_URL, PORT }, stdio: 'ignore' });
  try {
    const sent = (sentEvent = event) => post({ ...to(plain), url: `http://127.0.0.1:${PORT}/` }, sentEvent);
    await eventually('the bridge to respond', async () =>
      expect(await sent()).toMatchObject({ status: 200 }),
    );
    expect(texts.at(-1)).toBe(
      'MaintenanceWindow os-patch is open until 2026-01-01T04:00:00Z. (//prod-1/apis/nodemaintenance.k8s.io/v1alpha1/maintenancewindows/os-patch)',
    );
    const message = '<!channel> <https://evil.example|docs> & more';
    await sent({ ...event, data: { ...event.data, message } });
    expect(texts.at(-1)).toContain('&lt;!channel&gt; &lt;https://evil.example|docs&gt; &amp; more (');
    status = 503;
    expect(await sent()).toMatchObject({ status: 503 });
  } finally {
    bridge.kill();
    chat.closeAllConnections();
    chat.close();
  }
});

describe('the error of an invalid file names flag and line, and does not contain its content', () => {
  test.each<{ when: string; text: string; option: 'headersFile' | 'caFile'; want: string }>([
    {
      when: 'a line without a header',
      text: 'A: b\ns3cret',
      option: 'headersFile',
      want: 'expected "Name: value" in line 2 of',
    },
    {
      when: 'a header without a name',
      text: ': s3cret',
      option: 'headersFile',
      want: 'expected "Name: value" in line 1 of',
    },
    { when: 'a header without a value', text: 'Authorization:', option: 'headersFile', want: 'in line 1 of' },
    {
      when: 'a file without a certificate',
      text: 's3cret',
      option: 'caFile',
      want: '--notify-ca-file (NOTIFY_CA_FILE): expected',
    },
  ])('$when', async ({ text, option, want }) => {
    const file = await written('bad', text);
    const reading = readFiles({ headersFile: undefined, caFile: undefined, [option]: file });
    await expect(reading).rejects.toThrow(want);
    await expect(reading).rejects.not.toThrow('s3cret');
  });

  test('a missing file', async () => {
    const reading = readFiles({ headersFile: join(dir, 'none'), caFile: undefined });
    await expect(reading).rejects.toThrow(
      `--notify-headers-file (NOTIFY_HEADERS_FILE): cannot read ${join(dir, 'none')} (ENOENT)`,
    );
  });
});
