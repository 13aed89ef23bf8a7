import { cut } from './text.ts';

/** Pages for the Temporal UI. It takes a page as part of an address, so that what stands between may refuse a long one. */

/** Characters of such an address: proxies take 8 KiB. */
const longestAddress = 7_500;

/** Characters that a page takes in an address: as they are, as `%20`, or as `%E2%80%83`. */
export function addressLength(page: string): number {
  const count = (pattern: RegExp) => page.match(pattern)?.length ?? 0;
  return page.length + 2 * count(/[^\w.!~*'()-]/g) + 6 * count(/[^\0-\x7F]/g);
}

/** What somebody wrote, as one line that no Markdown, HTML or template of the UI is made of. */
export function plain(text: string, longest = 300): string {
  const line = cut(text.replaceAll(/\s+/g, ' ').trim(), longest);
  return line.replaceAll(/[\\`*_{}[\]<>#|~$&]/g, String.raw`\$&`);
}

export function code(text: string): string {
  return `\`${text.replaceAll('`', "'")}\``;
}

/** The UI's tables have no room between their columns: an em space. */
const gap = '\u2003| ';

/** Cells are Markdown. Nothing at all without rows. */
export function table(titles: readonly string[], rows: readonly (readonly string[])[]): string[] {
  if (rows.length === 0) return [];
  const line = (cells: readonly string[]) => `| ${cells.join(gap)} |`;
  return [line(titles), `|${titles.map(() => ':--').join('|')}|`, ...rows.map(line)];
}

/** The page of a workflow run, by its id, in the namespace that is looked at. */
export function runLink(text: string, workflowId: string): string {
  // Relative to the page of the UI that shows Markdown, wherever the UI is mounted; it fills in the namespace.
  return `[${plain(text)}](namespaces/{namespace}/workflows/${encodeURIComponent(workflowId)})`;
}

/** `2026-11-21 23:05:10 UTC` of a time in RFC 3339; the rest of the text unchanged when it is none. */
export function utc(time: string): string {
  const [, day, hour] = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z$/.exec(time) ?? [];
  return day === undefined ? plain(time) : `${day} ${hour} UTC`;
}

/** A part of a page; nothing at all without lines. */
export function section(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : ['', `#### ${title}`, '', ...lines];
}

/** Of an address. */
const mostPerCharacter = 9;

/** The page with as many rows, of at most `most`, as leave it short enough; cut where even none does. */
export function fitted(most: number, pageWith: (rows: number) => readonly string[]): string {
  for (let rows = most; rows >= 0; rows--) {
    const page = pageWith(rows).join('\n');
    if (addressLength(page) <= longestAddress) return page;
  }
  return cut(pageWith(0).join('\n'), longestAddress / mostPerCharacter);
}
