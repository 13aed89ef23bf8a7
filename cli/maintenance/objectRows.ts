import type { Condition, ObjectMeta } from '../../api/core.ts';
import { REQUESTED_BY_ANNOTATION, REQUESTER_ANNOTATION, STARTED_BY } from '../../api/names.ts';
import { authorityOf } from '../../domain/common/requester.ts';
import { isRecord } from '../../domain/common/untrusted.ts';
import type { KubeEvent } from '../../kube/resources.ts';
import type { HistoryRow } from './historyRows.ts';

/** A NodeMaintenance or a MaintenanceWindow. */
export interface AuditedObject {
  readonly kind?: string;
  readonly metadata: ObjectMeta;
  readonly spec: { readonly stage?: string };
  readonly status?: {
    readonly stageStatuses?: readonly { name: string; startTimestamp: string }[];
    readonly conditions?: readonly Condition[];
    readonly active?: { start: string; end: string };
  };
}

/** Returns what an object and its Events say about its past, oldest first. */
export function rowsOfObject(object: AuditedObject | undefined, events: readonly KubeEvent[]): HistoryRow[] {
  const rows = object === undefined ? [] : [...metadataRows(object), ...statusRows(object)];
  return [...rows, ...events.map(rowOfEvent)].toSorted((a, b) => Date.parse(a.time) - Date.parse(b.time));
}

function metadataRows({ metadata, spec }: AuditedObject): HistoryRow[] {
  const { annotations = {}, creationTimestamp, deletionTimestamp, generation = 1 } = metadata;
  const startedBy = annotations[STARTED_BY];
  const requestedBy = annotations[REQUESTED_BY_ANNOTATION];
  const stage = spec.stage === undefined ? '' : `: stage ${spec.stage}`;
  return [
    ...rowAt(creationTimestamp, {
      who: startedBy && `Temporal client ${startedBy}`,
      what: 'the object was created',
    }),
    ...rowAt(changedSpecAt(metadata) ?? creationTimestamp, {
      who: requestedBy ?? requesterOf(annotations),
      what: `changed the spec last, to generation ${generation}${stage}`,
    }),
    ...rowAt(deletionTimestamp, {
      who: undefined,
      what: 'the object was deleted, and waits for its finalizers',
    }),
  ];
}

function requesterOf(annotations: Readonly<Record<string, string>>): string | undefined {
  const authority = authorityOf(annotations[REQUESTER_ANNOTATION]);
  if (authority.kind === 'Unknown') return undefined;
  return authority.kind === 'User' ? `user ${authority.requester.username}` : `window ${authority.window}`;
}

/** Returns when the spec was changed last, by any field manager. */
function changedSpecAt(metadata: ObjectMeta): string | undefined {
  const { managedFields } = metadata as { managedFields?: unknown };
  const entries = Array.isArray(managedFields) ? managedFields.filter(isRecord) : [];
  return entries
    .filter(({ fieldsV1, subresource }) => !subresource && isRecord(fieldsV1) && 'f:spec' in fieldsV1)
    .map(({ time }) => time)
    .filter((time) => typeof time === 'string')
    .toSorted()
    .at(-1);
}

function statusRows({ status = {} }: AuditedObject): HistoryRow[] {
  const { stageStatuses = [], conditions = [], active } = status;
  return [
    ...stageStatuses.flatMap(({ name, startTimestamp }) =>
      rowAt(startTimestamp, { who: undefined, what: `started stage ${name}` }),
    ),
    ...rowAt(active?.start, { who: undefined, what: `the window opened until ${active?.end}` }),
    ...conditions.flatMap(({ type, status: value, reason, message, lastTransitionTime }) =>
      rowAt(lastTransitionTime, {
        who: undefined,
        what: `condition ${type} became ${value}, now ${reason}${message && `: ${message}`}`,
      }),
    ),
  ];
}

function rowOfEvent({ lastTimestamp, metadata, source, reason, message, count }: KubeEvent): HistoryRow {
  const times = count > 1 ? ` (${count} times)` : '';
  return {
    time: lastTimestamp || metadata.creationTimestamp || '',
    who: source?.component,
    what: `Event ${reason}: ${message}${times}`,
  };
}

function rowAt(time: string | undefined, row: Omit<HistoryRow, 'time'>): HistoryRow[] {
  return time === undefined ? [] : [{ time, ...row }];
}
