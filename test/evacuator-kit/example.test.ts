import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';

const read = (path: string) => readFileSync(new URL(`../../evacuator-kit/${path}`, import.meta.url), 'utf8');

describe('the README of the evacuator kit', () => {
  test('contains example.ts', () => {
    expect(read('README.md')).toContain(`\`\`\`ts\n${read('example.ts')}\`\`\`\n`);
  });
});

test('the evacuator in the example has at most 20 lines', () => {
  const lines = read('example.ts').split('\n');
  const first = lines.findIndex((line) => line.startsWith('await runEvacuator('));
  const last = lines.indexOf('});');
  expect(last - first + 1).toBeLessThanOrEqual(20);
});
