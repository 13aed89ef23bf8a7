import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startSandbox } from '../../sandbox/sandbox.ts';
import type { EvictionApi } from './scenario.ts';
import { createTestbed, sandboxOptions, type Testbed } from './testbed.ts';

const startedAt = performance.now();

/** Prints a result. */
export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** Reports progress. */
export function log(line: string): void {
  process.stderr.write(`${((performance.now() - startedAt) / 1_000).toFixed(1).padStart(7)} s  ${line}\n`);
}

/** Aborts on SIGINT, SIGTERM and SIGHUP; the process ends only after the servers are stopped. */
export function interruption(): AbortSignal {
  const stop = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(name, () => stop.abort(new Error('Interrupted; everything is stopped again')));
  return stop.signal;
}

/** Starts a testbed, and stops its servers when `work` is done or has failed, unless `keep` then says that they are to be kept. */
export async function withTestbed(
  {
    evictionApi,
    keep = () => false,
    signal,
  }: { evictionApi: EvictionApi; keep?: () => boolean; signal: AbortSignal },
  work: (testbed: Testbed) => Promise<void>,
): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'node-maintenance-chaos-'));
  const served = await sandboxOptions(dir, evictionApi);
  const sandbox = await startSandbox({ dir, nodes: 1, ...served, report: log, signal });
  try {
    const testbed = await createTestbed(sandbox, served.auditLogs ?? '', evictionApi);
    try {
      await work(testbed);
    } finally {
      await testbed
        .close()
        .catch((error: unknown) => log(`The workers could not be stopped: ${String(error)}`));
    }
  } finally {
    if (keep()) log(`The servers keep running: npm run sandbox -- down --dir ${dir}`);
    else await sandbox.stop();
  }
  if (!keep()) await rm(dir, { recursive: true, force: true });
}
