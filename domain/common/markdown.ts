import { cut, oneLine } from './text.ts';

/** Helpers for the Markdown of workflows. The Temporal UI sends it as part of a URL, and a proxy may reject a long URL. */

/** Proxies accept URLs of 8 KiB. */
const maxUrlLength = 7_500;

/** Returns the length of the text in a URL, where a character is itself, `%20`, or for example `%E2%80%83`. */
export function urlLength(text: string): number {
  const count = (pattern: RegExp) => text.match(pattern)?.length ?? 0;
  return text.length + 2 * count(/[^\w.!~*'()-]/g) + 6 * count(/[^\0-\x7F]/g);
}

/** Returns user-provided text as one line, escaped so that it is no Markdown, HTML or template of the UI. */
export function plain(text: string, maxLength = 300): string {
  return oneLine(text, maxLength).replaceAll(/[\\`*_{}[\]<>#|~$&]/g, String.raw`\$&`);
}

/** A command with the longest name of an object. */
const maxCodeLength = 500;

/** Renders text as code on one line, also in a table. A backtick would end the code, and a pipe the cell. */
export function code(text: string): string {
  const line = oneLine(text, maxCodeLength).replaceAll('`', "'").replaceAll('|', '¦');
  return `\`${line || '-'}\``;
}

/** An em space, because tables of the UI have no padding between columns. */
const gap = '\u2003| ';

/** Renders a table whose cells are Markdown. Returns no lines without rows. */
export function table(titles: readonly string[], rows: readonly (readonly string[])[]): string[] {
  if (rows.length === 0) return [];
  const line = (cells: readonly string[]) => `| ${cells.join(gap)} |`;
  return [line(titles), `|${titles.map(() => ':--').join('|')}|`, ...rows.map(line)];
}

/** Renders a link to a workflow in the current namespace. */
export function runLink(text: string, workflowId: string): string {
  // Relative to the URL at which the UI renders Markdown, wherever the UI is mounted. The UI fills in the namespace.
  return `[${plain(text)}](namespaces/{namespace}/workflows/${encoded(workflowId)})`;
}

/** Encodes all that ends a link in Markdown, too. */
function encoded(part: string): string {
  return encodeURIComponent(oneLine(part, maxCodeLength)).replaceAll(
    /[!'()*~_]/g,
    (one) => `%${one.charCodeAt(0).toString(16)}`,
  );
}

/** Formats an RFC 3339 time as `2026-11-21 23:05:10 UTC`. Returns any other text unchanged. */
export function utc(time: string): string {
  const [, day, hour] = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z$/.exec(time) ?? [];
  return day === undefined ? plain(time) : `${day} ${hour} UTC`;
}

/** Renders a section. Returns no lines for a section without content. */
export function section(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : ['', `#### ${title}`, '', ...lines];
}

/** The most characters of a URL that one character of text needs. */
const maxUrlLengthPerCharacter = 9;

/** Renders as many rows, up to `maxRows`, as fit into the URL. Truncates the text if it does not fit even without rows. */
export function fitRows(maxRows: number, render: (rows: number) => readonly string[]): string {
  for (let rows = maxRows; rows >= 0; rows--) {
    const text = render(rows).join('\n');
    if (urlLength(text) <= maxUrlLength) return text;
  }
  return cut(render(0).join('\n'), maxUrlLength / maxUrlLengthPerCharacter);
}
