import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';

const cwd = fileURLToPath(new URL('../..', import.meta.url));
/** They read memos and write none. */
const readers = ['temporal-config/runs.ts', 'temporal-config/schedules.ts'];
const files = globSync('{controllers,worker,temporal-config}/**/*.ts', { cwd }).filter(
  (file) => !readers.includes(file),
);

/** A memo as it is, and a summary with its memo as it is: both would be encrypted. */
const unmarked = [/\bmemo: (?!readableMemo\(|Readonly<)/, /\.\.\.\w*[sS]taticSummaryOf\(/];

test('every memo that is sent to Temporal is marked as readable, so that lists can be read without keys', () => {
  const lines = files.flatMap((file) => readFileSync(`${cwd}/${file}`, 'utf8').split('\n'));
  expect(lines.filter((line) => line.includes('memo: readableMemo(')).length).toBeGreaterThan(4);
  expect(lines.filter((line) => unmarked.some((pattern) => pattern.test(line)))).toEqual([]);
});
