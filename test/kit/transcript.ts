import { hostname } from 'node:os';

/** A command of a document and the output that the document shows for it. */
export interface Step {
  /** Line in the document, from 1. */
  readonly line: number;
  /** Input for a shell; a line that ends in a backslash continues on the next. */
  readonly command: string;
  /** Lines of the output; `...` stands for any number of lines. */
  readonly output: readonly string[];
}

/** A file that a document shows: a YAML block whose first line is `# <name>`. */
export interface Listing {
  readonly name: string;
  readonly text: string;
}

export type Part = { readonly step: Step } | { readonly listing: Listing };

/** Returns the `console` blocks and the named `yaml` blocks of a Markdown document, in order. */
export function partsOf(markdown: string): Part[] {
  const lines = markdown.split('\n');
  const parts: Part[] = [];
  for (let at = 0; at < lines.length; at++) {
    const [, language] = /^```(console|yaml)$/.exec(lines[at] ?? '') ?? [];
    if (language === undefined) continue;
    const end = lines.indexOf('```', at + 1);
    const block = lines.slice(at + 1, end);
    if (language === 'console') parts.push(...stepsOf(block, at + 2).map((step) => ({ step })));
    else parts.push(...listingsOf(block));
    at = end;
  }
  return parts;
}

function stepsOf(block: readonly string[], first: number): Step[] {
  const steps: { line: number; command: string; output: string[] }[] = [];
  for (const [index, text] of block.entries()) {
    const last = steps.at(-1);
    if (text.startsWith('$ ')) steps.push({ line: first + index, command: text.slice(2), output: [] });
    else if (last === undefined)
      throw new Error(`line ${first + index}: a console block starts with a command ($ ...)`);
    else if (last.output.length === 0 && last.command.endsWith('\\')) last.command += `\n${text}`;
    else last.output.push(text);
  }
  return steps;
}

function listingsOf(block: readonly string[]): { listing: Listing }[] {
  const [, name] = /^# (\S+\.yaml)$/.exec(block[0] ?? '') ?? [];
  return name === undefined ? [] : [{ listing: { name, text: block.join('\n') } }];
}

/** Replaces everything that differs from run to run by a placeholder, in both texts. The order counts. */
const placeholders: [RegExp, string][] = [
  [/\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?/g, 'TIME'],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g, 'UUID'],
  // A generated name first: its hash can look like a holder, its suffix like a duration (`-7952m`).
  [/-[a-z0-9]{6,10}-[a-z0-9]{5}\b/g, '-POD'],
  [/\b\d+@[\w.-]+/g, 'PROCESS'],
  [/\b[0-9a-f]{8}\b/g, 'HOLDER'],
  // As a word of its own, not as a part of a name.
  [
    /(?<![\w-])(?:(?:\d+d)?(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?s|(?:\d+d)?(?:\d+h)?\d+m|(?:\d+d)?\d+h)(?![\w-])/g,
    'DURATION',
  ],
  // One of several pods is named: whichever comes first.
  [/\bnode-\d+ and (\d+) more/g, 'NODE and $1 more'],
  // Columns are as wide as their widest cell.
  [/ +/g, ' '],
];

function comparable(line: string): string {
  const named = line.replaceAll(new RegExp(`\\b${hostname()}\\b`, 'g'), 'vm');
  return placeholders.reduce((text, [pattern, name]) => text.replaceAll(pattern, name), named).trimEnd();
}

/** Compares an output with what a document shows, except for what differs from run to run. */
export function isAsShown(shown: readonly string[], output: string): boolean {
  return matches(shown.map(comparable), linesOf(output).map(comparable));
}

function linesOf(output: string): string[] {
  const text = output.replace(/\n$/, '');
  return text === '' ? [] : text.split('\n');
}

function matches(shown: readonly string[], lines: readonly string[]): boolean {
  const [first, ...rest] = shown;
  if (first === undefined) return lines.length === 0;
  if (first !== '...') return first === lines[0] && matches(rest, lines.slice(1));
  return lines.some((_, index) => matches(rest, lines.slice(index))) || rest.length === 0;
}
