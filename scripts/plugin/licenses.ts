import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../tools.ts';

/** The folder of the package that a file belongs to. */
const packagePattern = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/;
const licenseFile = /^(licen[cs]e|copying|notice)/i;

/** Returns the licenses of everything that an executable contains, from the files that were bundled. */
export function licensesOf(files: readonly string[]): string {
  const folders = new Set(files.flatMap((file) => packagePattern.exec(file)?.[0] ?? []));
  const node = `Node.js ${process.version}\nhttps://github.com/nodejs/node/blob/${process.version}/LICENSE\n`;
  return [node, ...[...folders].toSorted().map(licenseOf)].join(`\n${'-'.repeat(80)}\n\n`);
}

function licenseOf(folder: string): string {
  const file = join(root, folder, 'package.json');
  const { name, version, license } = JSON.parse(readFileSync(file, 'utf8')) as Record<string, string>;
  const texts = existsSync(join(root, folder)) ? licenseFilesIn(join(root, folder)) : [];
  return [
    `${name} ${version}\n${license ?? ''}\n`,
    ...texts.map((text) => readFileSync(join(root, folder, text), 'utf8')),
  ].join('\n');
}

/** Some packages have a folder for the licenses of what they contain. */
function licenseFilesIn(folder: string): string[] {
  const found = readdirSync(folder, { withFileTypes: true }).filter(({ name }) => licenseFile.test(name));
  return found.flatMap((entry) =>
    entry.isDirectory()
      ? readdirSync(join(folder, entry.name)).map((name) => join(entry.name, name))
      : [entry.name],
  );
}
