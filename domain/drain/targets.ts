import type { Pod } from '../../api/core.ts';
import type { DrainPlanEntry } from '../../api/nodeMaintenance.ts';
import { podTypes } from './plan.ts';
import { selectorKey, selectsLabels } from '../common/labelSelector.ts';
import { podPriorityOf, podTypeOf } from '../common/pod.ts';

/**
 * Selects the targeted pods: at most one entry per (podType, podSelector), with the highest podPriority reached. Ordered by inclusion of the
 * selected pods, drain targets form a lattice: `meet` selects the pods that all of its arguments select, `join` those that any of them selects.
 */
export type DrainTargets = readonly DrainPlanEntry[];

/** Entries differ by (podType, podSelector). A pod type without an entry is not targeted. */
const keyOf = ({ podType, podSelector }: DrainPlanEntry): string => `${podType}/${selectorKey(podSelector)}`;

/**
 * Returns the targets that a maintenance desires at a position of its complete plan: per (podType, podSelector) "the highest priority among
 * entries 0..position of that podType whose selector is that one or absent" (KEP-4212 > PodTypes and Label Selectors Progression).
 */
export function desiredTargetsAt(plan: readonly DrainPlanEntry[], position: number): DrainTargets {
  const reached = plan.slice(0, position + 1);
  const latest = reached.at(-1);
  if (latest === undefined) return [];
  const started = plan.filter((entry) => podTypes.indexOf(entry.podType) <= podTypes.indexOf(latest.podType));
  return distinct(started).flatMap((entry) => withPriority(entry, reachedBy(reached, entry)));
}

/** Returns the targets that select the pods that all of the given targets select: "the least powerful DrainTargets among them" (KEP-4212 > DrainTargets). */
export function meet(all: readonly DrainTargets[]): DrainTargets {
  return distinct(all.flat()).flatMap((entry) =>
    withPriority(entry, Math.min(...all.map((targets) => reachedBy(targets, entry)))),
  );
}

/** Returns the targets that select the pods that any of the given targets selects. Implements "DrainTargets cannot backtrack". */
export function join(all: readonly DrainTargets[]): DrainTargets {
  return distinct(all.flat()).flatMap((entry) =>
    withPriority(entry, Math.max(...all.map((targets) => reachedBy(targets, entry)))),
  );
}

/** Returns the drain targets of a node: the meet of the desired targets of its maintenances, joined with those it has already reached. */
export function resolveDrainTargets(reached: DrainTargets, desired: readonly DrainTargets[]): DrainTargets {
  return join([reached, meet(desired)]);
}

/** "Pods with a priority less or equal to this value are selected." */
export function targetsPod(targets: DrainTargets, pod: Pod): boolean {
  return indexOfTargeting(targets, pod) >= 0;
}

/** Returns the index of the first entry that selects the pod, or -1. */
export function indexOfTargeting(entries: readonly DrainPlanEntry[], pod: Pod): number {
  const podType = podTypeOf(pod);
  const priority = podPriorityOf(pod);
  return entries.findIndex(
    (entry) =>
      entry.podType === podType &&
      priority <= entry.podPriority &&
      (entry.podSelector === undefined || selectsLabels(entry.podSelector, pod.metadata.labels ?? {})),
  );
}

/** Returns true if `targets` select pods that `bound` does not. */
export function exceeds(targets: DrainTargets, bound: DrainTargets): boolean {
  return targets.some((entry) => entry.podPriority > reachedBy(bound, entry));
}

/** Returns the priority up to which `targets` select the pods of the entry's key. An entry without a selector covers all pods of its type. */
function reachedBy(targets: DrainTargets, { podType, podSelector }: DrainPlanEntry): number {
  const key = selectorKey(podSelector);
  const covering = targets.filter(
    (entry) =>
      entry.podType === podType &&
      (entry.podSelector === undefined || selectorKey(entry.podSelector) === key),
  );
  return Math.max(Number.NEGATIVE_INFINITY, ...covering.map((entry) => entry.podPriority));
}

function withPriority(entry: DrainPlanEntry, podPriority: number): DrainTargets {
  return podPriority === Number.NEGATIVE_INFINITY ? [] : [{ ...entry, podPriority }];
}

/** Returns one entry per key, in the order of the KEP: by pod type, entries without a selector first. */
function distinct(entries: readonly DrainPlanEntry[]): DrainPlanEntry[] {
  const byKey = new Map(entries.map((entry) => [keyOf(entry), entry] as const));
  const rank = (entry: DrainPlanEntry) => podTypes.indexOf(entry.podType);
  return [...byKey]
    .toSorted(([keyA, a], [keyB, b]) => rank(a) - rank(b) || (keyA < keyB ? -1 : 1))
    .map(([, entry]) => entry);
}
