import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Toolchain } from './binaries.ts';
import { type Layout, writePrivate } from './layout.ts';

/**
 * Fills the sandbox's bin directory with links to the binaries and with the kubectl plugin: the bundled `commands`, or those of the
 * source.
 */
export function linkBinaries(layout: Layout, toolchain: Toolchain, commands: string | undefined): void {
  rmSync(layout.bin, { recursive: true, force: true });
  mkdirSync(layout.bin, { mode: 0o700 });
  for (const [name, path] of Object.entries(toolchain)) symlinkSync(path, join(layout.bin, name));
  for (const [name, command] of Object.entries(plugin))
    writeFileSync(join(layout.bin, name), pluginScript(command, commands), { mode: 0o700 });
}

/** The same commands as in cli/package.json. */
const plugin = { 'kubectl-maintenance': 'main', 'kubectl_complete-maintenance': 'completion/complete' };

/** Runs a command of cli/ with this process's Node: the one on PATH may be too old. */
function pluginScript(command: string, commands: string | undefined): string {
  const source = join(import.meta.dirname, '..', 'cli', `${command}.ts`);
  const main = commands === undefined ? source : join(commands, `${command}.js`);
  return `#!/bin/sh\nexec ${quoted(process.execPath)} ${quoted(main)} "$@"\n`;
}

/** Writes the shell file for `. .sandbox/env`. */
export function writeShellFile(layout: Layout, variables: Readonly<Record<string, string>>): void {
  const lines = Object.entries(variables).map(([name, value]) => `export ${name}=${quoted(value)}`);
  lines.push(`export PATH=${quoted(layout.bin)}:"$PATH"`, '');
  writePrivate(layout.env, lines.join('\n'));
}

/** Quotes a text for a shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
