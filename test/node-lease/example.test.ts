import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';

const read = (path: string) => readFileSync(new URL(`../../node-lease/${path}`, import.meta.url), 'utf8');

test('the README of the node Lease library contains example.ts', () => {
  expect(read('README.md')).toContain(`\`\`\`ts\n${read('example.ts')}\`\`\`\n`);
});

test('the example acquires and holds a Lease in five lines', () => {
  const [, usage = ''] = read('example.ts').split('*/\n');
  expect(usage.trim().split('\n')).toHaveLength(5);
});
