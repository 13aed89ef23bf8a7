import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { deployedNodeOptions, root, workerArguments } from './tools.ts';

/**
 * Prepares the start of the worker after `npm ci`, in node_modules/.cache: bundles its workflows, with traces and without, and the Kubernetes client,
 * and lets Node compile its code: with the arguments of `npm start`, and with the options of deploy/worker, because compiled code depends on them.
 * Without it, the first start is slow.
 *
 * Exits 1 if something cannot be prepared. An installation is complete nevertheless, so `npm ci` only shows why (`prepare` in package.json); the build of
 * an image runs this script after it, and fails.
 */

const modules = join(root, 'node_modules');
const directory = join(modules, '.cache', 'node-maintenance');

/** Needs esbuild, which an installation without development dependencies does not have; the client is loaded in parts then. */
async function bundleClient(): Promise<void> {
  const text = readFileSync(join(modules, '@kubernetes', 'client-node', 'package.json'), 'utf8');
  const { version } = JSON.parse(text) as { version: string };
  const { bundleKubernetesClient } = await import('./bundle.ts');
  await bundleKubernetesClient(join(directory, `kubernetesClient-${version}.mjs`));
}

/** Shows what the program has printed only if it fails: the worker logs to its standard output. */
function run(args: string[], env: NodeJS.ProcessEnv = {}): void {
  const { status, signal, stdout } = spawnSync(process.execPath, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
  });
  if (status === 0) return;
  const how = signal ?? `exit code ${status}`;
  process.stderr.write(
    `${stdout}node ${args.join(' ')}: ${how}: the first start of the worker will be slow\n`,
  );
  process.exit(1);
}

function isMissingModule(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND';
}

mkdirSync(directory, { recursive: true });
await bundleClient().catch((error: unknown) => {
  if (!isMissingModule(error)) throw error;
});
run([join(root, 'worker', 'keepBundle.ts')]);
run([...workerArguments(), '--help']);
run([...workerArguments(), '--help'], { NODE_OPTIONS: deployedNodeOptions() });
