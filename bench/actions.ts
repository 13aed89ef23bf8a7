import { setTimeout as sleep } from 'node:timers/promises';
import { parseSamples } from './samples.ts';

/**
 * Actions that Temporal bills, by the server's own counter `action`: starts of workflows and of activities, retries of activities, heartbeats, timers,
 * signals, updates, queries, changes of search attributes, continue-as-new, and changes of Schedules. Empty polls, completions and requests that
 * only read, such as DescribeWorkflowExecution and lists, are free.
 */
export interface Reading {
  /** Kind -> number since the server started, such as `activity` or `heartbeat`. */
  actions: Record<string, number>;
  /** Number of DescribeWorkflowExecution, which is free but not for nothing. */
  describes: number;
}

/** Shorter names of the kinds that this project causes. */
const kinds: Readonly<Record<string, string>> = {
  grpc_StartWorkflowExecution: 'start',
  grpc_SignalWithStartWorkflowExecution: 'start',
  grpc_SignalWorkflowExecution: 'signal',
  grpc_QueryWorkflow: 'query',
  grpc_RecordActivityTaskHeartbeat: 'heartbeat',
  activity_retry: 'retry',
  command_ScheduleActivityTask: 'activity',
  command_StartTimer: 'timer',
  command_UpsertWorkflowSearchAttributes: 'search attributes',
  command_SignalExternalWorkflowExecution: 'signal',
  command_ContinueAsNewWorkflowExecution: 'continue-as-new',
  message_UpdateWorkflowExecution_Acceptance: 'update',
  message_UpdateWorkflowExecution_Rejection: 'update',
  grpc_CreateSchedule: 'schedule',
};

/** The server publishes its counters once a second. */
const publishedWithinMs = 2_000;

/** Reads the counters of a Temporal server from the URL of its metrics, when they contain what has happened so far. */
export async function readActions(url: string): Promise<Reading> {
  await sleep(publishedWithinMs);
  const page = await (await fetch(url)).text();
  const reading: Reading = { actions: {}, describes: 0 };
  for (const { name, labels, value } of parseSamples(page)) {
    if (name === 'action') {
      const type = labels['action_type'] ?? '';
      const kind = kinds[type] ?? type;
      reading.actions[kind] = (reading.actions[kind] ?? 0) + value;
    }
    const isFrontend = labels['service_name'] === 'frontend';
    if (name === 'service_requests' && isFrontend && labels['operation'] === 'DescribeWorkflowExecution')
      reading.describes += value;
  }
  return reading;
}

/** Returns what has happened between two readings. */
export function actionsBetween(before: Reading, after: Reading): Reading & { total: number } {
  const actions = Object.fromEntries(
    Object.entries(after.actions)
      .map(([kind, count]): [string, number] => [kind, count - (before.actions[kind] ?? 0)])
      .filter(([, count]) => count > 0)
      .toSorted(([, a], [, b]) => b - a),
  );
  const total = Object.values(actions).reduce((sum, count) => sum + count, 0);
  return { actions, describes: after.describes - before.describes, total };
}
