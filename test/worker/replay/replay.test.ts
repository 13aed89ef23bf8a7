import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import proto from '@temporalio/proto';
import { isRecord } from '../../../domain/common/untrusted.ts';
import { EncryptionCodec } from '../../../temporal-config/encryptionCodec.ts';
import { PayloadKeys } from '../../../temporal-config/payloadKeys.ts';
import { keyFolder } from '../../kit/payloadKeys.ts';
import { programOf } from '../../kit/program.ts';
import { workflowBundle } from '../../kit/workflows.ts';

const main = programOf('worker/replay/main.ts');
const recorded = fileURLToPath(
  new URL('../../replay/histories/idle-cordon-drain-complete.json', import.meta.url),
);
let folder: string;
let same: string;
let changed: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'nm-replay-'));
  const { code } = await workflowBundle();
  [same, changed] = [join(folder, 'same.js'), join(folder, 'changed.js')];
  await writeFile(same, code);
  await writeFile(changed, code.replaceAll('startStage', 'beginStage'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

interface Answer {
  code: number;
  stdout: string;
  stderr: string;
}

const replay = (...args: string[]) => replayWith({}, ...args);

async function replayWith(variables: NodeJS.ProcessEnv, ...args: string[]): Promise<Answer> {
  const env = { ...process.env, HOME: folder, TEMPORAL_ADDRESS: '127.0.0.1:1', ...variables };
  return promisify(execFile)(process.execPath, [main, ...args], { env }).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }: Answer) => ({ code, stdout, stderr }),
  );
}

test('a history that the build continues', async () => {
  const { events } = JSON.parse(await readFile(recorded, 'utf8')) as { events: unknown[] };
  expect(await replay('--workflow-bundle', same, recorded)).toEqual({
    code: 0,
    stdout: `ok      idle-cordon-drain-complete  ${events.length} events\n1 run replayed with ${same}: all can continue.\n`,
    stderr: '',
  });
});

test('a history that the build cannot continue is named, with the reason in one line', async () => {
  const { code, stdout } = await replay('--workflow-bundle', changed, recorded, recorded);
  expect(code).toBe(1);
  expect(stdout.split('\n')).toEqual([
    expect.stringMatching(/^failed {2}idle-cordon-drain-complete {2}\d+ events: .*TMPRL1100/),
    expect.stringMatching(/^failed {2}idle-cordon-drain-complete {2}\d+ events: .*TMPRL1100/),
    `2 runs replayed with ${changed}: 2 cannot continue.`,
    '',
  ]);
});

test('an encrypted history is replayed with its key, and fails without it, naming the key', async () => {
  const keys = await keyFolder('2026-11');
  const file = join(folder, 'encrypted.json');
  const codec = new EncryptionCodec({ keys: new PayloadKeys(keys.path) });
  await writeFile(file, JSON.stringify(await encrypted(JSON.parse(await readFile(recorded, 'utf8')), codec)));
  const args = ['--workflow-bundle', same, file];
  expect(await replayWith({ NODE_MAINTENANCE_PAYLOAD_KEYS: keys.path }, ...args)).toMatchObject({ code: 0 });
  const blind = await replay(...args);
  expect(blind.code).toBe(1);
  expect(blind.stdout).toMatch(
    /^failed {2}encrypted {2}\d+ events: .*encrypted with key "2026-11", and this process has no keys: set NODE_MAINTENANCE_PAYLOAD_KEYS/,
  );
  await keys.discard();
});

/** Returns a history as a worker with the keys would have written it. */
async function encrypted(json: unknown, codec: EncryptionCodec): Promise<unknown> {
  if (Array.isArray(json)) return Promise.all(json.map((item) => encrypted(item, codec)));
  if (!isRecord(json)) return json;
  if (isRecord(json['metadata']) && 'encoding' in json['metadata']) return encryptedPayload(json, codec);
  const fields = Object.entries(json).map(async ([name, field]) =>
    readable.has(name) ? [name, field] : [name, await encrypted(field, codec)],
  );
  return Object.fromEntries(await Promise.all(fields));
}

const readable = new Set(['memo', 'searchAttributes']);

async function encryptedPayload(json: unknown, codec: EncryptionCodec): Promise<unknown> {
  const { Payload } = proto.temporal.api.common.v1;
  const [payload] = await codec.encode([Payload.fromObject(json as object)]);
  return Payload.toObject(Payload.fromObject(payload ?? {}), { bytes: String });
}

test.each([
  [[], /^error: expected either --from-server or files with histories: see --help\n$/],
  [['--from-server', 'file'], /^error: expected either --from-server or files/],
  [
    ['--from-server', '--cluster', 'Berlin'],
    /^error: --cluster: expected lower case letters.*got "Berlin"\)\n$/,
  ],
  [['--from-server'], /^error: .*127\.0\.0\.1:1.*\n$/],
  [['--unknown'], /^error: unknown option '--unknown'\n$/],
])('arguments that are refused: %s', async (args, message) => {
  const { code, stdout, stderr } = await replay(...args);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toMatch(message);
});

test('a file that is no history', async () => {
  const file = join(folder, 'other.json');
  await writeFile(file, '{}');
  expect(await replay('--workflow-bundle', same, file)).toEqual({
    code: 2,
    stdout: '',
    stderr: `error: ${file}: not a history: it has no field "events"; write it with temporal workflow show --workflow-id ID --output json\n`,
  });
});
