import type { AuditEvent, AuditLog } from './audit.ts';
import { podsIn, removedPodOf, replay, requestedPodOf } from './cluster.ts';
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
 * permit it, and what a deadline deletes (whether too late, invariant `cancel` says). Everything else is evicted, which the apiserver admits or rejects. No pod is killed without its grace period.
 */
export function deletedAroundBudgets(log: AuditLog): Violation[] {
  const violations: Violation[] = [];
  /** Nodes that a maintenance with such a deadline drains or has drained. */
  const withDeadline = new Set<string>();
  replay(log, (write, state) => {
    for (const { nodes, deletesAtDeadline } of state.draining())
      if (deletesAtDeadline) for (const node of nodes) withDeadline.add(node);
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
    const hasDeadline = withDeadline.has(pod.node ?? '');
    if (pod.type === 'DaemonSet' || pod.annotations[consent] !== undefined || hasDeadline) return;
    violations.push({
      invariant: 'budgets',
      message: `Pod ${pod.key} was deleted, and not evicted, so that no budget was asked`,
      events: [write.event],
    });
  });
  return violations;
}
