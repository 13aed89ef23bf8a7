import { describe, expect, test } from '@jest/globals';
import { fittedTable, table } from '../../../cli/terminal/table.ts';
import { displayWidth, truncate, wrap } from '../../../cli/terminal/width.ts';

interface Row {
  readonly name: string;
  readonly note: string | undefined;
}

const columns = [
  { title: 'NAME', cell: ({ name }: Row) => name },
  { title: 'NOTE', cell: ({ note }: Row) => note },
];

describe('a table', () => {
  test('aligns columns by display width, and prints missing values as kubectl does', () => {
    const rows = [
      { name: 'node-1', note: 'ok' },
      { name: '節點', note: undefined },
      { name: 'cafe\u0301', note: 'combining mark' },
    ];
    expect(table(columns, rows).split('\n')).toEqual([
      'NAME     NOTE',
      'node-1   ok',
      '節點     <none>',
      'cafe\u0301     combining mark',
    ]);
  });

  test('wraps its last column at the width of the terminal', () => {
    const rows = [{ name: 'n', note: 'one two three four' }];
    expect(fittedTable(columns, { width: 17, dispensable: [], rows })).toEqual([
      ['NAME   NOTE'],
      ['n      one two', '       three four'],
    ]);
  });

  test('omits columns before it narrows the last one', () => {
    const rows = [{ name: 'a-long-name', note: 'one two three' }];
    expect(fittedTable(columns, { width: 20, dispensable: ['NAME'], rows })).toEqual([
      ['NOTE'],
      ['one two three'],
    ]);
  });
});

describe('text', () => {
  test.each([
    { text: 'abcdef', columns: 4, want: 'abc…' },
    { text: '節點節點', columns: 5, want: '節點…' },
    { text: '節點節點', columns: 4, want: '節…' },
    { text: '👩‍💻👩‍💻', columns: 3, want: '👩‍💻…' },
    { text: 'fits', columns: 4, want: 'fits' },
  ])('"$text" is truncated to $columns columns', ({ text, columns: width, want }) => {
    expect(truncate(text, width)).toBe(want);
    expect(displayWidth(truncate(text, width))).toBeLessThanOrEqual(width);
  });

  test.each([
    { text: 'one two', columns: 3, want: ['one', 'two'] },
    { text: 'abcdef gh', columns: 4, want: ['abcd', 'ef', 'gh'] },
    { text: '節點節', columns: 4, want: ['節點', '節'] },
    { text: '節', columns: 1, want: ['節'] },
    { text: '', columns: 4, want: [''] },
  ])('"$text" is wrapped at $columns columns', ({ text, columns: width, want }) => {
    expect(wrap(text, width)).toEqual(want);
  });
});
