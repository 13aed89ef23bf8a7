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
    const told = read(event, sight);
    return told === undefined ? [] : { time: timeOf(event), ...told };
  });
}

function timeOf({ eventTime }: HistoryEvent): string {
  const ms = Number(eventTime?.seconds ?? 0) * 1_000 + Math.floor((eventTime?.nanos ?? 0) / 1e6);
  return new Date(ms).toISOString();
}

type Kind = Extract<keyof HistoryEvent, `${string}EventAttributes`>;
type Reader<K extends Kind> = (
  attributes: NonNullable<HistoryEvent[K]>,
  sight: Sight,
  event: HistoryEvent,
) => Told | undefined;

/** Each event has the attributes of its kind, and no others. */
function read(event: HistoryEvent, sight: Sight): Told | undefined {
  const kind = (Object.keys(readers) as Kind[]).find((one) => event[one] != null);
  if (kind === undefined) return undefined;
  const reader = readers[kind] as Reader<typeof kind>;
  return reader(event[kind] as NonNullable<HistoryEvent[typeof kind]>, sight, event);
}

const readers: { readonly [K in Kind]?: Reader<K> } = {
  workflowExecutionStartedEventAttributes: ({ continuedExecutionRunId, identity, input }) =>
    // A continued run begins with what the one before it has carried over: nobody did anything.
    continuedExecutionRunId
      ? undefined
      : { who: nameOf(identity), what: `starts the workflow${words(input)}` },

  workflowExecutionSignaledEventAttributes({ signalName, identity, input }, sight) {
    if (signalName === 'observe') return observed(valuesOf(input)[0], sight, nameOf(identity));
    // What the page in the Temporal UI shows is nobody's doing.
    if (signalName === 'glance') return undefined;
    return { who: nameOf(identity), what: `signal ${signalName}${words(input)}` };
  },

  workflowExecutionUpdateAcceptedEventAttributes({ acceptedRequest: request }, { updates }) {
    const what = `update ${request?.input?.name}${words(request?.input?.args)}`;
    const told = { who: nameOf(request?.meta?.identity), what };
    updates.set(request?.meta?.updateId ?? '', told);
    return told;
  },

  workflowExecutionUpdateCompletedEventAttributes({ meta, outcome }, { updates }) {
    const { who, what } = updates.get(meta?.updateId ?? '') ?? {};
    return outcome?.failure
      ? { who, what: `${what} is refused${because(outcome.failure.message)}` }
      : undefined;
  },

  activityTaskScheduledEventAttributes({ activityType, input }, { activities }, { eventId }) {
    activities.set(String(eventId), {
      name: activityType?.name ?? '',
      input: valuesOf(input),
      by: undefined,
    });
    return undefined;
  },

  activityTaskStartedEventAttributes({ scheduledEventId, identity, attempt, lastFailure }, { activities }) {
    const activity = activities.get(String(scheduledEventId));
    if (activity === undefined) return undefined;
    activity.by = nameOf(identity);
    const again = `goes on with ${activity.name}, attempt ${attempt}${because(lastFailure?.message)}`;
    return (attempt ?? 1) > 1 ? { who: activity.by, what: again } : undefined;
  },

  activityTaskCompletedEventAttributes({ scheduledEventId, result }, { activities }) {
    const activity = activities.get(String(scheduledEventId));
    const what = activity && deedOf(activity.name, activity.input, valuesOf(result)[0]);
    return what ? { who: activity.by, what } : undefined;
  },

  workflowExecutionCancelRequestedEventAttributes: ({ identity, cause }) => ({
    who: nameOf(identity),
    what: `cancels the workflow${because(cause)}`,
  }),

  workflowExecutionTerminatedEventAttributes: ({ identity, reason }) => ({
    who: nameOf(identity),
    what: `terminates the workflow${because(reason)}`,
  }),

  workflowExecutionFailedEventAttributes: ({ failure }) => ({
    who: undefined,
    what: `the workflow has failed${because(failure?.message)}`,
  }),

  workflowExecutionCompletedEventAttributes: () => ({ who: undefined, what: 'the workflow is over' }),
};

/** What the controller saw on the object: the order of whoever wrote it. Anybody may send this signal, and so its sender is told too. */
function observed(seen: unknown, sight: Sight, sender: string | undefined): Told | undefined {
  const { kind, stage, generation, orderedBy } = (seen ?? {}) as Record<string, unknown>;
  if (kind === 'Gone') return { who: undefined, what: `the object is gone, as told by ${sender}` };
  // It says so again after each start of a worker.
  if (Number(generation) <= sight.generation) return undefined;
  sight.generation = Number(generation);
  return {
    who: typeof orderedBy === 'string' ? orderedBy : undefined,
    what: `asks for stage ${String(stage)} (generation ${String(generation)}, as told by ${sender})`,
  };
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

function nameOf(identity: string | null | undefined): string | undefined {
  return identity || undefined;
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
