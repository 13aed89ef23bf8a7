import { expect, test } from '@jest/globals';
import { type Managed, storedAt } from '../../../domain/common/managedFields.ts';

const path = ['f:spec', 'f:renewTime'];
const entry = (time: string, field: string) => ({
  manager: 'm',
  time,
  fieldsV1: { 'f:spec': { [field]: {} } },
});
const withEntries = (...managedFields: object[]): Managed => ({ metadata: { managedFields } });
const seconds = (time: string) => Date.parse(time);

test.each<{ of: string; object: Managed; expected: number | undefined }>([
  { of: 'no managed fields', object: { metadata: {} }, expected: undefined },
  { of: 'another field', object: withEntries(entry('2026-01-01T00:00:00Z', 'f:other')), expected: undefined },
  { of: 'an unreadable time', object: withEntries(entry('yesterday', 'f:renewTime')), expected: undefined },
  {
    of: 'two owners',
    object: withEntries(
      entry('2026-01-01T00:00:05Z', 'f:renewTime'),
      entry('2026-01-01T00:00:01Z', 'f:renewTime'),
    ),
    expected: seconds('2026-01-01T00:00:05Z'),
  },
  {
    of: 'an owner without a time',
    object: withEntries({ fieldsV1: { 'f:spec': { 'f:renewTime': {} } } }),
    expected: undefined,
  },
])('the last change of $of', ({ object, expected }) => {
  expect(storedAt(object, path)).toBe(expected);
});
