import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import type { RunResult } from './run.ts';

/** The recorded outcome of a run. */
export interface RecordedRun {
  seed: number;
  faults: string[];
  evicted: number;
  /** Names of the invariants that it broke. */
  broken: string[];
}

export function recordOf({ seed, faults, evicted, violations }: RunResult): RecordedRun {
  return { seed, faults, evicted, broken: [...new Set(violations.map(({ invariant }) => invariant))] };
}

/** Adds results to a file; a seed that is in it already is replaced. */
export async function addResults(file: string, added: readonly RecordedRun[]): Promise<void> {
  const known = existsSync(file) ? (JSON.parse(await readFile(file, 'utf8')) as RecordedRun[]) : [];
  const seeds = new Set(added.map(({ seed }) => seed));
  const all = [...known.filter(({ seed }) => !seeds.has(seed)), ...added].toSorted((a, b) => a.seed - b.seed);
  await writeFile(file, `${JSON.stringify(all, null, 2)}\n`);
}
