import { createSecretKey, webcrypto } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import proto from '@temporalio/proto';
import fc from 'fast-check';
import { keyDifference } from '../../temporal-config/currentKey.ts';
import { DecryptionError, EncryptionCodec } from '../../temporal-config/encryptionCodec.ts';
import { PayloadKeys } from '../../temporal-config/payloadKeys.ts';
import { readableMemo } from '../../temporal-config/readableMemo.ts';
import { type KeyFolder, keyFolder } from '../kit/payloadKeys.ts';

let folder: KeyFolder;
let nowMs: number;
let problems: (string | undefined)[];

beforeEach(async () => {
  folder = await keyFolder('2026');
  nowMs = 0;
  problems = [];
});

afterEach(() => folder.discard());

const keysOf = () =>
  new PayloadKeys(folder.path, { now: () => nowMs, onProblem: (problem) => problems.push(problem) });
const codecOf = (keys: PayloadKeys | undefined) => new EncryptionCodec({ keys });
const payloadOf = (value: unknown): Payload => defaultPayloadConverter.toPayload(value);
const valueOf = (payload: Payload | undefined): unknown => defaultPayloadConverter.fromPayload(payload ?? {});
const textOf = ({ metadata, data }: Payload) =>
  Buffer.concat(
    [...Object.values(metadata ?? {}), data ?? Buffer.alloc(0)].map((one) => Buffer.from(one)),
  ).toString('latin1');

async function encrypted(codec: EncryptionCodec, value: unknown): Promise<Payload> {
  const [payload] = await codec.encode([payloadOf(value)]);
  return payload ?? {};
}

/** Longer than the keys are used until they are read again. */
const later = () => {
  nowMs += 10_000;
};

describe('encryption', () => {
  test('returns every value, from a payload that contains none of it', async () => {
    const codec = codecOf(keysOf());
    await fc.assert(
      fc.asyncProperty(fc.jsonValue(), async (value) => {
        const payload = await encrypted(codec, { secret: 'reason of the maintenance', value });
        expect(textOf(payload)).not.toContain('reason');
        expect(textOf(payload)).not.toContain('json/plain');
        const [plain] = await codec.decode([payload]);
        expect(JSON.stringify(valueOf(plain))).toBe(
          JSON.stringify({ secret: 'reason of the maintenance', value }),
        );
      }),
    );
  });

  test('never encrypts equal values to equal payloads', async () => {
    const codec = codecOf(keysOf());
    expect(await encrypted(codec, 'n1')).not.toEqual(await encrypted(codec, 'n1'));
  });

  test('has the format of the samples of Temporal: nonce, encrypted protobuf and tag, decrypted here by WebCrypto', async () => {
    const bytes = await folder.add('2027');
    await folder.use('2027');
    const { metadata, data } = await encrypted(codecOf(keysOf()), { nodes: ['n1'] });
    expect(
      Object.fromEntries(Object.entries(metadata ?? {}).map(([name, value]) => [name, String(value)])),
    ).toEqual({
      encoding: 'binary/encrypted',
      'encryption-key-id': '2027',
    });
    const key = createSecretKey(bytes).toCryptoKey('AES-GCM', false, ['decrypt']);
    const content = Buffer.from(data ?? []);
    const plain = await webcrypto.subtle.decrypt(
      { name: 'AES-GCM', iv: content.subarray(0, 12) },
      key,
      content.subarray(12),
    );
    expect(valueOf(proto.temporal.api.common.v1.Payload.decode(new Uint8Array(plain)))).toEqual({
      nodes: ['n1'],
    });
  });

  test('leaves payloads readable that were written without it', async () => {
    const plain = [payloadOf({ name: 'rack-7' }), payloadOf(undefined)];
    expect(await codecOf(keysOf()).decode(plain)).toEqual(plain);
    expect(await codecOf(undefined).encode(plain)).toEqual(plain);
  });

  test('leaves a memo readable, and sends nothing with it', async () => {
    const memo = Object.values(readableMemo({ clusterUid: 'u-1' })).map(({ payload }) => payload);
    expect(await codecOf(keysOf()).encode(memo)).toEqual([payloadOf('u-1')]);
    expect(await codecOf(undefined).encode(memo)).toEqual([payloadOf('u-1')]);
  });

  test('passes on what is encrypted without the id of a key', async () => {
    const foreign = { metadata: { encoding: Buffer.from('binary/encrypted') }, data: Buffer.from('?') };
    expect(await codecOf(keysOf()).decode([foreign])).toEqual([foreign]);
  });
});

test('the input of a Schedule differs while it has another key than payloads have now', async () => {
  const keys = keysOf();
  const converter = { payloadCodecs: [codecOf(keys)] };
  const scheduleWith = (payload: Payload) =>
    ({ raw: { schedule: { action: { startWorkflow: { input: { payloads: [payload] } } } } } }) as never;
  const plain = scheduleWith(payloadOf({ name: 'w' }));
  const written = scheduleWith(await encrypted(codecOf(keys), { name: 'w' }));
  expect(await keyDifference(written, converter)).toEqual([]);
  expect(await keyDifference(plain, converter)).toEqual(['- key: none', '+ key: 2026']);
  expect(await keyDifference(plain, { payloadCodecs: [codecOf(undefined)] })).toEqual([]);
  await folder.add('2027');
  await folder.use('2027');
  later();
  expect(await keyDifference(written, converter)).toEqual(['- key: 2026', '+ key: 2027']);
});

