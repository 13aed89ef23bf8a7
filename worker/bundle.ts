import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { bundleWorkflowCode, DefaultLogger, type WorkflowBundle } from '@temporalio/worker';

const longestBundle = 64 * 1024 * 1024;

/** The workflows, as one script for Temporal's sandbox. */
export function bundleWorkflows(): Promise<WorkflowBundle> {
  const workflowsPath = fileURLToPath(new URL('../workflows/index.ts', import.meta.url));
  // The bundler's own report is of no use to an operator; its errors are thrown.
  return bundleWorkflowCode({ workflowsPath, logger: new DefaultLogger('ERROR') });
}

/**
 * The same, made by a process that ends with it: the bundler needs three times the memory that a worker needs for
 * all the rest of its life.
 */
export async function bundleElsewhere(): Promise<WorkflowBundle> {
  const script = fileURLToPath(new URL('printBundle.ts', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [script], { maxBuffer: longestBundle });
  return { code: stdout };
}
