import { readFile } from 'node:fs/promises';
import type { WorkflowBundle } from '@temporalio/worker';
import type { LoadOptions } from './bundle.ts';

/**
 * Takes the place of bundle.ts in an image (scripts/image/application.ts), which has no bundler: the workflows were bundled together with the worker,
 * so both are of the same sources.
 */

/** Starts to load the workflows. Returns a function that resolves with them, or rejects. */
export function startLoading(options: LoadOptions): () => Promise<WorkflowBundle> {
  const loading = loadWorkflows(options);
  loading.catch(() => undefined);
  return () => loading;
}

export async function loadWorkflows({ file, traces }: LoadOptions): Promise<WorkflowBundle> {
  if (file !== undefined)
    throw new Error(
      '--workflow-bundle (WORKFLOW_BUNDLE): this image contains the workflows of its worker; leave the option out',
    );
  const name = traces ? 'workflows-traces.js' : 'workflows.js';
  return { code: await readFile(new URL(name, import.meta.url), 'utf8') };
}
