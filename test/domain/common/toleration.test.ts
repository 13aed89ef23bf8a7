import { describe, expect, test } from '@jest/globals';
import { hasTaint, toleratesTaint } from '../../../domain/common/toleration.ts';

const taint = { key: 'dedicated', value: 'gpu', effect: 'NoSchedule' } as const;
const other = { key: 'dedicated', effect: 'NoExecute' } as const;

test('a taint is found by key and effect among others', () => {
  expect(hasTaint({ spec: { taints: [other, taint] } }, taint)).toBe(true);
  expect(hasTaint({ spec: { taints: [other] } }, taint)).toBe(false);
  expect(hasTaint({ spec: {} }, taint)).toBe(false);
});

describe('a toleration', () => {
  test.each([
    { when: 'of the key, any value', toleration: { key: 'dedicated', operator: 'Exists' }, want: true },
    { when: 'of the value', toleration: { key: 'dedicated', value: 'gpu' }, want: true },
    { when: 'of another value', toleration: { key: 'dedicated', value: 'cpu' }, want: false },
    { when: 'of another key', toleration: { key: 'reserved', operator: 'Exists' }, want: false },
    { when: 'of every key', toleration: { operator: 'Exists' }, want: true },
    { when: 'of another effect', toleration: { operator: 'Exists', effect: 'NoExecute' }, want: false },
  ] as const)('$when: $want', ({ toleration, want }) => {
    expect(toleratesTaint([toleration], taint)).toBe(want);
  });

  test('is missing', () => {
    expect(toleratesTaint(undefined, taint)).toBe(false);
  });
});
