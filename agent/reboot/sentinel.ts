import { open, stat } from 'node:fs/promises';
import { sentinelReason } from '../../domain/reboot/agent.ts';

/** Long lists of packages are cut. */
const maxBytes = 64 * 1024;

/**
 * Returns why the host needs a reboot, or undefined if the sentinel file does not exist. Debian and Ubuntu list the packages that require it in a file
 * beside the sentinel.
 */
export async function readSentinel(path: string): Promise<string | undefined> {
  try {
    await stat(path);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  return sentinelReason(path, await startOf(`${path}.pkgs`));
}

/** Returns the first part of a file; nothing if it cannot be read. */
async function startOf(path: string): Promise<string> {
  try {
    await using file = await open(path);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(maxBytes), 0, maxBytes, 0);
    return buffer.toString('utf8', 0, bytesRead);
  } catch {
    return '';
  }
}

function isMissing(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ENOTDIR';
}
