import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { attachSandbox, type Sandbox, type SandboxOptions, startSandbox } from '../../sandbox/sandbox.ts';

/** Names the directory of a running sandbox that every test file may use; without it each starts its own. */
const sharedDirVariable = 'NM_TEST_SANDBOX_DIR';

/** Directories of the sandboxes that `testSandbox` started, so that `releaseSandbox` ends no other. */
const own = new Set<string>();

/**
 * A sandbox for a test file: the shared one, or one of its own in a temporary directory when there is none, or when the
 * file needs it to be made in its own way (`options`). Nodes are added by `addNodes`: name them after the file.
 */
export async function testSandbox(options?: Omit<SandboxOptions, 'dir'>): Promise<Sandbox> {
  const shared = process.env[sharedDirVariable];
  if (shared && !options) return attachSandbox(shared);
  const dir = await mkdtemp(join(tmpdir(), 'nm-sandbox-'));
  try {
    const sandbox = await startSandbox({ ...options, dir });
    own.add(sandbox.dir);
    return sandbox;
  } catch (error) {
    await rm(dir, { recursive: true, force: true });
    throw error;
  }
}

/** Stops a sandbox and removes its directory, if it was started by this file. */
export async function releaseSandbox(sandbox: Sandbox | undefined): Promise<void> {
  if (!sandbox || !own.delete(sandbox.dir)) return;
  await sandbox.discard();
}
