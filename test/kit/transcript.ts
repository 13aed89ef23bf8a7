import { hostname } from 'node:os';

/** A command as a document shows it, and what it prints. */
export interface Step {
  /** Line of the document, from 1. */
  readonly line: number;
  /** For a shell; several lines where they end in a backslash. */
  readonly command: string;
  /** Lines of its output; `...` stands for any. */
  readonly output: readonly string[];
}

/** A file that a document shows: a block whose first line is `# <name>`. */
export interface Listing {
  readonly name: string;
  readonly text: string;
}

export type Part = { readonly step: Step } | { readonly listing: Listing };

/** The blocks `console` and named blocks `yaml` of a document in Markdown, in their order. */
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
    else if (last === undefined) throw new Error(`line ${first + index}: a block begins with a command`);
    else if (last.output.length === 0 && last.command.endsWith('\\')) last.command += `\n${text}`;
    else last.output.push(text);
  }
  return steps;
}

function listingsOf(block: readonly string[]): { listing: Listing }[] {
  const [, name] = /^# (\S+\.yaml)$/.exec(block[0] ?? '') ?? [];
  return name === undefined ? [] : [{ listing: { name, text: block.join('\n') } }];
}

/** What differs from run to run, and how it is written in both texts that are compared. */
const variable: [RegExp, string][] = [
  [/\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?/g, 'TIME'],
  [/\b(\d+d)?(\d+h)?(\d+m)?\d+(\.\d+)?s\b|\b\d+m\b/g, 'DURATION'],
  [/\b\d+@[\w.-]+/g, 'PROCESS'],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g, 'UUID'],
  [/\b[0-9a-f]{8}\b/g, 'HOLDER'],
  [/-[a-z0-9]{6,10}-[a-z0-9]{5}\b/g, '-POD'],
  // Of several, whichever comes first.
  [/\bnode-\d+ and (\d+) more/g, 'NODE and $1 more'],
  // Columns are as wide as their widest cell.
  [/ +/g, ' '],
];

function comparable(line: string): string {
  const named = line.replaceAll(new RegExp(`\\b${hostname()}\\b`, 'g'), 'vm');
  return variable.reduce((text, [pattern, name]) => text.replaceAll(pattern, name), named).trimEnd();
}

/** Whether an output is what a document shows, but for what differs from run to run. */
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
