import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { describeRun, isOpen } from '../temporal-config/runs.ts';

/** Returns true if the newest run of the workflow is open. */
export async function isRunning(temporal: Client, workflowId: string): Promise<boolean> {
  const run = await describeRun(temporal, { workflowId });
  return run !== undefined && isOpen(run);
}

/** Sends a signal. Resolves with false if the workflow has no open run that could receive it. */
export async function signalIfRunning(signal: Promise<void>): Promise<boolean> {
  try {
    await signal;
    return true;
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
    return false;
  }
}
