import type { Machine } from './machine.ts';
import type { RecordingName } from './recordings.ts';
import type { FigureRow } from './figures.ts';
import type { BenchmarkResult } from './report.ts';

/** Content of the file that `npm run bench` writes for --json. */
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

/** The results of a benchmark with their medians and ranges. */
export type RecordedResult = BenchmarkResult & { title: string; figures: FigureRow[] };

/** Content of bench/results/NAME.json, which `npm run bench -- --record NAME` writes, and which is committed. */
export interface RecordedFile extends ResultsFile {
  name: RecordingName;
  /** The command with the options that differ from those of the recording. */
  command: string;
  /** When the last benchmark had ended. */
  finishedAt: string;
  source: Source;
  results: RecordedResult[];
}

/** The sources that were measured. */
export interface Source {
  commit: string;
  /** Whether its files had uncommitted changes, apart from results and documents. */
  isModified: boolean;
}
