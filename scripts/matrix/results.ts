import { fileURLToPath } from 'node:url';

/** How many tests of a feature passed and failed. */
export interface Outcome {
  passed: number;
  failed: number;
}

/** By minor version of Kubernetes: the release that was run, and the outcome of each feature. */
export type Results = Record<string, { release: string; features: Record<string, Outcome> }>;

export const resultsFile = fileURLToPath(new URL('./results.json', import.meta.url));
