import { condition } from '@temporalio/workflow';

/** The claim of a cluster to its task queue (worker/clusterClaim.ts). It ends when a user cancels or terminates it. */
export async function clusterClaim(): Promise<void> {
  await condition(() => false);
}
