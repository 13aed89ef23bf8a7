import { fileURLToPath } from 'node:url';

/** How many tests of a feature passed and failed. */
export interface Outcome {
  passed: number;
  failed: number;
}

/** The release that was run and the outcome of each feature, by minor version of Kubernetes. */
export type Results = Record<string, { release: string; features: Record<string, Outcome> }>;

export const resultsFile = fileURLToPath(new URL('./results.json', import.meta.url));
