import { expect, test } from '@jest/globals';
import { traceIdsOf } from '../../../domain/maintenance/traceIds.ts';

test('the UID of a maintenance is the identifier of its trace', () => {
  expect(traceIdsOf('5F3C2A91-6a55-4c0e-9c3e-0b7c3b0f9d11')).toEqual({
    traceId: '5f3c2a916a554c0e9c3e0b7c3b0f9d11',
    spanId: '9c3e0b7c3b0f9d11',
  });
});

test.each(['', 'uid-1', '00000000-0000-0000-0000-000000000000', '5f3c2a91-6a55-4c0e-9c3e'])(
  'there is no trace for the UID "%s"',
  (uid) => {
    expect(traceIdsOf(uid)).toBeUndefined();
  },
);
