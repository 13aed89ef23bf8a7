import { expect, test } from '@jest/globals';
import { parseRelease, releaseText } from '../../../domain/evacuation/podRelease.ts';

const release = {
  deployment: { name: 'web', uid: 'u1' },
  replicaSet: { name: 'web-5d4', uid: 'u2' },
  podTemplateHash: '5d4',
  releasedAt: '2026-01-01T00:00:00Z',
  servedBefore: 3,
};

test('a record of a release is read as it was written', () => {
  expect(parseRelease(releaseText(release))).toEqual(release);
});

test.each([
  { what: 'a UID that is a number', record: { ...release, replicaSet: { name: 'web-5d4', uid: 7 } } },
  { what: 'no UID', record: { ...release, deployment: { name: 'web' } } },
  { what: 'a count that is a text', record: { ...release, servedBefore: '3' } },
  { what: 'no hash', record: { ...release, podTemplateHash: undefined } },
])('a record with $what is none', ({ record }) => {
  expect(parseRelease(JSON.stringify(record))).toBeUndefined();
});
