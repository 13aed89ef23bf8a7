import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';

const root = join(import.meta.dirname, '../..');

interface Row {
  sentence: string;
  shownBy: string;
  code: string;
}

/** The rows of docs/kep-4212.md, without the headings of its tables. */
const rows: Row[] = readFileSync(join(root, 'docs/kep-4212.md'), 'utf8')
  .split('\n')
  .filter((line) => line.startsWith('| ') && !line.startsWith('| sentence'))
  .map((line) => {
    const [, sentence = '', shownBy = '', code = ''] = line.split(/(?<!\\)\|/).map((cell) => cell.trim());
    return { sentence, shownBy, code };
  });

const testFile = /`(test\/[^`]+\.test\.ts)` (.+)$/;

describe('docs/kep-4212.md', () => {
  test('has the sentences of the KEP', () => {
    expect(rows.length).toBeGreaterThan(50);
  });

  test.each(rows)('$sentence', ({ shownBy, code }) => {
    for (const [, path = ''] of code.matchAll(/`([^`]+)`/g))
      expect([path, existsSync(join(root, path))]).toEqual([path, true]);
    const [, file, title = ''] = testFile.exec(shownBy) ?? [];
    if (file === undefined) {
      expect(shownBy).toMatch(/^(not yet|out of reach): /);
      return;
    }
    expect(readFileSync(join(root, file), 'utf8')).toContain(title);
  });
});
