#!/usr/bin/env node
/** kubectl maintenance: the plugin `kubectl-maintenance` on PATH, which runs with the first `node` on PATH. */

const { node: version } = process.versions;
const [major = 0, minor = 0] = version.split('.').map(Number);

// An older version fails to load the imports of the program, without a clear error.
if (major < 22 || (major === 22 && minor < 19)) {
  console.error(`error: Node.js 22.19 or newer is required (got ${version}): put it first on PATH`);
  process.exitCode = 1;
} else {
  const { run } = await import('./program.ts');
  process.exitCode = await run(process.argv.slice(2));
}
