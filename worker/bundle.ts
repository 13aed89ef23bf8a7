import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { bundleWorkflowCode, DefaultLogger, type WorkflowBundle } from '@temporalio/worker';
import { errorMessage } from '../kube/errors.ts';

const maxBundleBytes = 64 * 1024 * 1024;

/** Bundles the workflows into one script for Temporal's sandbox. */
export function bundleWorkflows(): Promise<WorkflowBundle> {
  const workflowsPath = fileURLToPath(new URL('../workflows/index.ts', import.meta.url));
  const payloadConverterPath = fileURLToPath(new URL('../workflows/payloadConverter.ts', import.meta.url));
  // The bundler's report does not help an operator; it throws its errors.
  return bundleWorkflowCode({ workflowsPath, payloadConverterPath, logger: new DefaultLogger('ERROR') });
}

/** Reads the workflows from a file that printBundle.ts wrote; bundles them if there is none. */
export async function loadWorkflows(file: string | undefined): Promise<WorkflowBundle> {
  if (file === undefined) return bundleInChildProcess();
  try {
    return { code: await readFile(file, 'utf8') };
  } catch (error) {
    const remedy = 'write it with node worker/printBundle.ts, or leave the option out';
    throw new Error(`--workflow-bundle (WORKFLOW_BUNDLE): ${errorMessage(error)}; ${remedy}`, {
      cause: error,
    });
  }
}

/**
 * Bundles the workflows in a child process, because the bundler needs three times the memory that a worker needs afterwards,
 * and the end of the process frees it.
 */
async function bundleInChildProcess(): Promise<WorkflowBundle> {
  const script = fileURLToPath(new URL('printBundle.ts', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [script], { maxBuffer: maxBundleBytes });
  return { code: stdout };
}
