/** A sentence of a KEP, and the heading above it. */
export interface SpecifiedSentence {
  readonly section: string;
  readonly sentence: string;
}

/** Lines of Go and YAML, most of them without fences: indented ones, and those that start like code. */
const code =
  /^(\s|```|(type|const|apiVersion|kind|metadata|spec|status)\b(?!\s*\w+ \w+ \w+)|[)}]|---|\.\.\.$|\w+ \w+ = |[\w./]+: "|<!--|-->)/;
const listItem = /^(?:\s*(?:[•*]|\d+\.)|-)\s+(.*)$/;
const comment = /^\s*\/\/\s?(.*)$/;
const listItemOfComment = /^(?:-|\d+\.)\s+(.*)$/;
/** Directives of code generators, entries of an example inside a comment, and captions of one word. */
const noSentence = /^(\+\w+|\s*(- )?pod\w+: .*|\w+:)$/;
/** A sentence ends before a capital letter, a field path or a field name; an abbreviation does not end one. */
const endOfSentence =
  /(?<=[.!?][")]?)(?<!\b(?:e\.g|i\.e|etc)\.)(?<!\.\.\.) (?=["(]?[A-Z]|\.[a-z]|[a-z]+[A-Z])/;

/** Returns the sentences of a paragraph in one form: white space, quotation marks, links and emphasis of Markdown do not count. */
export function sentencesOf(paragraph: string): string[] {
  const text = paragraph
    .replaceAll(/<<\[[^\]]*\]>>/g, '')
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/[“”]/g, '"')
    .replaceAll(/[`*]/g, '')
    .replaceAll(/\s+/g, ' ')
    .trim();
  return text === '' ? [] : text.split(endOfSentence);
}

/**
 * Returns the sentences of a KEP in order. `headings` are those of a text that does not mark them with `#`. A list item starts a sentence, as a
 * paragraph does; comments of Go code are text, other code is not.
 */
export function specifiedSentences(text: string, headings: readonly string[] = []): SpecifiedSentence[] {
  const found: SpecifiedSentence[] = [];
  let section = '';
  let paragraph = '';
  const endParagraph = () => {
    for (const sentence of sentencesOf(paragraph)) found.push({ section, sentence });
    paragraph = '';
  };
  for (const line of text.split('\n')) {
    const heading = headings.includes(line) ? line : /^#+ (.*)$/.exec(line)?.[1];
    const { words, startsItem } = wordsOf(line);
    if (heading !== undefined || startsItem || words === '') endParagraph();
    if (heading !== undefined) section = heading;
    else if (!noSentence.test(words)) paragraph += ` ${words}`;
  }
  endParagraph();
  return found;
}

function wordsOf(line: string): { words: string; startsItem: boolean } {
  const commented = comment.exec(line)?.[1];
  const item = commented === undefined ? listItem.exec(line) : listItemOfComment.exec(commented);
  if (item !== null) return { words: item[1] ?? '', startsItem: true };
  return { words: commented ?? (code.test(line) ? '' : line), startsItem: false };
}
