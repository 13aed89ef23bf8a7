import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import type { History } from '@temporalio/common/lib/proto-utils.js';
import type { RecordedStep } from '../../domain/report/recorded.ts';

type HistoryEvent = NonNullable<History['events']>[number];

interface Scheduled {
  readonly activity: string;
  readonly values: readonly unknown[];
}

/** Returns the steps of a decoded history from which a report is made, oldest first. */
export function recordedSteps({ events }: History): RecordedStep[] {
  const scheduled = new Map<string, Scheduled>();
  return (events ?? []).flatMap((event) => stepsOf(event, scheduled));
}

function stepsOf(event: HistoryEvent, scheduled: Map<string, Scheduled>): RecordedStep[] {
  const atMs =
    Number(event.eventTime?.seconds ?? 0) * 1_000 + Math.floor((event.eventTime?.nanos ?? 0) / 1e6);
  const {
    workflowExecutionStartedEventAttributes: started,
    workflowExecutionSignaledEventAttributes: signal,
  } = event;
  if (started) return [{ kind: 'Input', atMs, values: valuesOf(started.input) }];
  if (signal)
    return [{ kind: 'Signal', atMs, name: signal.signalName ?? '', values: valuesOf(signal.input) }];
  return activitySteps(event, atMs, scheduled);
}

function activitySteps(
  {
    eventId,
    activityTaskScheduledEventAttributes: activity,
    activityTaskStartedEventAttributes: started,
    activityTaskCompletedEventAttributes: completed,
  }: HistoryEvent,
  atMs: number,
  scheduled: Map<string, Scheduled>,
): RecordedStep[] {
  if (activity)
    scheduled.set(String(eventId), {
      activity: activity.activityType?.name ?? '',
      values: valuesOf(activity.input),
    });
  const known = scheduled.get(String((started ?? completed)?.scheduledEventId));
  if (known === undefined) return [];
  if (completed) return [{ kind: 'Result', atMs, ...known, result: valuesOf(completed.result)[0] }];
  return (started?.attempt ?? 1) > 1 ? [{ kind: 'Retry', atMs, activity: known.activity }] : [];
}

function valuesOf(payloads: { payloads?: Payload[] | null } | null | undefined): unknown[] {
  return (payloads?.payloads ?? []).map(valueOf);
}

/** A payload is still encoded here if its key is missing, or if it has the codec of another program. */
function valueOf(payload: Payload): unknown {
  try {
    return defaultPayloadConverter.fromPayload(payload);
  } catch {
    return undefined;
  }
}
