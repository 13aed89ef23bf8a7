import type { Client } from '@temporalio/client';
import { CLUSTER_UID_MEMO } from '../api/names.ts';
import { listRuns } from './runs.ts';

const openClaims = 'WorkflowType = "clusterClaim" AND ExecutionStatus = "Running"';

/** Yields the task queues that the cluster has claimed (ADR 37). */
export async function* claimedTaskQueues(client: Client, clusterUid: string): AsyncGenerator<string> {
  for await (const { workflowId, memo } of listRuns(client, openClaims))
    if (memo[CLUSTER_UID_MEMO] === clusterUid) yield workflowId;
}
