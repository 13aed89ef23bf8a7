import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import type { History } from '@temporalio/common/lib/proto-utils.js';
import { tierText } from '../../domain/drain/tiers.ts';
import { isRecord } from '../../domain/common/untrusted.ts';
import { processOf } from '../../domain/leases/identityLease.ts';
import type { ReachedTier } from '../../domain/maintenance/summary.ts';
import type { KnownRequests } from '../../domain/windows/requests.ts';
import { isWindowStep } from '../../domain/windows/windowState.ts';

type HistoryEvent = NonNullable<History['events']>[number];

/** An action of a user, a tool or the worker on a maintenance. */
export interface HistoryRow {
  /** RFC 3339, from the clock of Temporal. */
  readonly time: string;
  /** The identity of a Temporal client, which it declares itself; undefined if unknown. */
  readonly who: string | undefined;
  readonly what: string;
}

type Action = Omit<HistoryRow, 'time'>;

/** State that later events refer to. */
interface ReplayState {
  readonly activities: Map<string, { name: string; input: unknown[]; by: string | undefined }>;
  readonly updates: Map<string, Action>;
  generation: number;
}

/** Returns the actions in the history of one run, oldest first. */
export function rowsOf({ events }: History): HistoryRow[] {
  const state: ReplayState = { activities: new Map(), updates: new Map(), generation: 0 };
  return (events ?? []).flatMap((event) => {
    const action = read(event, state);
    return action === undefined ? [] : { time: timeOf(event), ...action };
  });
}

function timeOf({ eventTime }: HistoryEvent): string {
  const ms = Number(eventTime?.seconds ?? 0) * 1_000 + Math.floor((eventTime?.nanos ?? 0) / 1e6);
  return new Date(ms).toISOString();
}

type Kind = Extract<keyof HistoryEvent, `${string}EventAttributes`>;
type Reader<K extends Kind> = (
  attributes: NonNullable<HistoryEvent[K]>,
  state: ReplayState,
  event: HistoryEvent,
) => Action | undefined;

/** An event has the attributes of its own kind only. */
function read(event: HistoryEvent, state: ReplayState): Action | undefined {
  const kind = (Object.keys(readers) as Kind[]).find((one) => event[one] != null);
  if (kind === undefined) return undefined;
  const reader = readers[kind] as Reader<typeof kind>;
  return reader(event[kind] as NonNullable<HistoryEvent[typeof kind]>, state, event);
}

const readers: { readonly [K in Kind]?: Reader<K> } = {
  workflowExecutionStartedEventAttributes: ({ continuedExecutionRunId, identity, input }) =>
    // A continued run starts with the state of the previous run: this is not an action.
    continuedExecutionRunId
      ? undefined
      : { who: nameOf(identity), what: `started the workflow${argumentsText(input)}` },

  workflowExecutionSignaledEventAttributes({ signalName, identity, input }, state) {
    if (signalName === 'observe') return describeObservation(valuesOf(input)[0], state, nameOf(identity));
    // Refreshing the current details in the Temporal UI is not an action.
    if (signalName === 'refreshDetails') return undefined;
    return { who: nameOf(identity), what: `signal ${signalName}${argumentsText(input)}` };
  },

  workflowExecutionUpdateAcceptedEventAttributes({ acceptedRequest: request }, { updates }) {
    const what = `update ${request?.input?.name}${argumentsText(request?.input?.args)}`;
    const action = { who: nameOf(request?.meta?.identity), what };
    updates.set(request?.meta?.updateId ?? '', action);
    return action;
  },

  workflowExecutionUpdateCompletedEventAttributes({ meta, outcome }, { updates }) {
    const { who, what } = updates.get(meta?.updateId ?? '') ?? {};
    return outcome?.failure
      ? { who, what: `${what} was rejected${because(outcome.failure.message)}` }
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
    const retry = `retried ${activity.name}, attempt ${attempt}${because(lastFailure?.message)}`;
    return (attempt ?? 1) > 1 ? { who: activity.by, what: retry } : undefined;
  },

  activityTaskCompletedEventAttributes({ scheduledEventId, result }, { activities }) {
    const activity = activities.get(String(scheduledEventId));
    const what = activity && describeResult(activity.name, activity.input, valuesOf(result)[0]);
    return what ? { who: activity.by, what } : undefined;
  },

  workflowExecutionCancelRequestedEventAttributes: ({ identity, cause }) => ({
    who: nameOf(identity),
    what: `cancelled the workflow${because(cause)}`,
  }),

  workflowExecutionTerminatedEventAttributes: ({ identity, reason }) => ({
    who: nameOf(identity),
    what: `terminated the workflow${because(reason)}`,
  }),

  workflowExecutionFailedEventAttributes: ({ failure }) => ({
    who: undefined,
    what: `the workflow failed${because(failure?.message)}`,
  }),

  workflowExecutionCompletedEventAttributes: () => ({ who: undefined, what: 'the workflow completed' }),
};

