import { expect, test } from '@jest/globals';
import { shortened } from '../../../domain/common/names.ts';

test.each([
  { of: '63 characters', name: 'n'.repeat(63), want: 'n'.repeat(63) },
  {
    of: '64 characters',
    name: `${'a'.repeat(31)}xx${'b'.repeat(31)}`,
    want: `${'a'.repeat(31)}…${'b'.repeat(31)}`,
  },
  {
    of: 'a series',
    name: `pool-${'n'.repeat(200)}.example.com-17`,
    want: `pool-${'n'.repeat(26)}…${'n'.repeat(16)}.example.com-17`,
  },
])(
  'of a name of $of, a message contains the beginning and the end, 63 characters at most',
  ({ name, want }) => {
    expect(shortened(name)).toBe(want);
    expect(want).toHaveLength(63);
  },
);
