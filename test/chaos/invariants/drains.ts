import type { AuditEvent, AuditLog, Write } from './audit.ts';
import { podsIn, removedPodOf, replay, requestedPodOf } from './cluster.ts';
import type { Violation } from './invariants.ts';

/** A time in which the worker could not learn what users do, in milliseconds since the epoch: it was stopped, or cut off from the apiserver. */
export interface Ignorance {
  fromMs: number;
  toMs: number;
}

/** Requests that were decided before a cancel, and watches that have not delivered it yet, end within this time. */
const graceMs = 3_000;
/** Time after an ignorance within which a process has read what it missed. */
const recoveryMs = 4_000;

/** A maintenance drained a node from one write to another. */
interface Drain {
  maintenance: string;
  node: string;
  fromMs: number;
  began: AuditEvent;
  end: { atMs: number; event: AuditEvent } | undefined;
}

/** A request of the worker that makes a pod leave. */
interface Leaving {
  what: string;
  podUid: string;
  atMs: number;
  event: AuditEvent;
  /** It continues what an evacuator does not let anybody cancel. */
  isForbidden: boolean;
}

/** Nothing is asked to leave, evicted or deleted but on a node that a maintenance drains; nothing after its cancel was answered. */
export function outsideOfDrains(log: AuditLog, ignorance: readonly Ignorance[]): Violation[] {
  const drains = drainsIn(log);
  const pods = podsIn(log);
  return leavingsIn(log).flatMap((leaving): Violation[] => {
    const { node, key = leaving.podUid } = pods.get(leaving.podUid) ?? {};
    const onNode = drains.filter((drain) => drain.node === node && drain.fromMs <= leaving.atMs);
    const last = onNode.toSorted((a, b) => endOf(a) - endOf(b)).at(-1);
    const what = `Pod ${key} on ${node} was ${leaving.what}`;
    if (last === undefined)
      return [
        {
          invariant: 'targets',
          message: `${what}, but no maintenance drained the node`,
          events: [leaving.event],
        },
      ];
    if (last.end === undefined || leaving.isForbidden) return [];
    if (isInFlight(last.end.atMs, leaving.atMs, ignorance)) return [];
    return [
      {
        invariant: 'cancel',
        message: `${what} ${leaving.atMs - last.end.atMs} ms after the last drain of the node, ${last.maintenance}, had been ended`,
        events: [last.end.event, leaving.event],
      },
    ];
  });
}

function endOf({ end }: Drain): number {
  return end?.atMs ?? Number.POSITIVE_INFINITY;
}

/** Reports whether a request may have been decided before a drain ended, or before the worker could know that it had. */
export function isInFlight(endedAtMs: number, atMs: number, ignorance: readonly Ignorance[]): boolean {
  return knownMs(endedAtMs, atMs, ignorance) <= graceMs;
}

/** Returns how much of the time between two moments the worker could have known what happened at the first of them. */
function knownMs(fromMs: number, toMs: number, ignorance: readonly Ignorance[]): number {
  const unknown = ignorance
    .map((one) => ({ fromMs: Math.max(one.fromMs, fromMs), toMs: Math.min(one.toMs + recoveryMs, toMs) }))
    .filter((one) => one.toMs > one.fromMs)
    .toSorted((a, b) => a.fromMs - b.fromMs);
  let [known, at] = [0, fromMs];
  for (const one of unknown) {
    known += Math.max(0, one.fromMs - at);
    at = Math.max(at, one.toMs);
  }
  return known + Math.max(0, toMs - at);
}

function drainsIn(log: AuditLog): Drain[] {
  const drains: Drain[] = [];
  const open = new Map<string, Drain>();
  replay(log, (write, state) => {
    if (write.resource !== 'nodemaintenances') return;
    const draining = state
      .draining()
      .flatMap(({ uid, name, nodes }) => [...nodes].map((node) => ({ key: `${uid} ${node}`, name, node })));
    for (const { key, name, node } of draining) {
      if (open.has(key)) continue;
      const drain = { maintenance: name, node, fromMs: write.receivedMs, began: write.event, end: undefined };
      open.set(key, drain);
      drains.push(drain);
    }
    for (const [key, drain] of open) {
      if (draining.some((one) => one.key === key)) continue;
      drain.end = { atMs: write.answeredMs, event: write.event };
      open.delete(key);
    }
  });
  return drains;
}

function leavingsIn(log: AuditLog): Leaving[] {
  const leavings: Leaving[] = [];
  replay(log, (write, state) => {
    const podUid = requestedPodOf(write)?.uid ?? removedPodOf(write);
    if (podUid === undefined) return;
    const isForbidden = [...state.requests.values()].some((one) => one.podUid === podUid && one.isForbidden);
    leavings.push({ what: whatOf(write), podUid, atMs: write.receivedMs, event: write.event, isForbidden });
  });
  return leavings;
}

function whatOf(write: Write): string {
  if (requestedPodOf(write) !== undefined) return 'asked to leave';
  return write.resource === 'pods/eviction' ? 'evicted' : 'deleted';
}
