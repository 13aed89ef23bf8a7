/** A table of a page in Markdown: cells by the title of their column. The column of the names of rows may have the title ''. */
export type Table = readonly Readonly<Record<string, string>>[];

/** Returns the tables of the section with this heading, in order: those in Markdown, and those in blocks of text, whose columns are aligned. */
export function tablesOf(page: string, heading: string): Table[] {
  const lines = page.split('\n');
  const start = lines.findIndex((line) => /^#+ /.test(line) && line.replace(/^#+ /, '') === heading);
  if (start === -1)
    throw new Error(`docs/performance.md has no section "${heading}": adapt scripts/reference/plots.ts`);
  const rest = lines.slice(start + 1);
  const end = rest.findIndex((line) => /^#+ /.test(line));
  const section = rest.slice(0, end === -1 ? rest.length : end);
  return [...markdownTables(section), ...textTables(section)];
}

function markdownTables(lines: readonly string[]): Table[] {
  return blocks(lines, (line) => line.startsWith('|')).map(([titles = '', , ...rows]) => {
    const names = cellsOf(titles);
    return rows.map((row) =>
      Object.fromEntries(cellsOf(row).map((cell, index) => [names[index] ?? '', cell])),
    );
  });
}

function cellsOf(line: string): string[] {
  return line
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim());
}

/** Reads the tables of blocks of text, in which each row of titles is indented further than what is above it, and the rows end with an empty line. */
function textTables(lines: readonly string[]): Table[] {
  const fences = lines.flatMap((line, index) => (line.startsWith('```') ? [index] : []));
  const inside = lines.filter((_, index) => fences.filter((fence) => fence < index).length % 2 === 1);
  return blocks(inside, (line) => /^ {2,}\S.* {2,}\S/.test(line)).map(([titles = '', ...rows]) => {
    const columns = [...titles.matchAll(/\S+(?: \S+)*/g)].map(({ 0: name, index }) => ({ name, index }));
    return rows.map((row) => {
      requireAligned(row, columns);
      const cells = columns.map(({ name, index }, i) => [
        name,
        row.slice(index, columns[i + 1]?.index).trim(),
      ]);
      return Object.fromEntries([['', row.slice(0, columns[0]?.index).trim()], ...cells]);
    });
  });
}

/** A row that is shifted by one character would lose digits, or have the figures of another column. */
function requireAligned(row: string, columns: readonly { name: string; index: number }[]): void {
  const shifted = columns.find(
    ({ index }, i) =>
      /^\S/.test(row.slice(index - 1)) || /^ +\S/.test(row.slice(index, columns[i + 1]?.index)),
  );
  if (shifted !== undefined)
    throw new Error(`docs/performance.md: "${row.trim()}" is not aligned with its column "${shifted.name}"`);
}

function blocks(lines: readonly string[], isPart: (line: string) => boolean): string[][] {
  const found: string[][] = [];
  lines.forEach((line, index) => {
    if (!isPart(line)) return;
    if (index > 0 && isPart(lines[index - 1] ?? '')) found.at(-1)?.push(line);
    else found.push([line]);
  });
  return found;
}

/** Returns the numbers of a cell, without separators of thousands: `3.87 (3.84..3.91)` has three. */
export function numbersIn(cell: string | undefined): number[] {
  return (
    (cell ?? '')
      .match(/\d[\d,]*(?:\.\d+)?/g)
      ?.map((text) => Number(text.replaceAll(/,(?=\d{3})/g, '').replace(/,$/, ''))) ?? []
  );
}
