import { expect, test } from '@jest/globals';
import { mutantsOf, mutatedText, sampleOf } from '../../../scripts/mutation/mutants.ts';
import { resultTable } from '../../../scripts/mutation/report.ts';

const source = `export function isDue(at: number | undefined, now: number): boolean {
  if (at === undefined) return false;
  return [at, now + 1].some((one) => one < 5 && now >= at);
}
`;
const mutants = mutantsOf('domain/a.ts', source);

test('each operator inserts its fault, and types have none', () => {
  const changes = mutants.map(({ operator, before, after }) => `${operator}: ${before} -> ${after}`);
  expect(changes.toSorted()).toEqual([
    'arithmetic: + -> -',
    'boolean: false -> true',
    'comparison: < -> <=',
    'comparison: === -> !==',
    'comparison: >= -> >',
    'emptied array: [at, now + 1] -> []',
    'logical operator: && -> ||',
    'negated condition: at === undefined -> !(at === undefined)',
    'number: 1 -> (1 + 1)',
    'number: 5 -> (5 + 1)',
    'quantifier: some -> every',
    'removed return: if (at === undefined) return false; -> ;',
  ]);
});

test('a mutant differs from the source in one place, and can be parsed', () => {
  for (const mutant of mutants) {
    const text = mutatedText(source, mutant);
    expect(text).not.toBe(source);
    expect(() => mutantsOf('domain/a.ts', text)).not.toThrow();
  }
});

test('a seed chooses the same mutants each time, and a larger sample contains a smaller one', () => {
  const small = sampleOf(mutants, 4, 7);
  expect(sampleOf(mutants, 4, 7)).toEqual(small);
  expect(sampleOf(mutants, 8, 7).slice(0, 4)).toEqual(small);
  expect(sampleOf(mutants, 4, 8)).not.toEqual(small);
});

test('the report has a score for each folder, and what survived', () => {
  const [first, second, third] = mutants;
  if (first === undefined || second === undefined || third === undefined) throw new Error('three mutants');
  const outcomes = [
    { ...first, result: 'Killed' as const },
    { ...second, result: 'TimedOut' as const },
    { ...third, result: 'Survived' as const },
  ];
  const table = resultTable({ folders: ['domain'], seed: 7, mutants: 12, sample: 3, outcomes });
  expect(table).toContain('3 of 12 mutants, seed 7');
  expect(table).toContain('| `domain` | 3 | 2 | 1 | 67 % |');
  expect(table).toContain(`- domain/a.ts:${third.line} ${third.operator}: `);
});
