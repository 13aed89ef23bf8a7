import { expect, test } from '@jest/globals';
import { parsePayloads } from '../../worker/codecServer/payloads.ts';
import { expectReadable, fuzz } from './kit/fuzz.ts';
import { jsonTextsLike } from './kit/mutations.ts';

/** Anyone who has a token of the codec server, or reaches one without authorization, sends it any body. */

const bodies = [
  {
    payloads: [
      { metadata: { encoding: 'anNvbi9wbGFpbg==', 'encryption-key-id': 'azE' }, data: 'eyJ-X30=' },
      { metadata: { encoding: 'YmluYXJ5L251bGw=' }, externalPayloads: [{ sizeBytes: '7' }] },
      {},
    ],
  },
  {},
];

test('a body is payloads in base64, or names the first field that is none', () =>
  fuzz(jsonTextsLike(bodies), (body) => {
    const parsed = parsePayloads(body);
    if ('problem' in parsed) {
      expect(parsed.problem).toMatch(/^expected a JSON object$|^payloads.*: expected ./);
      expectReadable(parsed.problem, { max: 300 });
      return;
    }
    for (const { metadata = {}, data = '' } of parsed.payloads)
      for (const value of [...Object.values(metadata), data])
        expect(Buffer.from(value, 'base64url').length).toBeLessThanOrEqual(value.length);
  }));

test('a body of millions of payloads has one problem', () => {
  const body = `{"payloads":[${'0,'.repeat(2_000_000)}0]}`;
  expect(parsePayloads(body)).toEqual({ problem: 'payloads: expected at most 50000' });
});

test('a payload with thousands of wrong fields has one problem', () => {
  const metadata = Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`field-${index}`, 1]));
  expect(parsePayloads(JSON.stringify({ payloads: [{ metadata }] }))).toEqual({
    problem: 'payloads.0.metadata.field-0: expected base64',
  });
});
