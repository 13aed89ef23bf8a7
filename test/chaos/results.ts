import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { compareNames } from '../../domain/common/names.ts';
import type { RunResult } from './run.ts';
import type { EvictionApi } from './scenario.ts';

/** The recorded outcome of a run. */
export interface RecordedRun {
  evictionApi: EvictionApi;
  seed: number;
  faults: string[];
  evicted: number;
  /** Names of the invariants that it broke. */
  broken: string[];
}

export function recordOf(
  { seed, faults, evicted, violations }: RunResult,
  evictionApi: EvictionApi,
): RecordedRun {
  const broken = [...new Set(violations.map(({ invariant }) => invariant))];
  return { evictionApi, seed, faults, evicted, broken };
}

/** Adds results to a file; those of the same seed and API are replaced. */
export async function addResults(file: string, added: readonly RecordedRun[]): Promise<void> {
  const known = existsSync(file) ? (JSON.parse(await readFile(file, 'utf8')) as RecordedRun[]) : [];
  const replaced = new Set(added.map(keyOf));
  const all = [...known.filter((one) => !replaced.has(keyOf(one))), ...added].toSorted(
    (a, b) => compareNames(a.evictionApi, b.evictionApi) || a.seed - b.seed,
  );
  await writeFile(file, `${JSON.stringify(all, null, 2)}\n`);
}

function keyOf({ evictionApi, seed }: RecordedRun): string {
  return `${evictionApi} ${seed}`;
}
