import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { durationText, error, listedFindings, ok, warning, worstOf } from '../../../domain/doctor/finding.ts';

describe('the findings of a check', () => {
  test('are ok when there are none', () => {
    expect(listedFindings([], 'nothing is stuck')).toEqual([ok('nothing is stuck')]);
  });

  test('have errors first, and of many only the first are listed', () => {
    const warnings = Array.from({ length: 12 }, (_, i) => warning(`${i}`, 'wait'));
    const listed = listedFindings([...warnings, error('broken', 'repair it')], '');
    expect(listed).toHaveLength(11);
    expect(listed[0]).toEqual({ result: 'error', message: 'broken', remedy: 'repair it' });
    expect(listed.at(-1)).toMatchObject({
      result: 'warning',
      message: '3 more findings of this check are not listed',
    });
  });

  test.each([
    { count: 10, last: '9' },
    { count: 11, last: '1 more finding of this check is not listed' },
  ])('of $count end with "$last"', ({ count, last }) => {
    const warnings = Array.from({ length: count }, (_, i) => warning(`${i}`, 'wait'));
    expect(listedFindings(warnings, '').at(-1)?.message).toBe(last);
  });

  test('that are not listed never hide the worst one', () => {
    const finding = fc.constantFrom(warning('w', 'wait'), error('e', 'repair it'));
    fc.assert(
      fc.property(fc.array(finding, { minLength: 1 }), (findings) => {
        const listed = listedFindings(findings, 'fine');
        expect(worstOf(listed)).toBe(worstOf(findings));
        expect(listed.length).toBeLessThanOrEqual(11);
      }),
    );
  });

  test.each([
    { findings: [], want: 'ok' },
    { findings: [ok('')], want: 'ok' },
    { findings: [ok(''), warning('', '')], want: 'warning' },
    { findings: [warning('', ''), error('', ''), ok('')], want: 'error' },
  ])('are together as bad as the worst: $want', ({ findings, want }) => {
    expect(worstOf(findings)).toBe(want);
  });
});

test.each([
  [-5, '0 s'],
  [90_000, '90 s'],
  [300_000, '5 min'],
  [7_200_000, '2 h'],
  [432_000_000, '5 d'],
])('%d ms is written as %s', (ms, want) => {
  expect(durationText(ms)).toBe(want);
});
