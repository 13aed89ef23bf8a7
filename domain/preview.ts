import type { Pod, PodDisruptionBudget } from '../api/core.ts';
import type { Evacuator } from '../api/evacuation.ts';
import type { DrainPlanEntry, PodType } from '../api/nodeMaintenance.ts';
import { type Blocker, BlockerReason, needsAPerson, stuckTerminating } from './blocker.ts';
import { ambiguousMessage, budgetBlocker, budgetsOf, leavesUnguarded } from './disruption.ts';
import { entryText } from './drainPlan.ts';
import { targetsPod, wishAt } from './drainTargets.ts';
import { registeredEvacuators } from './evacuator.ts';
import { compareNames } from './names.ts';
import { daemonSetOf, isFinished, podName, podPriorityOf, podTypeOf } from './pod.ts';

/** What a drain is foretold from, without touching anything. */
export interface PreviewFacts {
  /** The complete plan (see completeDrainPlan), and the position from which it is followed. */
  plan: readonly DrainPlanEntry[];
  from?: number;
  /** On the nodes in question. */
  pods: readonly PreviewedPod[];
  budgets: readonly PodDisruptionBudget[];
  now: Date;
}

export interface PreviewedPod {
  pod: Pod;
  /** Names of its volumes whose data go with it. */
  emptyDirs: readonly string[];
}

/** What would happen, tier by tier; tiers without pods are left out. */
export interface Preview {
  readonly tiers: readonly TierPreview[];
  /** Pods that nothing in the cluster can end. */
  readonly stays: readonly PodPreview[];
  /** Budgets that would keep pods back, or let them go only in turns. */
  readonly budgets: readonly BudgetPreview[];
  /** Whether the drain would not end by itself. */
  readonly blocked: boolean;
}

export interface TierPreview {
  /** Of the drain plan, counted from 1. */
  readonly entry: number;
  readonly selects: string;
  readonly pods: readonly PodPreview[];
}

export interface PodPreview {
  readonly pod: string;
  readonly node: string;
  readonly podType: PodType;
  readonly priority: number;
  /** In the order in which they are asked; after the last one, or without any, the eviction API is. */
  readonly evacuators: readonly Evacuator[];
  /** What keeps it where it is. */
  readonly blockers: readonly Blocker[];
  /** What its owner may want to know before it goes. */
  readonly notes: readonly Note[];
}

export const NoteReason = {
  /** It is not made again. */
  NoController: 'NoController',
  /** The data in its volumes are lost. */
  EmptyDir: 'EmptyDir',
  /** Its DaemonSet makes it again on this node, in Complete. */
  ComesBack: 'ComesBack',
  /** It ends already. */
  Terminating: 'Terminating',
  /** An annotation that names an evacuator cannot be read. */
  EvacuatorIgnored: 'EvacuatorIgnored',
} as const;
export type NoteReason = (typeof NoteReason)[keyof typeof NoteReason];

export interface Note {
  readonly reason: NoteReason;
  readonly message: string;
}

export interface BudgetPreview {
  readonly budget: string;
  /** Pods of the drain that it guards, and how many of them may go now. */
  readonly pods: number;
  readonly allowed: number;
  /** Never: somebody has to act. NotNow: when other pods are ready. InTurns: not all at once. Some: so many, and no more. */
  readonly lets: 'Never' | 'NotNow' | 'InTurns' | 'Some';
  /** Of Some: how many pods would stay, because nothing makes those again that have left. */
  readonly stuck?: number;
  readonly message: string;
}

/** Total, and the same for any order of pods and budgets. */
export function previewDrain(facts: PreviewFacts): Preview {
  const { plan, from = 0 } = facts;
  const wishes = plan.map((_, position) => wishAt(plan, position));
  const pods = facts.pods.toSorted((a, b) => compareNames(podName(a.pod), podName(b.pod)));
  const evacuable = pods.filter(({ pod }) => podTypeOf(pod) !== 'Static');
  const byPosition = Map.groupBy(evacuable, ({ pod }) =>
    Math.max(
      from,
      wishes.findIndex((wish) => targetsPod(wish, pod)),
    ),
  );
  const tiers = [...byPosition]
    .toSorted(([a], [b]) => a - b)
    .map(([position, members]) => ({
      entry: position + 1,
      selects: plan[position] === undefined ? '' : entryText(plan[position]),
      pods: members.map((member) => podPreview(member, facts)),
    }));
  const budgets = budgetPreviews(evacuable, facts);
  const blocked = tiers.some((tier) => tier.pods.some(isStuck)) || budgets.some(({ stuck = 0 }) => stuck > 0);
  return {
    tiers,
    stays: pods.filter(({ pod }) => podTypeOf(pod) === 'Static').map((one) => podPreview(one, facts)),
    budgets,
    blocked,
  };
}

/** Whether neither waiting nor an evacuator mends it. */
export function isStuck(pod: PodPreview): boolean {
  return pod.blockers.some((blocker) => needsAPerson(blocker) && !isExcused(pod, blocker));
}

