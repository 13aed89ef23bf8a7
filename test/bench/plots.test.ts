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

         runs  deleted s          requests/pod
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

  test('are refused if a row of text is shifted, because its figures would be of other columns', () => {
    const shifted = page.replace('ours   2     3.87', 'ours   2    3.87');
    expect(() => tablesOf(shifted, 'Drains')).toThrow('is not aligned with its column "deleted s"');
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

  test.each([
    {
      name: 'budget',
      heading: 'One PodDisruptionBudget',
      columns: ['deleted s', 'longest wait s', 'p99 wait s'],
    },
    { name: 'parts', heading: 'Parts of a drain', columns: ['after'] },
  ])('show the figures of $heading', ({ name, heading, columns }) => {
    const content = performancePlots(performance).find((plot) => plot.name === name)?.content ?? '';
    const cells = tablesOf(performance, heading).flatMap((table) =>
      table.flatMap((row) => columns.map((column) => row[column])),
    );
    // A plot may show milliseconds in microseconds.
    const shown = (value: number) =>
      [value, value * 1_000].some((one) =>
        content.includes(`>${Number(one.toPrecision(3)).toLocaleString('en')}<`),
      );
    const numbers = cells.flatMap((cell) => numbersIn(cell).slice(0, 1));
    expect(numbers.length).toBeGreaterThan(3);
    expect(numbers.filter((value) => !shown(value))).toEqual([]);
  });

  test('of the page are all shown on it, with a description', () => {
    const images = [...performance.matchAll(/^!\[(.+)\]\(images\/performance-(.+)\.svg\)$/gm)];
    expect(images.map(([, , name]) => name)).toEqual(performancePlots(performance).map(({ name }) => name));
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
