import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import type { History } from '@temporalio/common/lib/proto-utils.js';

type HistoryEvent = NonNullable<History['events']>[number];

/** Something that a person, a tool or the worker did to a maintenance. */
export interface HistoryRow {
  /** RFC 3339, by the clock of Temporal. */
  readonly time: string;
  /** A user of Kubernetes, or the identity of a client of Temporal; undefined where nothing tells. */
  readonly who: string | undefined;
  readonly what: string;
}

type Told = Omit<HistoryRow, 'time'>;

/** What later events refer to. */
interface Sight {
  readonly activities: Map<string, { name: string; input: unknown[]; by: string | undefined }>;
  readonly updates: Map<string, Told>;
  generation: number;
}

/** The events of one run that tell who did what, oldest first. */
export function rowsOf({ events }: History): HistoryRow[] {
  const sight: Sight = { activities: new Map(), updates: new Map(), generation: 0 };
  return (events ?? []).flatMap((event) => {
    const told = ofActivity(event, sight) ?? ofOrder(event, sight) ?? ofUpdate(event, sight) ?? ofEnd(event);
    return told === undefined ? [] : { time: timeOf(event), ...told };
  });
}

function timeOf({ eventTime }: HistoryEvent): string {
  const ms = Number(eventTime?.seconds ?? 0) * 1_000 + Math.floor((eventTime?.nanos ?? 0) / 1e6);
  return new Date(ms).toISOString();
}

function ofOrder(event: HistoryEvent, sight: Sight): Told | undefined {
  const started = event.workflowExecutionStartedEventAttributes;
  // A continued run begins with what the one before it has carried over: nobody did anything.
  if (started && started.continuedExecutionRunId) return undefined;
  if (started) return { who: started.identity ?? undefined, what: `starts the workflow${words(started.input)}` };
  const signal = event.workflowExecutionSignaledEventAttributes;
  if (signal?.signalName === 'observe') return ofObservation(valuesOf(signal.input)[0], sight);
  if (signal)
    return { who: signal.identity ?? undefined, what: `signal ${signal.signalName}${words(signal.input)}` };
  return undefined;
}

/** What the controller saw on the object: the order of whoever wrote it. */
function ofObservation(seen: unknown, sight: Sight): Told | undefined {
  const { kind, stage, generation, orderedBy } = seen as Record<string, unknown>;
  if (kind === 'Gone') return { who: undefined, what: 'the object is gone' };
  // It says so again after each start of a worker.
  if (Number(generation) <= sight.generation) return undefined;
  sight.generation = Number(generation);
  return {
    who: typeof orderedBy === 'string' ? orderedBy : undefined,
    what: `asks for stage ${String(stage)} (generation ${String(generation)} of the object)`,
  };
}

function ofUpdate(event: HistoryEvent, { updates }: Sight): Told | undefined {
  const accepted = event.workflowExecutionUpdateAcceptedEventAttributes?.acceptedRequest;
  if (accepted) {
    const who = accepted.meta?.identity ?? undefined;
    const what = `update ${accepted.input?.name}${words(accepted.input?.args)}`;
    updates.set(accepted.meta?.updateId ?? '', { who, what });
    return { who, what };
  }
  const completed = event.workflowExecutionUpdateCompletedEventAttributes;
  const failure = completed?.outcome?.failure;
  const update = updates.get(completed?.meta?.updateId ?? '');
  if (!failure || update === undefined) return undefined;
  return { who: update.who, what: `${update.what} is refused: ${failure.message}` };
}

function ofActivity(event: HistoryEvent, { activities }: Sight): Told | undefined {
  const scheduled = event.activityTaskScheduledEventAttributes;
  if (scheduled) {
    const name = scheduled.activityType?.name ?? '';
    activities.set(String(event.eventId), { name, input: valuesOf(scheduled.input), by: undefined });
  }
  const started = event.activityTaskStartedEventAttributes;
  const activity = activities.get(String(started?.scheduledEventId));
  if (started && activity) {
    activity.by = started.identity ?? undefined;
    if ((started.attempt ?? 1) > 1)
      return {
        who: activity.by,
        what: `goes on with ${activity.name}, attempt ${started.attempt}, after: ${started.lastFailure?.message}`,
      };
  }
  const completed = event.activityTaskCompletedEventAttributes;
  const done = activities.get(String(completed?.scheduledEventId));
  const what = completed && done && deedOf(done.name, done.input, valuesOf(completed.result)[0]);
  return what ? { who: done.by, what } : undefined;
}

/** Undefined for what changes nothing that people ask about. */
function deedOf(activity: string, input: unknown[], result: unknown): string | undefined {
  switch (activity) {
    case 'beginStage':
      return `begins stage ${String(input[1])}`;
    case 'drain': {
      const { kind } = result as { kind: string };
      if (kind === 'TierDrained') return `has evacuated entry ${Number(input[1]) + 1} of the drain plan`;
      return kind === 'Drained' ? 'has drained the nodes' : undefined;
    }
    case 'finish':
      return 'has given the nodes back';
    default:
      return undefined;
  }
}

function ofEnd(event: HistoryEvent): Told | undefined {
  const cancelled = event.workflowExecutionCancelRequestedEventAttributes;
  if (cancelled) return { who: cancelled.identity ?? undefined, what: `cancels the workflow${because(cancelled.cause)}` };
  const terminated = event.workflowExecutionTerminatedEventAttributes;
  if (terminated)
    return { who: terminated.identity ?? undefined, what: `terminates the workflow${because(terminated.reason)}` };
  const failed = event.workflowExecutionFailedEventAttributes;
  if (failed) return { who: undefined, what: `the workflow has failed${because(failed.failure?.message)}` };
  const isOver = event.workflowExecutionCompletedEventAttributes || event.workflowExecutionCanceledEventAttributes;
  return isOver ? { who: undefined, what: 'the workflow is over' } : undefined;
}

function because(reason: string | null | undefined): string {
  return reason ? `: ${reason}` : '';
}

interface Payloads {
  payloads?: Payload[] | null;
}

function valuesOf(payloads: Payloads | null | undefined): unknown[] {
  return (payloads?.payloads ?? []).map(valueOf);
}

/** Whoever has a payload codec keeps its key to himself. */
function valueOf(payload: Payload): unknown {
  try {
    return defaultPayloadConverter.fromPayload(payload);
  } catch {
    return '<encoded>';
  }
}

function words(payloads: Payloads | null | undefined): string {
  return valuesOf(payloads)
    .map((value) => ` ${JSON.stringify(value)}`)
    .join('');
}
