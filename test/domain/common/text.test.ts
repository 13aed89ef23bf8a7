import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { code, plain } from '../../../domain/common/markdown.ts';
import { escapeUnprintable } from '../../../api/text.ts';
import { cut, hashed, joinedProblems, oneLine } from '../../../domain/common/text.ts';
import { hostileTexts, interpretedMarkdown, unprintable } from '../../kit/hostileText.ts';
import { anyText } from '../../kit/anyText.ts';

const texts = anyText({ maxLength: 300 });

describe('one line of a text', () => {
  test.each(hostileTexts)('with $what is printable and short', ({ text }) => {
    const line = oneLine(text, 200);
    expect(line).not.toMatch(unprintable);
    expect(line.length).toBeLessThanOrEqual(200);
  });

  test.each([
    { text: 'copied 3\n  of 5', want: 'copied 3 of 5' },
    { text: 'a\u001b[31mb\u202ec', want: String.raw`a\u001b[31mb\u202ec` },
    { text: 'x'.repeat(11), want: `${'x'.repeat(9)}…` },
    { text: `${'x'.repeat(8)}😀😀`, want: `${'x'.repeat(8)}…` },
    { text: 'Ärger, 语言, 😀', want: 'Ärger, 语言, 😀' },
  ])('of $text is $want', ({ text, want }) => {
    expect(oneLine(text, text.startsWith('x') ? 10 : 100)).toBe(want);
  });

  test('of any text is printable, short, and the same when taken again', () => {
    fc.assert(
      fc.property(texts, fc.integer({ min: 1, max: 50 }), (text, length) => {
        const line = oneLine(text, length);
        expect(line).not.toMatch(unprintable);
        expect(line.length).toBeLessThanOrEqual(length);
        expect(oneLine(line, length)).toBe(line);
      }),
    );
  });
});

test('escaping changes nothing but unprintable characters, and JSON reads the escapes', () => {
  fc.assert(
    fc.property(texts, (text) => {
      const escaped = escapeUnprintable(JSON.stringify(text));
      expect(escaped).not.toMatch(unprintable);
      expect(JSON.parse(escaped)).toBe(text);
    }),
  );
});

test('a cut text never ends with half a surrogate pair', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme', maxLength: 40 }),
      fc.integer({ min: 1, max: 40 }),
      (text, length) => {
        expect(cut(text, length).isWellFormed()).toBe(true);
      },
    ),
  );
});

/** Characters that begin a link, an image, HTML, code, emphasis, a cell or a template, unless they are escaped. */
const markdownSyntax = /[[\]<>`*_~|{}&$#\\]/;

describe('user-provided text in Markdown', () => {
  test.each(hostileTexts)('with $what is one line of plain text', ({ text }) => {
    const markdown = plain(text, 200);
    expect(markdown).not.toMatch(unprintable);
    expect(interpretedMarkdown(markdown)).not.toMatch(markdownSyntax);
    expect(markdown.length).toBeLessThanOrEqual(400);
  });

  test.each(hostileTexts)('with $what is code that nothing ends early', ({ text }) => {
    expect(code(text)).toMatch(/^`[^`|\n]+`$/);
    expect(code(text)).not.toMatch(unprintable);
    expect(code(text).length).toBeLessThanOrEqual(502);
  });
});

test('problems are joined to one line, which counts those that it does not contain', () => {
  expect(joinedProblems(['a: wrong', 'b: wrong'])).toBe('a: wrong; b: wrong');
  expect(joinedProblems([])).toBe('');
  const many = joinedProblems(Array.from({ length: 5_000 }, (_, index) => `nodes[${index}]: is there twice`));
  expect(many.length).toBeLessThanOrEqual(2_000);
  expect(many).toMatch(/; and \d+ more problems$/);
  expect(joinedProblems(['a\u001b[2J'.repeat(1_000)])).not.toMatch(unprintable);
});

// Of the test vectors of FNV-1a, 32 bit.
test.each([
  { text: '', want: '811c9dc5' },
  { text: 'a', want: 'e40c292c' },
  { text: 'foobar', want: 'bf9cf968' },
])('the hash of "$text" is $want', ({ text, want }) => {
  expect(hashed(text)).toBe(want);
});
