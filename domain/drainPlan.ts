import type { DrainPlanEntry, PodType } from '../api/nodeMaintenance.ts';
import { selectorKey, selectorText } from './labelSelector.ts';

/** "nil -> DaemonSet -> Static" (KEP-4212 > NodeMaintenance API); nil is Default. */
export const podTypes: readonly PodType[] = ['Default', 'DaemonSet', 'Static'];

/** The largest podPriority, an int32. */
const maxPriority = 2_147_483_647;

const injectedPriorities = [
  1_000_000_000, // highest priority for user defined priority classes
  2_000_000_000, // system-cluster-critical priority class
  2_000_001_000, // system-node-critical priority class
  maxPriority, // maximum value
];

/** The twelve entries "injected into the drainPlan on the NodeMaintenance admission" (KEP-4212 > Pod Selection). */
export const injectedEntries: readonly DrainPlanEntry[] = podTypes.flatMap((podType) =>
  injectedPriorities.map((podPriority) => ({ podPriority, podType })),
);

/** Order of execution: by pod type, then priority; "if the priority and podType are the same, concrete selectors are executed first". */
export function compareEntries(a: DrainPlanEntry, b: DrainPlanEntry): number {
  return (
    podTypes.indexOf(a.podType) - podTypes.indexOf(b.podType) ||
    a.podPriority - b.podPriority ||
    Number(a.podSelector === undefined) - Number(b.podSelector === undefined)
  );
}

/** Identifies an entry among the entries of a plan: same key, same pods, same place. */
export function entryKey({ podType, podPriority, podSelector }: DrainPlanEntry): string {
  return `${podType}/${podPriority}/${selectorKey(podSelector)}`;
}

/** For people: `Default pods with app=web up to 5000`. */
export function entryText({ podType, podPriority, podSelector }: DrainPlanEntry): string {
  const selector = podSelector === undefined ? '' : selectorText(podSelector);
  return `${podType} pods${selector === '' ? '' : ` with ${selector}`} up to ${podPriority}`;
}

/**
 * The plan that is executed: the user's entries and those of the injected ones that it lacks, in order.
 * Idempotent; equal entries keep the place where the user wrote them.
 */
export function completeDrainPlan(plan: readonly DrainPlanEntry[] = []): DrainPlanEntry[] {
  const present = new Set(plan.map(entryKey));
  const missing = injectedEntries.filter((entry) => !present.has(entryKey(entry)));
  return [...plan, ...missing].toSorted(compareEntries);
}

/** Every breach of the rules for a drain plan, each naming the entry and the remedy; empty for a sound plan. */
export function drainPlanProblems(plan: readonly DrainPlanEntry[]): string[] {
  const firstWithKey = new Map<string, number>();
  return plan.flatMap((entry, index) => {
    const key = entryKey(entry);
    const twin = firstWithKey.get(key);
    if (twin !== undefined) return [`drainPlan[${index}] repeats drainPlan[${twin}]: remove one of them`];
    firstWithKey.set(key, index);
    return outOfOrder(plan[index - 1], entry, index);
  });
}

function outOfOrder(previous: DrainPlanEntry | undefined, entry: DrainPlanEntry, index: number): string[] {
  if (previous === undefined || compareEntries(previous, entry) <= 0) return [];
  return [`drainPlan[${index}] ${breach(previous, entry)}: move it before drainPlan[${index - 1}]`];
}

function breach(previous: DrainPlanEntry, entry: DrainPlanEntry): string {
  if (previous.podType !== entry.podType) {
    return `has podType ${entry.podType} after ${previous.podType} (the order is ${podTypes.join(' -> ')})`;
  }
  if (previous.podPriority !== entry.podPriority) {
    return `has podPriority ${entry.podPriority} after ${previous.podPriority} (ascending for each podType)`;
  }
  return 'has a podSelector and follows the entry of the same priority without one (concrete selectors are executed first)';
}
