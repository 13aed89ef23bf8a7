import { mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { KeyPair } from '../../admission/keyPair.ts';
import { readClientCa, watchClientCa } from '../../admission/clientCa.ts';
import { issueAuthority, issueClient } from '../../admission/issue.ts';
import { recordedLog } from '../kube/fixtures.ts';
import { eventually } from '../kit/eventually.ts';

const validity = { notBefore: Date.now() - 3_600_000, notAfter: Date.now() + 3_600_000 };

let dir: string;
let first: KeyPair;
let second: KeyPair;
let client: KeyPair;
const file = () => join(dir, 'ca.crt');

beforeAll(async () => {
  [first, second] = await Promise.all([issueAuthority(validity), issueAuthority(validity)]);
  client = await issueClient(first, 'apiserver', validity);
});

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'client-ca-'));
});

afterEach(() => rm(dir, { recursive: true, force: true }));

test('a file may have several authorities, and text around them', async () => {
  const text = `# old\n${first.certificate}# new\n${second.certificate}`;
  await writeFile(file(), text);
  expect(await readClientCa(file())).toBe(text);
});

describe('a file is rejected', () => {
  test('that does not exist', async () => {
    await expect(readClientCa(file())).rejects.toThrow(
      `--webhook-client-ca: ${file()} could not be read: ENOENT`,
    );
  });

  test.each([
    { which: 'that is empty', text: () => '', problem: 'contains no certificate' },
    { which: 'with a key only', text: () => first.key, problem: 'contains no certificate' },
    {
      which: 'with a damaged certificate',
      text: () => `${first.certificate}${second.certificate.replace('MII', 'AAA')}`,
      problem: 'contains a damaged certificate (number 2)',
    },
    {
      which: 'with the certificate of a client',
      text: () => client.certificate,
      problem: 'contains a certificate that is no authority (CN=apiserver)',
    },
  ])('$which', async ({ text, problem }) => {
    await writeFile(file(), text());
    await expect(readClientCa(file())).rejects.toThrow(
      `--webhook-client-ca: ${file()} ${problem}: expected the certificates, in PEM,`,
    );
  });
});

test('a change of a mounted Secret is noticed; while the file is not valid, the last content counts', async () => {
  const target = (name: string) => join(dir, name);
  await writeFile(target('1'), first.certificate);
  await writeFile(target('2'), second.certificate);
  /** Replaces the link, as a kubelet does. */
  const linkTo = async (name: string) => {
    await symlink(target(name), target('next'));
    await rename(target('next'), file());
  };
  await linkTo('1');
  const log = recordedLog();
  const stop = new AbortController();
  const changes: string[] = [];
  const clients = { caFile: file(), ca: await readClientCa(file()), names: [] };
  const ended = watchClientCa(clients, { onChange: (ca) => changes.push(ca), log, pollMs: 100 }, stop.signal);
  await linkTo('missing');
  await eventually('the error', () =>
    expect(log.lines).toEqual([
      expect.objectContaining({ level: 'error', message: 'Client authorities could not be loaded' }),
    ]),
  );
  expect(changes).toEqual([]);
  await linkTo('2');
  await eventually('the change', () => expect(changes).toEqual([second.certificate]));
  stop.abort();
  await ended;
});
