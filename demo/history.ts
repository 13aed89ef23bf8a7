import { Client, Connection } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import type { DrainStep, EscalationStep } from '../activities/contract.ts';
import { temporalNames } from '../api/names.ts';
import { processOf } from '../domain/leases/identityLease.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';

/** The workflow of a maintenance, as recorded by Temporal. */
export interface WorkflowRecord {
  /** COMPLETED, RUNNING, ... */
  status: string;
  /** Number of events in its history. */
  events: number;
  /** Identities (PID@HOST) of the workers that executed tasks, in order of their first task. */
  workers: readonly string[];
  /** Results of the `drain` activities that ended a tier, oldest first. */
  drainSteps: readonly DrainStep[];
  /** Results of the `escalate` activities, oldest first. */
  escalations: readonly string[][];
  /** Activities that were started more than once. */
  resumed: readonly { activity: string; attempt: number; worker: string }[];
}

/** Returns the URL of the workflow in the Temporal UI. */
export function workflowLink({ temporalUi, temporalNamespace }: Sandbox, maintenance: string): string {
  return `${temporalUi}/namespaces/${temporalNamespace}/workflows/${temporalNames(undefined).maintenanceId(maintenance)}`;
}

export async function readWorkflow(sandbox: Sandbox, maintenance: string): Promise<WorkflowRecord> {
  const connection = await Connection.connect({
    address: sandbox.temporalAddress,
    // An HTTP proxy cannot reach the loopback interface of this machine.
    channelArgs: { 'grpc.enable_http_proxy': 0 },
  });
  try {
    const client = new Client({ connection, namespace: sandbox.temporalNamespace });
    const handle = client.workflow.getHandle(temporalNames(undefined).maintenanceId(maintenance));
    const { status } = await handle.describe();
    const { events } = await handle.fetchHistory();
    return { status: status.name, ...readEvents(events ?? []) };
  } finally {
    await connection.close();
  }
}

type History = Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['fetchHistory']>>;
type HistoryEvent = NonNullable<History['events']>[number];

function readEvents(events: readonly HistoryEvent[]): Omit<WorkflowRecord, 'status'> {
  const activities = new Map(events.map((event) => [String(event.eventId), activityOf(event)]));
  const nameOf = (scheduledEventId: unknown) => activities.get(String(scheduledEventId)) ?? '';
  const workers = events.flatMap((event) => workerOf(event) ?? []);
  return {
    events: events.length,
    workers: [...new Set(workers)],
    drainSteps: events.flatMap(({ activityTaskCompletedEventAttributes: done }) =>
      nameOf(done?.scheduledEventId) === 'drain' ? drainStepsIn(done?.result) : [],
    ),
    escalations: events.flatMap(({ activityTaskCompletedEventAttributes: done }) =>
      nameOf(done?.scheduledEventId) === 'escalate'
        ? resultOf<EscalationStep>(done?.result).map((step) => step.done)
        : [],
    ),
    resumed: events.flatMap(({ activityTaskStartedEventAttributes: started }) => {
      const { attempt, identity, scheduledEventId } = started ?? {};
      if (!attempt || attempt === 1) return [];
      return [{ activity: nameOf(scheduledEventId), attempt, worker: processOf(identity ?? '') }];
    }),
  };
}

function activityOf({ activityTaskScheduledEventAttributes }: HistoryEvent): string {
  return activityTaskScheduledEventAttributes?.activityType?.name ?? '';
}

function workerOf(event: HistoryEvent): string | undefined {
  const { workflowTaskStartedEventAttributes, activityTaskStartedEventAttributes } = event;
  const identity =
    workflowTaskStartedEventAttributes?.identity ?? activityTaskStartedEventAttributes?.identity;
  return identity ? processOf(identity) : undefined;
}

type Result = NonNullable<HistoryEvent['activityTaskCompletedEventAttributes']>['result'];

function resultOf<T>(result: Result | undefined): T[] {
  return (result?.payloads ?? []).map((payload) => defaultPayloadConverter.fromPayload<T>(payload));
}

function drainStepsIn(result: Result | undefined): DrainStep[] {
  return resultOf<DrainStep>(result).filter(({ kind }) => kind !== 'Waiting');
}
