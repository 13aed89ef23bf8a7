import type { Machine } from './machine.ts';
import type { BenchmarkResult } from './report.ts';

/** What `npm run bench` writes to bench/results. */
export interface ResultsFile {
  startedAt: string;
  machine: Machine;
  /** The operators that were compared, and what differed from their own deployments. */
  peers: {
    name: string;
    revision?: string | undefined;
    /** Why it was not measured. */
    unavailable?: string;
    changes: readonly string[];
  }[];
  results: BenchmarkResult[];
}
