import type { Client } from '@temporalio/client';
import { CLUSTER_UID_MEMO, clusterInTaskQueue, temporalNames } from '../api/names.ts';
import { listRuns, type Run } from './runs.ts';
import { listSchedules, scheduledStart } from './schedules.ts';

/** Objects of a cluster in a Temporal namespace that it may share with other clusters. */
export interface ClusterObjects {
  /** Open runs, without the claims. */
  runs: Run[];
  /** Ids of the Schedules of its windows. */
  schedules: string[];
  /** The open runs with which it claims its names (ADR 37). */
  claims: Run[];
}

const openRuns = 'ExecutionStatus = "Running"';
const workflowTypes = ['nodeMaintenance', 'maintenanceWindow', 'notify'];

/**
 * Lists what belongs to the cluster of this UID. Its UID is in the memo of each run and of the action of each Schedule; a run that a user has
 * started has no memo, and belongs to the cluster that has claimed its task queue.
 */
export async function clusterObjects(client: Client, clusterUid: string): Promise<ClusterObjects> {
  const isOurs = ({ memo }: Run) => memo[CLUSTER_UID_MEMO] === clusterUid;
  const claims = (await runsOf(client, `WorkflowType = "clusterClaim" AND ${openRuns}`)).filter(isOurs);
  const types = workflowTypes.map((type) => `"${type}"`).join(', ');
  const marked = (await runsOf(client, `WorkflowType IN (${types}) AND ${openRuns}`)).filter(isOurs);
  const started: Run[] = [];
  for (const { workflowId: taskQueue } of claims) {
    const onQueue = await runsOf(client, `TaskQueue = "${taskQueue}" AND ${openRuns}`);
    started.push(...onQueue.filter(({ memo }) => memo[CLUSTER_UID_MEMO] === undefined));
  }
  const runs = new Map([...marked, ...started].map((run) => [run.runId, run] as const));
  return { runs: [...runs.values()], schedules: await schedulesOf(client, claims, clusterUid), claims };
}

async function runsOf(client: Client, query: string): Promise<Run[]> {
  const runs: Run[] = [];
  for await (const run of listRuns(client, query)) runs.push(run);
  return runs;
}

/** Looks at every Schedule with an id of this project. After the claim is gone, of every cluster name. */
async function schedulesOf(client: Client, claims: readonly Run[], clusterUid: string): Promise<string[]> {
  const prefixes = claims.map(({ workflowId }) => temporalNames(clusterInTaskQueue(workflowId)).windowId(''));
  const isCandidate = (id: string) =>
    prefixes.length === 0
      ? id.includes(temporalNames(undefined).windowId(''))
      : prefixes.some((prefix) => id.startsWith(prefix));
  const own: string[] = [];
  for await (const { scheduleId } of listSchedules(client)) {
    if (!isCandidate(scheduleId)) continue;
    const start = await scheduledStart(client, scheduleId);
    if (start?.memo[CLUSTER_UID_MEMO] === clusterUid) own.push(scheduleId);
  }
  return own.toSorted();
}