/** Describes a change of the object that a signal reports. Any client may send it, so the row attributes it to the sender alone. */
function describeObservation(
  observation: unknown,
  state: ReplayState,
  sender: string | undefined,
): Action | undefined {
  const { kind, stage, generation, requestedBy } = (observation ?? {}) as Record<string, unknown>;
  if (kind === 'Gone') return { who: sender, what: 'reported that the object was deleted' };
  // The controller repeats the signal after each start of a worker.
  if (Number(generation) <= state.generation) return undefined;
  state.generation = Number(generation);
  const user = typeof requestedBy === 'string' ? requestedBy : 'an unknown user';
  return {
    who: sender,
    what: `reported generation ${String(generation)}: stage ${String(stage)}, requested by ${user}`,
  };
}

/** Describes the result of an activity; undefined if it is not an action of interest. */
function describeResult(activity: string, input: unknown[], result: unknown): string | undefined {
  switch (activity) {
    case 'startStage':
      return `started stage ${String(input[1])}`;
    case 'drain':
      return describeDrain(result);
    case 'escalate': {
      const done: unknown = isRecord(result) ? result['done'] : undefined;
      return Array.isArray(done) && done.length > 0 ? `drain deadline: ${done.join(', ')}` : undefined;
    }
    case 'finish':
      return 'uncordoned the nodes';
    case 'rollOut': {
      const requests = isWindowStep(result) && result.kind !== 'Gone' ? result.state.requests : undefined;
      return requests && requestsRead(requests, isRecord(input[1]) ? input[1] : {});
    }
    default:
      return undefined;
  }
}

/** Any client of the namespace may have completed the activity. */
function describeDrain(result: unknown): string | undefined {
  const step = isRecord(result) ? result : {};
  if (step['kind'] === 'TierDrained') return tierDrained(step['drained'] as ReachedTier | undefined);
  return step['kind'] === 'Drained' ? 'drained the nodes' : undefined;
}

/** The tier is missing in the result if all tiers before the next one had no pods. */
function tierDrained(tier: ReachedTier | undefined): string {
  return tier === undefined ? 'reached the next tier' : `drained ${tierText(tier)}: ${tier.pods}`;
}

/** Describes requests that users have made by annotation of the window, in the words of the updates. */
function requestsRead(
  { approved, approvedNodes, paused, cancelled }: KnownRequests,
  known: Record<string, unknown>,
): string | undefined {
  const knownNodes: unknown = known['approvedNodes'];
  const nodes = approvedNodes.filter((node) => !Array.isArray(knownNodes) || !knownNodes.includes(node));
  const made = [
    ...(approved && known['approved'] !== true ? ['approve'] : []),
    ...(nodes.length > 0 ? [`approve ${JSON.stringify({ nodes })}`] : []),
    ...(paused === (known['paused'] === true) ? [] : [paused ? 'pause' : 'resume']),
    ...(cancelled && known['cancelled'] !== true ? ['cancel'] : []),
  ];
  return made.length === 0 ? undefined : `read from the window: ${made.join(', ')}`;
}

function nameOf(identity: string | null | undefined): string | undefined {
  return identity ? processOf(identity) : undefined;
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

/** A payload is still encoded here if its key is missing, or if it has the codec of another program. */
function valueOf(payload: Payload): unknown {
  try {
    return defaultPayloadConverter.fromPayload(payload);
  } catch {
    return '<encoded>';
  }
}

function argumentsText(payloads: Payloads | null | undefined): string {
  return valuesOf(payloads)
    .map((value) => ` ${JSON.stringify(value)}`)
    .join('');
}
