import stringWidth from 'string-width';

/** Text is measured in terminal columns: a wide character, such as an emoji, takes two, a combining mark none. */

const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' });

export { stringWidth as displayWidth };

/** Appends spaces up to the given number of columns. */
export function padTo(text: string, columns: number): string {
  return text + ' '.repeat(Math.max(0, columns - stringWidth(text)));
}

/** Cuts a text that is wider than the given number of columns, and ends it with an ellipsis. */
export function truncate(text: string, columns: number): string {
  if (stringWidth(text) <= columns) return text;
  return columns < 1 ? '' : `${splitAt(text, columns - 1)[0]}…`;
}

/** Breaks a text between words into lines of at most the given number of columns; a longer word is broken anywhere. */
export function wrap(text: string, columns: number): string[] {
  const lines: string[] = [''];
  for (const word of text.split(' ').flatMap((long) => piecesOf(long, columns))) {
    const last = lines.at(-1) ?? '';
    if (last === '') lines[lines.length - 1] = word;
    else if (stringWidth(last) + 1 + stringWidth(word) <= columns)
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

function piecesOf(word: string, columns: number): string[] {
  const pieces: string[] = [];
  for (let rest = word; rest !== ''; ) {
    const [piece, more] = splitAt(rest, columns);
    // A character that is wider than the line gets a line of its own.
    const [first = ''] = piece === '' ? [[...graphemes.segment(rest)][0]?.segment] : [piece];
    pieces.push(first);
    rest = piece === '' ? rest.slice(first.length) : more;
  }
  return pieces;
}

/** Splits a text into its beginning of at most the given number of columns, and the rest. */
function splitAt(text: string, columns: number): [string, string] {
  if (stringWidth(text) <= columns) return [text, ''];
  let width = 0;
  for (const { segment, index } of graphemes.segment(text)) {
    width += stringWidth(segment);
    if (width > columns) return [text.slice(0, index), text.slice(index)];
  }
  return [text, ''];
}
