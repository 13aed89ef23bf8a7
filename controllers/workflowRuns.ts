import { type Client, WorkflowNotFoundError } from '@temporalio/client';

/** Returns true if the newest run of the workflow is open. */
export async function isRunning(temporal: Client, workflowId: string): Promise<boolean> {
  try {
    return (await temporal.workflow.getHandle(workflowId).describe()).status.name === 'RUNNING';
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
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
