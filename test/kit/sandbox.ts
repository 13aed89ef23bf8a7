import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { attachSandbox, type Sandbox, type SandboxOptions, startSandbox } from '../../sandbox/sandbox.ts';

/** Flags by which the apiserver of a sandbox serves lifecycle.k8s.io; they also contain the other gates of the sandbox. */
export const evictionRequestFlags = ['--feature-gates', '--runtime-config'];

/** Sandboxes that this file started, by directory: `releaseSandbox` stops no other. */
const own = new Set<string>();

/**
 * The directory of the running sandbox that all test files of this shard share. Jest numbers the processes of a run from 1;
 * each runs one file after the other.
 */
function sharedDir(): string | undefined {
  const parent = process.env['NM_TEST_SANDBOXES'];
  return parent ? join(parent, process.env['JEST_WORKER_ID'] ?? '1') : undefined;
}

/**
 * Returns a sandbox for a test file: the shared one, or one of its own in a temporary directory if there is none or the
 * file needs special `options`. Add nodes with `addNodes`, named after the file.
 */
export async function testSandbox(options?: Omit<SandboxOptions, 'dir'>): Promise<Sandbox> {
  const shared = sharedDir();
  if (shared !== undefined && !options) return withCompileCache(await attachSandbox(shared));
  const dir = await mkdtemp(join(tmpdir(), 'nm-sandbox-'));
  try {
    const sandbox = await startSandbox({ ...runOptions(), ...options, dir });
    own.add(sandbox.dir);
    return withCompileCache(sandbox);
  } catch (error) {
    await rm(dir, { recursive: true, force: true });
    throw error;
  }
}

/** The options that the run of tests sets for all its sandboxes. */
export function runOptions(): Pick<SandboxOptions, 'commands' | 'auditLogs' | 'kubernetes'> {
  const { NM_TEST_COMMANDS, NM_AUDIT_LOGS, NM_TEST_KUBERNETES } = process.env;
  return { commands: NM_TEST_COMMANDS, auditLogs: NM_AUDIT_LOGS, kubernetes: NM_TEST_KUBERNETES };
}

/** Hands on the cache of compiled code that `npm test` gives all its processes: programs of the sandbox start in half the time. */
function withCompileCache(sandbox: Sandbox): Sandbox {
  const cache = process.env['NODE_COMPILE_CACHE'];
  return cache ? { ...sandbox, env: { ...sandbox.env, NODE_COMPILE_CACHE: cache } } : sandbox;
}

/** Returns whether other test files use the sandbox too. */
export function isShared({ dir }: Sandbox): boolean {
  return !own.has(dir);
}

/** Stops a sandbox and removes its directory, if this file started it. */
export async function releaseSandbox(sandbox: Sandbox | undefined): Promise<void> {
  if (!sandbox || !own.delete(sandbox.dir)) return;
  await sandbox.discard();
}
