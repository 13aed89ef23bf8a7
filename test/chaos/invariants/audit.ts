import type { KubeObject } from '../../../api/core.ts';

/** An event of the apiserver's audit log, as far as invariants are checked by it. */
export interface AuditEvent {
  auditID: string;
  stage: 'RequestReceived' | 'ResponseComplete' | 'Panic';
  verb: string;
  user: { username: string };
  requestURI: string;
  objectRef?: {
    resource: string;
    subresource?: string;
    namespace?: string;
    name?: string;
    apiGroup?: string;
  };
  responseStatus?: { code?: number };
  requestObject?: unknown;
  responseObject?: unknown;
  requestReceivedTimestamp: string;
  stageTimestamp: string;
}

/** The requests that one apiserver, or several one after the other, have logged. */
export interface AuditLog {
  /** Requests that succeeded and changed something or could have, in the order in which etcd stored their results. */
  writes: readonly Write[];
  /** Requests whose outcome nobody knows: the apiserver was killed, or answered that it failed. */
  unknown: readonly UnknownWrite[];
}

/** Where a request went: `pods/eviction` in a namespace. */
interface Target {
  /** `nodes`, `pods/eviction`. */
  resource: string;
  namespace: string;
  name: string;
  verb: string;
  user: string;
  /** When the apiserver received it, in milliseconds since the epoch. */
  receivedMs: number;
}

export interface Write extends Target {
  /**
   * The revision of etcd at which the result was stored: the resource versions of all objects of a cluster come from one counter. Of a
   * request whose answer contains none, or one of an object that was not changed, the latest revision that was answered before it arrived.
   */
  revision: number;
  answeredMs: number;
  request: unknown;
  /** The object after the write; undefined if the answer was only a status. */
  object: KubeObject | undefined;
  event: AuditEvent;
}

export interface UnknownWrite extends Target {
  event: AuditEvent;
  /** Its result was stored until then, or never. A write of the same object that was received later shows which. */
  untilMs: number;
}

/** An apiserver that is killed, or whose etcd fails, works on a request for this long at most. */
const processingMs = 3_000;

/** Parses the lines of an audit log. A killed apiserver leaves the beginning of a line. */
export function parseAuditLog(lines: readonly string[]): AuditLog {
  const events = lines.filter((line) => line.endsWith('}')).map((line) => JSON.parse(line) as AuditEvent);
  return auditLogOf(events);
}

export function auditLogOf(all: readonly AuditEvent[]): AuditLog {
  const events = all.filter(({ requestURI, objectRef }) => objectRef !== undefined && !isDryRun(requestURI));
  const completed = events.filter(({ stage }) => stage === 'ResponseComplete');
  const answered = new Set(completed.map(({ auditID }) => auditID));
  const failed = completed.filter((event) => codeOf(event) >= 500);
  const lost = events.filter(({ stage, auditID }) => stage === 'RequestReceived' && !answered.has(auditID));
  const succeeded = completed.filter((event) => codeOf(event) >= 200 && codeOf(event) < 300);
  return {
    writes: inOrder(succeeded),
    unknown: [...lost, ...failed].map((event) => ({
      ...targetOf(event),
      event,
      untilMs: processedMs(event),
    })),
  };
}

function processedMs({ requestReceivedTimestamp, stageTimestamp }: AuditEvent): number {
  return Math.max(Date.parse(requestReceivedTimestamp) + processingMs, Date.parse(stageTimestamp));
}

/**
 * Reports whether the result of a request whose outcome nobody knows may be stored, although it does not show in `last`: the last write of the object
 * that was answered, if there is one.
 */
export function mayBeStored({ untilMs }: UnknownWrite, last: AuditEvent | undefined): boolean {
  return last === undefined || Date.parse(last.requestReceivedTimestamp) <= untilMs;
}

function isDryRun(uri: string): boolean {
  return /[?&]dryRun=/.test(uri);
}

function codeOf({ responseStatus }: AuditEvent): number {
  return responseStatus?.code ?? 0;
}

function targetOf({ objectRef, verb, user, ...event }: AuditEvent): Target {
  const { resource = '', subresource, namespace = '', name } = objectRef ?? {};
  const named = event.responseObject as Partial<KubeObject> | undefined;
  return {
    resource: subresource === undefined ? resource : `${resource}/${subresource}`,
    namespace,
    name: name ?? named?.metadata?.name ?? '',
    verb,
    user: user.username,
    receivedMs: Date.parse(event.requestReceivedTimestamp),
  };
}

function inOrder(events: readonly AuditEvent[]): Write[] {
  const exact = events.map((event) => ({ event, revision: revisionOf(event) }));
  const answers = exact
    .flatMap(({ event, revision }) =>
      revision === undefined ? [] : [{ atMs: Date.parse(event.stageTimestamp), revision }],
    )
    .toSorted((a, b) => a.atMs - b.atMs);
  const latest = latestRevisions(answers);
  const writes = exact.map(({ event, revision }): Write => {
    const target = targetOf(event);
    const before = latest(target.receivedMs);
    return {
      ...target,
      revision: Math.max(revision ?? 0, before),
      answeredMs: Date.parse(event.stageTimestamp),
      request: event.requestObject,
      object: objectOf(event),
      event,
    };
  });
  return writes.toSorted((a, b) => a.revision - b.revision || a.answeredMs - b.answeredMs);
}

/** Returns a function that returns the highest revision that was answered until a time. */
function latestRevisions(answers: readonly { atMs: number; revision: number }[]): (atMs: number) => number {
  let highest = 0;
  const maxima = answers.map(({ atMs, revision }) => ({
    atMs,
    revision: (highest = Math.max(highest, revision)),
  }));
  return (atMs) => maxima.findLast((one) => one.atMs <= atMs)?.revision ?? 0;
}

function objectOf({ responseObject }: AuditEvent): KubeObject | undefined {
  const object = responseObject as Partial<KubeObject> | undefined;
  return object?.metadata?.uid === undefined ? undefined : (object as KubeObject);
}

function revisionOf(event: AuditEvent): number | undefined {
  const revision = Number(objectOf(event)?.metadata.resourceVersion);
  return Number.isInteger(revision) && revision > 0 ? revision : undefined;
}
