import type { AuditEvent, AuditLog } from './audit.ts';
import { type MaintenanceState, podsIn, removedPodOf, replay, requestedPodOf } from './cluster.ts';
import { type Ignorance, isInFlight } from './drains.ts';
import type { Violation } from './invariants.ts';

/** No pod is evicted twice, nor has two Evacuations, or two EvictionRequests, at a time. */
export function askedTwice(log: AuditLog): Violation[] {
  const violations: Violation[] = [];
  const pods = podsIn(log);
  const evicted = new Map<string, AuditEvent>();
  replay(log, (write, state) => {
    if (write.resource === 'pods/eviction') {
      const uid = removedPodOf(write);
      if (uid === undefined) return;
      const first = evicted.get(uid);
      if (first !== undefined)
        violations.push({
          invariant: 'once',
          message: `Pod ${pods.get(uid)?.key ?? uid} was evicted twice`,
          events: [first, write.event],
        });
      evicted.set(uid, first ?? write.event);
    }
    const asked = requestedPodOf(write);
    if (asked === undefined) return;
    const others = [...state.requests.values()].filter(
      (one) => one.api === write.resource && one.podUid === asked.uid && !one.isWithdrawn && !one.isGone,
    );
    if (others.length > 1)
      violations.push({
        invariant: 'once',
        message: `Pod ${write.namespace}/${asked.name} had ${others.length} ${write.resource} at a time`,
        events: others.map(({ last }) => last),
      });
  });
  return violations;
}

const consent = 'evacuation.coordination.k8s.io/priority_statefulset.apps.k8s.io';

/**
 * No pod is deleted around its budget: the worker deletes DaemonSet pods, which no budget protects, pods of StatefulSets whose owners
 * permit it, and what a deadline deletes (by requests that may be in flight when its drain ends, too). Everything else is evicted, which the apiserver admits or rejects. No pod is killed without its grace period.
 */
export function deletedAroundBudgets(log: AuditLog, ignorance: readonly Ignorance[]): Violation[] {
  const violations: Violation[] = [];
  /** Node -> when the latest drain whose deadline had started to delete ended; Infinity while one lasts. */
  const deadlineEndMs = new Map<string, number>();
  replay(log, (write, state) => {
    noteDeadlines(deadlineEndMs, state.draining(), write.answeredMs);
    const uid = write.resource === 'pods' ? removedPodOf(write) : undefined;
    const pod = uid === undefined ? undefined : state.pods.get(uid);
    if (pod === undefined) return;
    const { gracePeriodSeconds } = (write.request ?? {}) as { gracePeriodSeconds?: number };
    if (gracePeriodSeconds === 0)
      violations.push({
        invariant: 'budgets',
        message: `Pod ${pod.key} was killed without its grace period`,
        events: [write.event],
      });
    const hasDeadline = isInFlight(
      deadlineEndMs.get(pod.node ?? '') ?? -Infinity,
      write.receivedMs,
      ignorance,
    );
    if (pod.type === 'DaemonSet' || pod.annotations[consent] !== undefined || hasDeadline) return;
    violations.push({
      invariant: 'budgets',
      message: `Pod ${pod.key} was deleted, and not evicted, so that no budget was asked`,
      events: [write.event],
    });
  });
  return violations;
}

/** Notes on which nodes such drains last, and of the others when they ended. */
function noteDeadlines(
  endMs: Map<string, number>,
  draining: readonly MaintenanceState[],
  nowMs: number,
): void {
  const withDeadline = draining.filter(({ deletesFromMs }) => deletesFromMs <= nowMs);
  const lasting = new Set(withDeadline.flatMap(({ nodes }) => [...nodes]));
  for (const [node, ms] of endMs) if (ms === Infinity && !lasting.has(node)) endMs.set(node, nowMs);
  for (const node of lasting) endMs.set(node, Infinity);
}
