import fc from 'fast-check';

/** Returns the characters of a range of code points. */
const charactersOf = (min: number, max: number) =>
  fc.integer({ min, max }).map(
    (codePoint) => String.fromCodePoint(codePoint),
    (text) => (text as string).codePointAt(0) ?? -1,
  );

/** Any code point, except halves of surrogate pairs. The planes that are hardly used do not crowd out the others. */
const character = fc.oneof(
  charactersOf(0x20, 0x7e),
  charactersOf(0x00, 0x1f),
  charactersOf(0x7f, 0x9f),
  charactersOf(0xa0, 0xd7ff),
  charactersOf(0xe000, 0xffff),
  charactersOf(0x10000, 0x10ffff),
  // Format characters, and other ends of lines.
  fc.constantFrom('\u{ad}', '\u{200b}', '\u{2028}', '\u{2029}', '\u{202e}', '\u{feff}', '\u{e0041}'),
);

/** Any text. What `fc.string({ unit: 'binary' })` is for, which takes seconds to prepare, in each test file again. */
export function anyText(constraints: { maxLength?: number } = {}): fc.Arbitrary<string> {
  return fc.string({ unit: character, ...constraints });
}
