import { copyFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { bundleCommands } from './bundle.ts';
import { writeApi } from './packages/api.ts';
import { writeLibrary } from './packages/library.ts';
import { root } from './tools.ts';

/** `npm run build [-- PACKAGE...]`: writes the folder dist/ of each package (ADR 52), by default of all. `npm pack` does so by itself. */

const packages: Record<string, (dist: string) => Promise<unknown> | void> = {
  api: writeApi,
  'evacuator-kit': (dist) => writeLibrary('evacuator-kit', dist),
  'node-lease': (dist) => writeLibrary('node-lease', dist),
  cli: bundleCommands,
};

async function main(chosen: readonly string[]): Promise<number> {
  const unknown = chosen.filter((name) => !(name in packages));
  if (unknown.length > 0) {
    console.error(`Unknown package ${unknown.join(' ')}: choose of ${Object.keys(packages).join(', ')}`);
    return 2;
  }
  for (const [name, write] of Object.entries(packages)) {
    if (chosen.length > 0 && !chosen.includes(name)) continue;
    const dist = join(root, name, 'dist');
    rmSync(dist, { recursive: true, force: true });
    await write(dist);
    copyFileSync(join(root, 'LICENSE'), join(dist, 'LICENSE'));
  }
  return 0;
}

process.exitCode = await main(process.argv.slice(2));
