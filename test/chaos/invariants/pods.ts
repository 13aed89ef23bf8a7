import type { Evacuation } from '../../../api/evacuation.ts';
import type { AuditEvent, AuditLog } from './audit.ts';
import { isRequest, podsIn, removedPodOf, replay } from './cluster.ts';
import type { Violation } from './invariants.ts';

/** No pod is evicted twice, nor has two Evacuations at a time. */
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
    if (!isRequest(write)) return;
    const { podRef } = (write.object as Evacuation).spec;
    const others = [...state.evacuations.values()].filter(
      (one) => one.podUid === podRef.uid && !one.isWithdrawn && !one.isGone,
    );
    if (others.length > 1)
      violations.push({
        invariant: 'once',
        message: `Pod ${write.namespace}/${podRef.name} had ${others.length} Evacuations at a time`,
        events: others.map(({ last }) => last),
      });
  });
  return violations;
}

const consent = 'evacuation.coordination.k8s.io/priority_statefulset.apps.k8s.io';

/**
 * No pod is deleted around its budget: the worker deletes DaemonSet pods, which no budget protects, pods of StatefulSets whose owners
 * permit it, and what a deadline deletes. Everything else is evicted, which the apiserver admits or rejects. No pod is killed without its grace period.
 */
export function deletedAroundBudgets(log: AuditLog): Violation[] {
  const violations: Violation[] = [];
  replay(log, (write, state) => {
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
    const hasDeadline = state.drainingOn(pod.node ?? '').some(({ deletesAtDeadline }) => deletesAtDeadline);
    if (pod.type === 'DaemonSet' || pod.annotations[consent] !== undefined || hasDeadline) return;
    violations.push({
      invariant: 'budgets',
      message: `Pod ${pod.key} was deleted, and not evicted, so that no budget was asked`,
      events: [write.event],
    });
  });
  return violations;
}
