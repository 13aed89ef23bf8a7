import { existsSync } from 'node:fs';
import { createRequire, enableCompileCache, registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';

/**
 * Starts the worker with what scripts/prebuild.ts has prepared: compiled code, and the Kubernetes client in one module instead of 868.
 * Together they halve the time of the imports, which therefore follow afterwards.
 */

const prepared = new URL('../node_modules/.cache/node-maintenance/', import.meta.url);
// Temporal's threads find the directory in the environment.
process.env['NODE_COMPILE_CACHE'] ??= fileURLToPath(new URL('compiled', prepared));
enableCompileCache(process.env['NODE_COMPILE_CACHE']);

const clientPackage = '@kubernetes/client-node';
const { version } = createRequire(import.meta.url)(`${clientPackage}/package.json`) as { version: string };
const client = new URL(`kubernetesClient-${version}.mjs`, prepared);
if (existsSync(client)) {
  registerHooks({
    resolve: (specifier, context, nextResolve) =>
      nextResolve(specifier === clientPackage ? client.href : specifier, context),
  });
}

await import('./main.ts');
