import type { Pod } from '../api/core.ts';
import type { DrainPlanEntry } from '../api/nodeMaintenance.ts';
import { podTypes } from './drainPlan.ts';
import { selectorKey, selectsLabels } from './labelSelector.ts';
import { podPriorityOf, podTypeOf } from './pod.ts';

/**
 * Which pods are targeted: at most one entry per (podType, podSelector), each with the highest podPriority that it
 * reaches. Ordered by inclusion of the pods that they select, drain targets form a lattice: `meet` selects what all
 * of its arguments select, `join` what any of them selects.
 */
export type DrainTargets = readonly DrainPlanEntry[];

/** Pods are told apart by (podType, podSelector) alone: a pod type that has no entry is not targeted at all. */
const keyOf = ({ podType, podSelector }: DrainPlanEntry): string => `${podType}/${selectorKey(podSelector)}`;

/**
 * What a maintenance wants at one position of its own (complete) plan: per (podType, podSelector) "the highest priority
 * among entries 0..position of that podType whose selector is that one or absent"
 * (KEP-4212 > PodTypes and Label Selectors Progression).
 */
export function wishAt(plan: readonly DrainPlanEntry[], position: number): DrainTargets {
  const passed = plan.slice(0, position + 1);
  const latest = passed.at(-1);
  if (latest === undefined) return [];
  const begun = plan.filter((entry) => podTypes.indexOf(entry.podType) <= podTypes.indexOf(latest.podType));
  return distinct(begun).flatMap((entry) => raise(entry, reachedBy(passed, entry)));
}

/** What every one of the targets selects: "the least powerful DrainTargets among them" (KEP-4212 > DrainTargets). */
export function meet(all: readonly DrainTargets[]): DrainTargets {
  return distinct(all.flat()).flatMap((entry) =>
    raise(entry, Math.min(...all.map((targets) => reachedBy(targets, entry)))),
  );
}

/** What any of the targets selects: used for "DrainTargets cannot backtrack". */
export function join(all: readonly DrainTargets[]): DrainTargets {
  return distinct(all.flat()).flatMap((entry) =>
    raise(entry, Math.max(...all.map((targets) => reachedBy(targets, entry)))),
  );
}

/** The drain targets of a node: the meet of the wishes of its maintenances, never less than what it already reached. */
export function resolveDrainTargets(reached: DrainTargets, wishes: readonly DrainTargets[]): DrainTargets {
  return join([reached, meet(wishes)]);
}

/** "Pods with a priority less or equal to this value are selected." */
export function targetsPod(targets: DrainTargets, pod: Pod): boolean {
  const podType = podTypeOf(pod);
  const priority = podPriorityOf(pod);
  return targets.some(
    (entry) =>
      entry.podType === podType &&
      priority <= entry.podPriority &&
      (entry.podSelector === undefined || selectsLabels(entry.podSelector, pod.metadata.labels ?? {})),
  );
}

/** Whether `targets` select pods that `bound` does not: then they go further than whoever wants `bound` asks for. */
export function exceeds(targets: DrainTargets, bound: DrainTargets): boolean {
  return targets.some((entry) => entry.podPriority > reachedBy(bound, entry));
}

/** The priority up to which `targets` select the pods of an entry's key; an entry without a selector covers them all. */
function reachedBy(targets: DrainTargets, { podType, podSelector }: DrainPlanEntry): number {
  const key = selectorKey(podSelector);
  const covering = targets.filter(
    (entry) =>
      entry.podType === podType &&
      (entry.podSelector === undefined || selectorKey(entry.podSelector) === key),
  );
  return Math.max(Number.NEGATIVE_INFINITY, ...covering.map((entry) => entry.podPriority));
}

function raise(entry: DrainPlanEntry, podPriority: number): DrainTargets {
  return podPriority === Number.NEGATIVE_INFINITY ? [] : [{ ...entry, podPriority }];
}

/** One entry per key, in the order in which the KEP lists them: by pod type, without a selector first. */
function distinct(entries: readonly DrainPlanEntry[]): DrainPlanEntry[] {
  const byKey = new Map(entries.map((entry) => [keyOf(entry), entry] as const));
  const rank = (entry: DrainPlanEntry) => podTypes.indexOf(entry.podType);
  return [...byKey]
    .toSorted(([keyA, a], [keyB, b]) => rank(a) - rank(b) || (keyA < keyB ? -1 : 1))
    .map(([, entry]) => entry);
}
