import type { DrainPlanEntry, NodeMaintenance, PodType } from '../../api/nodeMaintenance.ts';
import { selectorKey, selectorText } from '../common/labelSelector.ts';
import { memoized } from '../common/memoized.ts';

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

/** Compares by order of execution: by pod type, then priority; "if the priority and podType are the same, concrete selectors are executed first". */
export function compareEntries(a: DrainPlanEntry, b: DrainPlanEntry): number {
  return (
    podTypes.indexOf(a.podType) - podTypes.indexOf(b.podType) ||
    a.podPriority - b.podPriority ||
    Number(a.podSelector === undefined) - Number(b.podSelector === undefined)
  );
}

/** Returns the key of an entry: entries with the same key select the same pods and have the same place in the plan. */
export function entryKey({ podType, podPriority, podSelector }: DrainPlanEntry): string {
  return `${podType}/${podPriority}/${selectorKey(podSelector)}`;
}

/** Formats an entry: `Default pods with app=web and priority up to 5000`. */
export function entryText({ podType, podPriority, podSelector }: DrainPlanEntry): string {
  const selector = podSelector === undefined ? '' : selectorText(podSelector);
  const priority = `priority up to ${podPriority}`;
  return `${podType} pods with ${selector === '' ? priority : `${selector} and ${priority}`}`;
}

/**
 * Returns the plan that is executed: the user's entries and the injected entries that are missing, in order. Idempotent; equal entries keep
 * the order in which the user wrote them.
 */
export function completeDrainPlan(plan: readonly DrainPlanEntry[] = []): DrainPlanEntry[] {
  const present = new Set(plan.map(entryKey));
  const missing = injectedEntries.filter((entry) => !present.has(entryKey(entry)));
  return [...plan, ...missing].toSorted(compareEntries);
}

/** Returns the complete drain plan of a maintenance. Computed once for each object, because a drain compares many maintenances after every change. */
export function planOf({ spec }: Pick<NodeMaintenance, 'spec'>): readonly DrainPlanEntry[] {
  return completed(spec.drainPlan ?? noEntries);
}

const noEntries: readonly DrainPlanEntry[] = [];
const completed = memoized((plan: readonly DrainPlanEntry[]): readonly DrainPlanEntry[] =>
  completeDrainPlan(plan),
);

/** Returns the index of the entry of the complete drain plan that the maintenance has reached. */
export function positionOf({ spec, status }: Pick<NodeMaintenance, 'spec' | 'status'>): number {
  return Math.min(status?.drainPosition ?? 0, planOf({ spec }).length - 1);
}

/**
 * Returns the position that a drain activity works at: the requested one, unless the maintenance has not reached it. `requested` arrives
 * through Temporal and may be anything; no drain skips a tier.
 */
export function allowedPosition(
  requested: unknown,
  maintenance: Pick<NodeMaintenance, 'spec' | 'status'>,
): number {
  const reached = positionOf(maintenance);
  const isPosition = Number.isSafeInteger(requested) && (requested as number) >= 0;
  return isPosition ? Math.min(requested as number, reached) : reached;
}

/** Returns every violation of the rules for a drain plan, with the entry and the remedy. Empty for a valid plan. */
export function drainPlanProblems(plan: readonly DrainPlanEntry[]): string[] {
  const firstWithKey = new Map<string, number>();
  return plan.flatMap((entry, index) => {
    const key = entryKey(entry);
    const first = firstWithKey.get(key);
    if (first !== undefined) return [`drainPlan[${index}] repeats drainPlan[${first}]: remove one of them`];
    firstWithKey.set(key, index);
    return orderProblems(plan[index - 1], entry, index);
  });
}

function orderProblems(previous: DrainPlanEntry | undefined, entry: DrainPlanEntry, index: number): string[] {
  if (previous === undefined || compareEntries(previous, entry) <= 0) return [];
  return [`drainPlan[${index}] ${violation(previous, entry)}: move it before drainPlan[${index - 1}]`];
}

function violation(previous: DrainPlanEntry, entry: DrainPlanEntry): string {
  if (previous.podType !== entry.podType) {
    return `has podType ${entry.podType} after ${previous.podType} (the order is ${podTypes.join(' -> ')})`;
  }
  if (previous.podPriority !== entry.podPriority) {
    return `has podPriority ${entry.podPriority} after ${previous.podPriority} (ascending for each podType)`;
  }
  return 'has a podSelector and follows the entry of the same priority without one (concrete selectors are executed first)';
}
