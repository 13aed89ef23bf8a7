import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { plotSvg } from '../../bench/plot.ts';
import { numbersIn, tablesOf } from '../../bench/tables.ts';
import { performancePlots } from '../../scripts/reference/plots.ts';

const page = `# Page

## Drains
Text | with a bar.

\`\`\`
one: a title

         runs  deleted s         requests/pod
  ours   2     3.87 (3.84..3.91)  1,234
  floor  1                        -
\`\`\`

| names | before |
|---|---|
| 1 name | 11 ms, alone |

## Others

| other |
|---|
`;

describe('the tables of a section', () => {
  test('are those in Markdown and those in blocks of text, with cells by column', () => {
    expect(tablesOf(page, 'Drains')).toEqual([
      [{ names: '1 name', before: '11 ms, alone' }],
      [
        { '': 'ours', runs: '2', 'deleted s': '3.87 (3.84..3.91)', 'requests/pod': '1,234' },
        { '': 'floor', runs: '1', 'deleted s': '', 'requests/pod': '-' },
      ],
    ]);
    expect(() => tablesOf(page, 'Peers')).toThrow('docs/performance.md has no section "Peers"');
  });

  test.each([
    ['3.87 (3.84..3.91)', [3.87, 3.84, 3.91]],
    ['1,234 of 12,000, and 5', [1_234, 12_000, 5]],
    ['-', []],
    [undefined, []],
  ])('have numbers: %s', (cell, numbers) => {
    expect(numbersIn(cell?.replace('..', ' '))).toEqual(numbers);
  });
});

describe('the plots of docs/performance.md', () => {
  const performance = readFileSync(new URL('../../docs/performance.md', import.meta.url), 'utf8');

  test('show each number of the compared drains', () => {
    const drains = performancePlots(performance).find(({ name }) => name === 'drains')?.content ?? '';
    const texts = [...drains.matchAll(/<text[^>]*>([^<]*)</g)].map(([, text]) => text);
    const [first = []] = tablesOf(performance, 'Drains');
    const shown = first.map((row) => numbersIn(row['deleted s'])[0]?.toPrecision(3)).map(Number);
    expect(shown.length).toBeGreaterThan(2);
    expect(texts).toEqual(expect.arrayContaining(shown.map((value) => value.toLocaleString('en'))));
  });

  test('are the same, byte for byte, however many were drawn before', () => {
    const first = performancePlots(performance);
    expect(performancePlots(performance)).toEqual(first);
  });

  test('have no script, and the colors of light and dark', () => {
    const svg = plotSvg('A title', [
      {
        title: 'one',
        kind: 'Lines',
        x: ['1', '2'],
        series: [{ name: 's', values: [{ value: 3 }, undefined] }],
      },
    ]);
    expect(svg).toMatch(/^<svg width="960" height="330" role="img" aria-label="A title" [^]*<\/svg>\n$/);
    expect(svg).toContain('@media (prefers-color-scheme:dark)');
    expect(svg).not.toMatch(/<script|NaN|undefined|zr\d/);
  });
});