const ofBudgets: readonly string[] = [
  BlockerReason.DisruptionBudget,
  BlockerReason.DisruptionBudgetNeverAllows,
  BlockerReason.SeveralDisruptionBudgets,
];

/** What an evacuator takes away needs no eviction; a pod that does not end is beyond evacuators too. */
export function isExcused({ evacuators }: PodPreview, { reason }: Blocker): boolean {
  return evacuators.length > 0 && ofBudgets.includes(reason);
}

function podPreview({ pod, emptyDirs }: PreviewedPod, facts: PreviewFacts): PodPreview {
  const { evacuators, problems } = registeredEvacuators(pod);
  return {
    pod: podName(pod),
    node: pod.spec.nodeName ?? '',
    podType: podTypeOf(pod),
    priority: podPriorityOf(pod),
    evacuators,
    blockers: blockersOf(pod, facts),
    notes: [
      ...problems.map((message) => ({ reason: NoteReason.EvacuatorIgnored, message })),
      ...notesOf(pod, emptyDirs),
    ],
  };
}

/** Only evictions ask budgets: neither the pods of DaemonSets nor those that end already do. */
function isGuarded(pod: Pod): boolean {
  return podTypeOf(pod) === 'Default' && pod.metadata.deletionTimestamp === undefined;
}

function blockersOf(pod: Pod, { budgets, now }: PreviewFacts): Blocker[] {
  if (pod.metadata.deletionTimestamp !== undefined) {
    const stuck = stuckTerminating(pod, now);
    return stuck === undefined ? [] : [stuck];
  }
  if (!isGuarded(pod)) return [];
  const own = budgetsOf(pod, budgets);
  if (own.length > 1)
    return [{ reason: BlockerReason.SeveralDisruptionBudgets, message: ambiguousMessage(own) }];
  return own
    .filter((budget) => allowedBy(budget) === 0 && !leavesUnguarded(pod, budget))
    .map((budget) => budgetBlocker(budget));
}

function notesOf(pod: Pod, emptyDirs: readonly string[]): Note[] {
  const notes: Note[] = [];
  const daemonSet = daemonSetOf(pod);
  const podType = podTypeOf(pod);
  if (pod.metadata.deletionTimestamp !== undefined)
    notes.push({ reason: NoteReason.Terminating, message: 'it ends already' });
  if (daemonSet !== undefined) {
    const message = `DaemonSet ${daemonSet.name} makes it again on this node, and it stays away until Complete`;
    notes.push({ reason: NoteReason.ComesBack, message });
  }
  if (podType === 'Default' && !hasController(pod) && !isFinished(pod))
    notes.push({ reason: NoteReason.NoController, message: 'no controller makes it again' });
  if (podType !== 'Static' && emptyDirs.length > 0)
    notes.push({ reason: NoteReason.EmptyDir, message: `data in emptyDir ${emptyDirs.join(', ')} are lost` });
  return notes;
}

function hasController({ metadata }: Pod): boolean {
  return metadata.ownerReferences?.some(({ controller }) => controller === true) === true;
}

function budgetPreviews(pods: readonly PreviewedPod[], { budgets }: PreviewFacts): BudgetPreview[] {
  return budgets
    .toSorted((a, b) => compareNames(nameOf(a), nameOf(b)))
    .flatMap((budget) => {
      const guarded = pods.filter(
        ({ pod }) => isGuarded(pod) && budgetsOf(pod, [budget]).length > 0 && !leavesUnguarded(pod, budget),
      );
      const allowed = allowedBy(budget);
      if (guarded.length === 0 || guarded.length <= allowed) return [];
      const lasting = guarded.filter(
        ({ pod }) => !hasController(pod) && registeredEvacuators(pod).evacuators.length === 0,
      );
      return [budgetPreview(budget, guarded.length, lasting.length)];
    });
}

/** `lasting`: how many of the pods are gone for good when they have left. */
function budgetPreview(budget: PodDisruptionBudget, pods: number, lasting: number): BudgetPreview {
  const allowed = allowedBy(budget);
  const facts = { budget: nameOf(budget), pods, allowed };
  const stuck = lasting - allowed;
  if (allowed > 0 && stuck > 0) {
    const message = `${lasting} pods have no controller that makes them again, and ${allowed} of them may leave: the other ${stuck} stay for ever, unless somebody adds pods or relaxes the budget.`;
    return { ...facts, lets: 'Some', stuck, message };
  }
  if (allowed > 0) {
    const message = `${pods} pods have to leave, ${allowed} at a time: each next one when its replacement is ready.`;
    return { ...facts, lets: 'InTurns', message };
  }
  const { reason, message } = budgetBlocker(budget);
  return {
    ...facts,
    lets: reason === BlockerReason.DisruptionBudgetNeverAllows ? 'Never' : 'NotNow',
    message,
  };
}

function allowedBy({ status }: PodDisruptionBudget): number {
  return status?.disruptionsAllowed ?? 0;
}

function nameOf({ metadata }: PodDisruptionBudget): string {
  return `${metadata.namespace}/${metadata.name}`;
}
