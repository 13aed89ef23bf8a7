#!/usr/bin/env node
/** kubectl maintenance: the plugin that kubectl finds as `kubectl-maintenance` on PATH, and runs by the `node` that is there. */

const { node: version } = process.versions;
const [major = 0, minor = 0] = version.split('.').map(Number);

// An older one fails while it loads what the program imports, and does not say why.
if (major < 22 || (major === 22 && minor < 19)) {
  console.error(`error: Node 22.19 or newer is needed (got ${version}): put one first on PATH`);
  process.exitCode = 1;
} else {
  const { run } = await import('./program.ts');
  process.exitCode = await run(process.argv.slice(2));
}
