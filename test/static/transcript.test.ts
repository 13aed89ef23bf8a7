import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { isAsShown, partsOf } from '../kit/transcript.ts';

/** The letters and digits from which Kubernetes generates names. */
const generated = (length: { minLength: number; maxLength: number }) =>
  fc.string({ ...length, unit: fc.constantFrom(...'bcdfghjklmnpqrstvwxz2456789'.split('')) });
const podName = fc
  .tuple(fc.constantFrom('db', 'web', 'node-agent'), generated({ minLength: 6, maxLength: 10 }))
  .chain(([app, hash]) =>
    generated({ minLength: 5, maxLength: 5 }).map((suffix) => ({ app, name: `${app}-${hash}-${suffix}` })),
  );
const duration = fc.oneof(
  fc.nat(5_000).map((seconds) => `${seconds}s`),
  fc.nat(600).map((tenths) => `${tenths / 10}s`),
  fc.tuple(fc.nat(300), fc.nat(59)).map(([minutes, seconds]) => `${minutes}m${seconds}s`),
  fc.nat(300).map((minutes) => `${minutes}m`),
  fc.tuple(fc.nat(30), fc.nat(59)).map(([hours, minutes]) => `${hours}h${minutes}m`),
);
const time = fc
  .date({ min: new Date('2020-01-01'), max: new Date('2090-01-01'), noInvalidDate: true })
  .map((date) => date.toISOString());
const hex = (length: number) =>
  fc.string({ minLength: length, maxLength: length, unit: fc.constantFrom(...'0123456789abcdef'.split('')) });

describe('a transcript and the output of another run are equal when they differ only', () => {
  test('in the generated names of pods, whatever they look like', () => {
    fc.assert(
      fc.property(podName, generated({ minLength: 5, maxLength: 5 }), ({ app, name }, suffix) => {
        const shown = `  shop/${app}-58bd6f6477-${suffix}   node-1   eviction`;
        expect(isAsShown([shown], `  shop/${name} node-1 eviction\n`)).toBe(true);
      }),
    );
  });

  test.each(['db-6444994675-7952m', 'db-6444994675-7952s', 'db-64449467-2b4c6', 'db-24682468-5h45m'])(
    'in the generated name of a pod: %s',
    (name) => {
      const line = (pod: string) => `waiting for shop/${pod} on node-1`;
      expect(isAsShown([line('db-58bd6f6477-znnhp')], line(name))).toBe(true);
    },
  );

  test('in times, durations, processes, holders and UIDs', () => {
    const facts = fc.record({ time, duration, pid: fc.nat(99_999), holder: hex(8), uid: fc.uuid() });
    const line = ({ time: at, duration: age, pid, holder, uid }: Record<string, unknown>) =>
      `${at} Drain for ${age}, asked by ${pid}@vm.example.com (holder ${holder}, ${uid}, ${age})`;
    fc.assert(
      fc.property(facts, facts, (one, other) => expect(isAsShown([line(one)], line(other))).toBe(true)),
    );
  });

  test('in the width of columns, and in lines that the document leaves out', () => {
    expect(isAsShown(['NAME    AGE', '...', 'last'], 'NAME AGE\nmany\nmore\nlast\n')).toBe(true);
  });
});

test.each([
  { shown: ['3 of 3 pods'], output: '2 of 3 pods' },
  { shown: ['shop/db-58bd6f6477-znnhp'], output: 'shop/web-58bd6f6477-znnhp' },
  { shown: ['stage Drain'], output: 'stage Drain\nand more' },
  { shown: ['stage Drain', 'and more'], output: 'stage Drain' },
  { shown: ['node-1 is drained'], output: 'node-2 is drained' },
  { shown: ['Drain for 5s'], output: 'Drain for ever' },
])('everything else makes them differ: $shown and $output', ({ shown, output }) => {
  expect(isAsShown(shown, output)).toBe(false);
});

test('a document is read as commands with their outputs, and as named files', () => {
  const markdown = [
    '# Title',
    '```console',
    '$ a \\',
    '    b',
    'out',
    '$ c',
    '```',
    '```yaml',
    '# f.yaml',
    'x: 1',
    '```',
  ];
  expect(partsOf(markdown.join('\n'))).toEqual([
    { step: { line: 3, command: 'a \\\n    b', output: ['out'] } },
    { step: { line: 6, command: 'c', output: [] } },
    { listing: { name: 'f.yaml', text: '# f.yaml\nx: 1' } },
  ]);
});
