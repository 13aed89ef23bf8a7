import type { NotificationData, NotifiedObject } from '../../api/notification.ts';
import { isNameOrUid, isRecord } from '../common/untrusted.ts';

const eventFields = ['specversion', 'id', 'source', 'type', 'subject', 'time', 'datacontenttype', 'data'];
const dataFields: readonly string[] = [
  'object',
  'message',
  'severity',
  'stage',
  'nodes',
  'reason',
  'by',
  'window',
  'blocker',
  'deadline',
  'pods',
  'owners',
  'failure',
  'until',
  'progress',
] satisfies (keyof NotificationData)[];
const kinds: readonly unknown[] = ['NodeMaintenance', 'MaintenanceWindow'] satisfies NotifiedObject['kind'][];
const eventType = /^io\.k8s\.nodemaintenance\.(maintenance|window|node)\.[a-z-]{1,40}\.v1$/;
/** More than any notification of this project needs, and less than endpoints and Temporal accept. */
const maxLength = 65_536;
const maxTimeLength = 35;

/**
 * Returns why an event is not one that `cloudEventOf` builds; undefined if it may be. Any client of the Temporal namespace can start the workflow
 * that delivers events: it cannot choose the endpoint, and sends nothing but events of this form.
 */
export function cloudEventProblem(event: unknown): string | undefined {
  if (!isRecord(event)) return 'event: expected a CloudEvent of node-maintenance';
  if (JSON.stringify(event).length > maxLength) return `event: expected at most ${maxLength} characters`;
  const { specversion, id, source, type, subject, time, data } = event;
  const known = hasOnly(event, eventFields) && specversion === '1.0';
  if (!known || typeof type !== 'string' || !eventType.test(type))
    return 'event.type: expected an event of node-maintenance';
  if (typeof source !== 'string' || !source.startsWith('//'))
    return 'event.source: expected //<cluster>/apis/...';
  if (!isNameOrUid(subject)) return 'event.subject: expected the name of an object';
  if (typeof time !== 'string' || time.length > maxTimeLength || Number.isNaN(Date.parse(time)))
    return 'event.time: expected a time';
  return dataProblem(id, data);
}

function dataProblem(id: unknown, data: unknown): string | undefined {
  if (!isRecord(data) || !hasOnly(data, dataFields)) return 'event.data: expected the data of a notification';
  const { object, message, severity } = data;
  if (!isRecord(object) || !kinds.includes(object['kind']) || !isNameOrUid(object['name']))
    return 'event.data.object: expected a NodeMaintenance or a MaintenanceWindow';
  if (!isNameOrUid(object['uid']) || typeof id !== 'string' || !id.startsWith(`${object['uid']}.`))
    return 'event.id: expected the UID of the object and a key';
  if (typeof message !== 'string') return 'event.data.message: expected a text';
  return severity === 'info' || severity === 'warning'
    ? undefined
    : 'event.data.severity: expected info or warning';
}

function hasOnly(value: Record<string, unknown>, fields: readonly string[]): boolean {
  return Object.keys(value).every((field) => fields.includes(field));
}
