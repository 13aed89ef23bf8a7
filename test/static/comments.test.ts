import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';

const root = join(import.meta.dirname, '../..');

/** Finds a doc comment that starts with a fragment, whose subject would be the line after it. */
const fragment =
  /\/\*\*\s+(?:\* )?((?:As|Of|That|Those|What|Which|Who|Whose|By(?! default))\b[^\n]*|Milliseconds\.)/g;

function fragmentsIn(text: string): string[] {
  return [...text.matchAll(fragment)].map(([, start = '']) => start);
}

test('a doc comment starts with a verb or with the name of the thing', () => {
  // This file has examples.
  const exclude = ['**/node_modules', '**/dist', '.*', 'test/static/comments.test.ts'];
  const paths = globSync('**/*.{ts,mjs}', { cwd: root, exclude });
  expect(paths.length).toBeGreaterThan(800);
  const found = paths.flatMap((path) =>
    fragmentsIn(readFileSync(join(root, path), 'utf8')).map((start) => `${path}: ${start}`),
  );
  expect(found).toEqual([]);
});

test.each([
  { comment: '/** What stands in the way of it. */', want: 1 },
  { comment: '/**\n   * Of a node.\n   */', want: 1 },
  { comment: '/** Milliseconds. */', want: 1 },
  { comment: '/** Returns what blocks the drain. */', want: 0 },
  { comment: '/** By default, nothing is deleted. */', want: 0 },
])('the lint finds $want in $comment', ({ comment, want }) => {
  expect(fragmentsIn(comment)).toHaveLength(want);
});
