import type { AuditEvent, AuditLog } from './audit.ts';
import { drainedTooEarly } from './drained.ts';
import { type Ignorance, outsideOfDrains } from './drains.ts';
import { withoutLease } from './leases.ts';
import { askedTwice, deletedAroundBudgets } from './pods.ts';
import { tiersOutOfOrder } from './tiers.ts';
import type { Violation } from './invariants.ts';

/** Returns all violations that an audit log shows. */
export function checkLog(log: AuditLog, ignorance: readonly Ignorance[]): Violation[] {
  return [
    ...tiersOutOfOrder(log),
    ...outsideOfDrains(log, ignorance),
    ...withoutLease(log, ignorance),
    ...drainedTooEarly(log, ignorance),
    ...askedTwice(log),
    ...deletedAroundBudgets(log, ignorance),
  ];
}

/** Formats an event for people: time, user, request, answer. */
export function eventText({
  stageTimestamp,
  user,
  verb,
  objectRef,
  responseStatus,
  requestObject,
}: AuditEvent): string {
  const { resource, subresource, namespace, name } = objectRef ?? { resource: '' };
  const target = [resource, subresource].filter(Boolean).join('/');
  const key = [namespace, name].filter(Boolean).join('/');
  const request = JSON.stringify(requestObject ?? null);
  const short = request.length > longestText ? `${request.slice(0, longestText)}...` : request;
  return `${stageTimestamp} ${user.username} ${verb} ${target} ${key} -> ${responseStatus?.code ?? '-'} ${short}`;
}

const longestText = 400;