describe('a payload that cannot be decrypted is rejected with the key and the remedy', () => {
  async function failureOf(codec: EncryptionCodec, payload: Payload): Promise<string> {
    const error = await codec.decode([payload]).catch((failure: unknown) => failure);
    expect(error).toBeInstanceOf(DecryptionError);
    return (error as Error).message;
  }

  test('without keys', async () => {
    const payload = await encrypted(codecOf(keysOf()), 1);
    expect(await failureOf(codecOf(undefined), payload)).toBe(
      'a payload is encrypted with key "2026", and this process has no keys: set NODE_MAINTENANCE_PAYLOAD_KEYS to the folder of the keys',
    );
  });

  test('with other keys', async () => {
    const payload = await encrypted(codecOf(keysOf()), 1);
    await folder.add('2027');
    await folder.use('2027');
    await folder.remove('2026');
    expect(await failureOf(codecOf(keysOf()), payload)).toContain(
      `encrypted with key "2026", which ${folder.path} does not contain: add the file 2026 with the key`,
    );
  });

  test('with another key of the same id', async () => {
    const payload = await encrypted(codecOf(keysOf()), 1);
    await folder.add('2026');
    expect(await failureOf(codecOf(keysOf()), payload)).toContain(
      'contains another key of this name: restore the key',
    );
  });

  test('if it was changed or cut, at any byte', async () => {
    const codec = codecOf(keysOf());
    const payload = await encrypted(codec, 'n1');
    const data = Buffer.from(payload.data ?? []);
    for (const [index, byte] of data.entries()) {
      const changed = Buffer.from(data);
      changed[index] = byte ^ 1;
      expect(await failureOf(codec, { ...payload, data: changed })).toContain('it was changed');
      expect(await failureOf(codec, { ...payload, data: data.subarray(0, index) })).toContain(
        'it was changed',
      );
    }
  });

  test('in one line of limited length, whatever id it names', async () => {
    const metadata = {
      encoding: Buffer.from('binary/encrypted'),
      'encryption-key-id': Buffer.from(`\u001b[2J\n${'x'.repeat(10_000)}`),
    };
    expect(await failureOf(codecOf(keysOf()), { metadata, data: Buffer.alloc(0) })).toMatch(
      /^[\x20-\x7e]{1,500}$|^[^\p{C}]{1,500}$/u,
    );
  });
});

describe('a rotation without a restart', () => {
  test('decrypts with an added key, then encrypts with it, then refuses a removed one', async () => {
    const [writer, reader] = [codecOf(keysOf()), codecOf(keysOf())];
    const former = await encrypted(writer, 'before');
    await folder.add('2027');
    await folder.use('2027');
    later();
    const newer = await encrypted(writer, 'after');
    expect(textOf(newer)).toContain('2027');
    expect((await reader.decode([former, newer])).map(valueOf)).toEqual(['before', 'after']);
    await folder.remove('2026');
    later();
    await expect(reader.decode([former])).rejects.toThrow('encrypted with key "2026"');
    expect(problems).toEqual([]);
  });

  test('reads the folder at once for a key that another process has already, but not for each payload', async () => {
    const other = codecOf(keysOf());
    const keys = keysOf();
    await folder.add('2027');
    await folder.use('2027');
    const [payload] = await codecOf(keysOf()).encode([payloadOf('new')]);
    await expect(other.decode([payload ?? {}])).rejects.toThrow(DecryptionError);
    nowMs += 1_000;
    expect((await other.decode([payload ?? {}])).map(valueOf)).toEqual(['new']);
    expect(keys.find('2028')).toBeUndefined();
  });

  test.each([
    {
      when: 'names a key that does not exist',
      change: () => folder.use('2028'),
      want: 'there is no key "2028"',
    },
    {
      when: 'contains a cut key',
      change: () => folder.write('2027', 'AAAA'),
      want: 'expected 32 bytes in base64',
    },
    {
      when: 'has no current key',
      change: () => folder.remove('current'),
      want: 'current cannot be read (ENOENT)',
    },
  ])('keeps the former keys while the folder $when, and reports it once', async ({ change, want }) => {
    const codec = codecOf(keysOf());
    const payload = await encrypted(codec, 'n1');
    await change();
    for (let round = 1; round <= 2; round += 1) {
      later();
      expect((await codec.decode([payload])).map(valueOf)).toEqual(['n1']);
      expect(textOf(await encrypted(codec, 'n2'))).toContain('2026');
    }
    expect(problems).toEqual([expect.stringContaining(want)]);
    await folder.add('2027');
    await folder.use('2027');
    later();
    expect(textOf(await encrypted(codec, 'n3'))).toContain('2027');
    expect(problems.slice(1)).toEqual([undefined]);
  });
});

describe('keys that are invalid at the start are one line with the file and the remedy', () => {
  test.each([
    {
      when: 'no folder',
      change: () => folder.discard(),
      want: /nm-keys-\w+ cannot be read \(ENOENT\): correct the path/,
    },
    {
      when: 'text instead of base64',
      change: () => folder.write('2026', 'secret'),
      want: /2026: expected 32 bytes in base64, such as the output of openssl rand -base64 32/,
    },
    {
      when: 'no key',
      change: () => folder.remove('2026'),
      want: /current: there is no key "2026" in .*; it has none: add the file, or name another key/,
    },
  ])('$when', async ({ change, want }) => {
    await change();
    expect(keysOf).toThrow(want);
  });
});
