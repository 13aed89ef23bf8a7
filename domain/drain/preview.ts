import type { Pod, PodDisruptionBudget } from '../../api/core.ts';
import type { Evacuation, Evacuator } from '../../api/evacuation.ts';
import { DAEMONSET_EVACUATOR, DEPLOYMENT_EVACUATOR } from '../../api/names.ts';
import type { DrainPlanEntry, DrainTier, PodType } from '../../api/nodeMaintenance.ts';
import {
  type Blocker,
  BlockerReason,
  blockerOf,
  requiresIntervention,
  stuckTerminating,
} from '../evacuation/blocker.ts';
import {
  allowedBy,
  budgetBlocker,
  budgetBlockers,
  budgetsOf,
  bypassesBudget,
  neverAllowsDisruption,
} from '../evacuation/budgets.ts';
import { entryText } from './plan.ts';
import { type NodeAgent, noAgent } from '../leases/nodeAgent.ts';
import type { DeploymentRegistration } from '../leases/processSummary.ts';
import { type RemainingCause, remainingCause, remainingCauseText } from './remaining.ts';
import { drainTierAt, tierPositionOf } from './tiers.ts';
import {
  controllerEvacuator,
  inapplicableReason,
  registeredEvacuators,
  removesPodOfSeveralBudgets,
} from '../evacuation/evacuatorSelection.ts';
import type { RequestedEviction } from '../evacuation/evictionRequest.ts';
import { evictionBlocker } from '../evacuation/progress.ts';
import { evacuationOnlyReason } from '../evacuation/route.ts';
import { appsController, isReleased } from '../evacuation/podRelease.ts';
import { defaultEvictionApi, type EvictionApi } from '../common/evictionApi.ts';
import { compareNames } from '../common/names.ts';
import { numbered } from '../common/text.ts';
import { daemonSetOf, isFinished, podName, podPriorityOf, podTypeOf } from '../common/pod.ts';

/** The input of a preview. A preview changes nothing. */
export interface PreviewInput {
  /** The complete plan (see completeDrainPlan). */
  plan: readonly DrainPlanEntry[];
  /** The position and the tier that a drain in progress has reached. */
  from?: number;
  fromTier?: DrainTier | undefined;
  /** The pods on the selected nodes. */
  pods: readonly PreviewedPod[];
  budgets: readonly PodDisruptionBudget[];
  /** UID of a pod -> its Evacuation; only of a drain in progress. */
  evacuations?: ReadonlyMap<string, Evacuation>;
  /** UID of a pod -> its EvictionRequest. */
  requests?: ReadonlyMap<string, RequestedEviction>;
  /** API by which pods are asked to leave; Evacuations unless given. */
  evictionApi?: EvictionApi | undefined;
  /** Node name -> its agent; none for other nodes. */
  agents?: ReadonlyMap<string, NodeAgent>;
  /** Whether workers register the evacuator of Deployments for pods without evacuators (ADR 64). Undefined: it is not known. */
  registration?: DeploymentRegistration | undefined;
  now: Date;
}

export interface PreviewedPod {
  pod: Pod;
  /** Names of its emptyDir volumes, whose data are deleted with the pod. */
  emptyDirs: readonly string[];
  /** It mounts PersistentVolumeClaims. */
  hasClaims?: boolean;
}

/** The effects of a drain, tier by tier. Contains only tiers that have pods. */
export interface Preview {
  readonly tiers: readonly TierPreview[];
  /** Static pods that keep running. */
  readonly remaining: readonly PodPreview[];
  /** Budgets that would block pods, or allow only some of them at a time. */
  readonly budgets: readonly BudgetPreview[];
  /** The drain would not end without intervention. */
  readonly blocked: boolean;
}

export interface TierPreview {
  /** Number of the tier, counted from 1. Tiers without pods are not counted. */
  readonly tier: number;
  readonly selects: string;
  readonly pods: readonly PodPreview[];
}

export interface PodPreview {
  readonly pod: string;
  readonly node: string;
  readonly podType: PodType;
  readonly priority: number;
  /** Evacuators that can serve the pod, in the order in which they become active. The eviction API follows the last one. */
  readonly evacuators: readonly Evacuator[];
  /** Reasons why the pod cannot be evacuated. */
  readonly blockers: readonly Blocker[];
  /** Effects of the evacuation that the owner of the pod may want to know. */
  readonly notes: readonly Note[];
}

export const NoteReason = {
  /** No controller recreates the pod. */
  NoController: 'NoController',
  /** The data in its emptyDir volumes are lost. */
  EmptyDir: 'EmptyDir',
  /** Its DaemonSet, or the node agent, recreates it on this node after Complete. */
  Recreated: 'Recreated',
  /** The drain leaves it running. */
  Remains: 'Remains',
  /** The pod is already terminating. */
  Terminating: 'Terminating',
  /** An evacuator annotation of the pod is invalid, or its evacuator cannot serve the pod. */
  EvacuatorIgnored: 'EvacuatorIgnored',
  /** Workers register an evacuator for the pod, or may do so. */
  Registered: 'Registered',
} as const;
export type NoteReason = (typeof NoteReason)[keyof typeof NoteReason];

export interface Note {
  readonly reason: NoteReason;
  readonly message: string;
}

export interface BudgetPreview {
  readonly budget: string;
  /** Number of pods of the drain that the budget selects, and of those that may be disrupted now. */
  readonly pods: number;
  readonly allowed: number;
  /** Never: requires intervention. NotNow: only when other pods are ready. Gradually: not all at once. Some: only `allowed` pods. */
  readonly allows: 'Never' | 'NotNow' | 'Gradually' | 'Some';
  /** If `allows` is Some: number of pods that would remain, because no controller replaces the evicted ones. */
  readonly stuck?: number;
  readonly message: string;
}

/** Predicts the effects of a drain. The result does not depend on the order of pods and budgets. */
export function previewDrain(facts: PreviewInput): Preview {
  const { plan, from = 0, fromTier } = facts;
  const pods = facts.pods.toSorted((a, b) => compareNames(podName(a.pod), podName(b.pod)));
  const evacuable = pods.filter(({ pod }) => causeToRemain(pod, facts) === undefined);
  const byPosition = Map.groupBy(evacuable, ({ pod }) => tierPositionOf(plan, from, pod));
  const reached = drainTierAt({ drainPosition: from, drainTier: fromTier }, from, [...byPosition.keys()]);
  const finished = (reached?.number ?? 0) - (byPosition.has(from) ? 1 : 0);
  const tiers = [...byPosition]
    .toSorted(([a], [b]) => a - b)
    .map(([position, members], index) => ({
      tier: finished + index + 1,
      selects: plan[position] === undefined ? '' : entryText(plan[position]),
      pods: members.map((member) => podPreview(member, facts)),
    }));
  const budgets = budgetPreviews(evacuable, facts);
  const blocked = tiers.some((tier) => tier.pods.some(isStuck)) || budgets.some(({ stuck = 0 }) => stuck > 0);
  return {
    tiers,
    remaining: pods
      .filter(({ pod }) => causeToRemain(pod, facts) !== undefined)
      .map((one) => podPreview(one, facts)),
    budgets,
    blocked,
  };
}

function causeToRemain(pod: Pod, { agents }: PreviewInput): RemainingCause | undefined {
  return remainingCause(pod, agents?.get(pod.spec.nodeName ?? '') ?? noAgent);
}

/** Returns true if neither time nor an evacuator resolves a blocker of the pod. */
export function isStuck(pod: PodPreview): boolean {
  return pod.blockers.some(
    (blocker) => requiresIntervention(blocker) && !isBypassed(pod, blocker) && !isOvercome(pod, blocker),
  );
}

/** Returns true if a pod is evicted when the time of an evacuator that does not respond is over. */
function isOvercome({ podType }: PodPreview, { reason }: Blocker): boolean {
  return reason === BlockerReason.EvacuatorNotResponding && podType === 'Default';
}

const budgetReasons: readonly string[] = [
  BlockerReason.DisruptionBudget,
  BlockerReason.DisruptionBudgetNeverAllows,
  BlockerReason.MultipleDisruptionBudgets,
];

/** Returns true if an evacuator makes the eviction unnecessary. A pod that does not terminate blocks evacuators too. */
export function isBypassed({ evacuators }: PodPreview, { reason }: Blocker): boolean {
  const remaining =
    reason === BlockerReason.MultipleDisruptionBudgets
      ? evacuators.filter(({ evacuatorClass }) => removesPodOfSeveralBudgets(evacuatorClass))
      : evacuators;
  return remaining.length > 0 && budgetReasons.includes(reason);
}

function podPreview(previewed: PreviewedPod, facts: PreviewInput): PodPreview {
  const { pod, emptyDirs } = previewed;
  const { evacuators: registered, problems } = registeredEvacuators(pod);
  const ignored = registered.flatMap(({ evacuatorClass }) => {
    const why = ignoredReason(evacuatorClass, pod);
    return why === undefined ? [] : [`${evacuatorClass} cannot evacuate it: ${why}`];
  });
  const registers = mayBeRegistered(previewed, facts) ? (facts.registration ?? 'unknown') : 'annotated';
  const byEvacuation =
    registers === 'automatic' ? [controllerEvacuator(DEPLOYMENT_EVACUATOR)] : evacuatorsOf(pod);
  const evacuators = leavesByRequest(pod, facts) ? respondersOf(pod) : byEvacuation;
  return {
    pod: podName(pod),
    node: pod.spec.nodeName ?? '',
    podType: podTypeOf(pod),
    priority: podPriorityOf(pod),
    evacuators,
    blockers: blockersOf(pod, facts),
    notes: [
      ...[...problems, ...ignored].map((message) => ({ reason: NoteReason.EvacuatorIgnored, message })),
      ...(registers === 'annotated'
        ? []
        : [{ reason: NoteReason.Registered, message: registrationTexts[registers] }]),
      ...notesOf(pod, emptyDirs, causeToRemain(pod, facts)),
    ],
  };
}

const registrationTexts = {
  automatic:
    'replaced first (--deployment-registration automatic), unless its Deployment creates no additional pod during a rollout',
  unknown:
    'whether the workers replace it first (--deployment-registration automatic) is not known: no worker says so in its Lease',
} as const;

/** Reports whether the evacuator of Deployments is registered for a pod if the installation chooses so, as far as its Deployment permits it. */
function mayBeRegistered({ pod, hasClaims = false }: PreviewedPod, { budgets }: PreviewInput): boolean {
  if (!needsEviction(pod) || isFinished(pod) || hasClaims) return false;
  if (appsController(pod.metadata, 'ReplicaSet') === undefined) return false;
  if (registeredEvacuators(pod).evacuators.length > 0) return false;
  const own = budgetsOf(pod, budgets);
  return own.length === 1 && own.every(neverAllowsDisruption);
}

/** Where `auto` is chosen, it also takes a controller that serves EvictionRequests. */
function leavesByRequest(pod: Pod, { evictionApi = 'evacuation' }: PreviewInput): boolean {
  return evictionApi !== 'evacuation' && evacuationOnlyReason(pod) === undefined;
}

/** Returns the responders of the pod in the form of evacuators, in the order in which they become active. */
function respondersOf({ spec: { evictionResponders = [] } }: Pod): Evacuator[] {
  return evictionResponders
    .map(({ name, priority }) => ({ evacuatorClass: name, priority, role: 'responder' }))
    .toSorted((a, b) => b.priority - a.priority || compareNames(a.evacuatorClass, b.evacuatorClass));
}

function evacuatorsOf(pod: Pod): Evacuator[] {
  return registeredEvacuators(pod).evacuators.filter(
    ({ evacuatorClass }) => ignoredReason(evacuatorClass, pod) === undefined,
  );
}

/** Returns why an evacuator will not serve the pod. That of Deployments completes at once for a pod without a ReplicaSet. */
function ignoredReason(evacuatorClass: string, pod: Pod): string | undefined {
  const isReplaced = appsController(pod.metadata, 'ReplicaSet') !== undefined || isReleased(pod.metadata);
  if (evacuatorClass === DEPLOYMENT_EVACUATOR && !isReplaced) return 'no ReplicaSet controls the pod';
  return inapplicableReason(evacuatorClass, pod);
}

/** Returns false for pods that leave without an eviction: those of DaemonSets, and those that are terminating. */
function needsEviction(pod: Pod): boolean {
  return podTypeOf(pod) === 'Default' && pod.metadata.deletionTimestamp === undefined;
}

function blockersOf(pod: Pod, facts: PreviewInput): Blocker[] {
  if (pod.metadata.deletionTimestamp !== undefined) {
    const stuck = stuckTerminating(pod, facts.now);
    return stuck === undefined ? [] : [stuck];
  }
  return [...reportedBlockers(pod, facts), ...(needsEviction(pod) ? budgetBlockers(pod, facts.budgets) : [])];
}

/** Returns what blocks the Evacuation of a pod, except budgets, of which the preview knows more. */
function reportedBlockers(pod: Pod, { evacuations, requests, now }: PreviewInput): Blocker[] {
  const evacuation = evacuations?.get(pod.metadata.uid ?? '');
  const requested = requests?.get(pod.metadata.uid ?? '');
  const blocker = evacuation
    ? blockerOf(pod, evacuation, now)
    : requested && evictionBlocker(pod, requested, { now, responseMs: defaultResponseMs });
  if (blocker === undefined || budgetReasons.includes(blocker.reason)) return [];
  // This evacuator waits until the drain targets of the node include the pod.
  const waitsForTier =
    blocker.reason === BlockerReason.EvacuatorNotResponding &&
    evacuation?.status?.activeEvacuatorClass === DAEMONSET_EVACUATOR;
  return waitsForTier ? [] : [blocker];
}

function notesOf(pod: Pod, emptyDirs: readonly string[], cause: RemainingCause | undefined): Note[] {
  if (cause !== undefined)
    return [{ reason: NoteReason.Remains, message: remainingCauseText([{ pod, cause }]) }];
  const notes: Note[] = [];
  const daemonSet = daemonSetOf(pod);
  const podType = podTypeOf(pod);
  if (pod.metadata.deletionTimestamp !== undefined)
    notes.push({ reason: NoteReason.Terminating, message: 'it is already terminating' });
  if (daemonSet !== undefined) {
    const message = `DaemonSet ${daemonSet.name} recreates it on this node after Complete`;
    notes.push({ reason: NoteReason.Recreated, message });
  }
  if (podType === 'Static')
    notes.push({ reason: NoteReason.Recreated, message: 'the node agent starts it again after Complete' });
  if (podType === 'Default' && !hasController(pod) && !isFinished(pod))
    notes.push({ reason: NoteReason.NoController, message: 'no controller recreates it' });
  if (emptyDirs.length > 0)
    notes.push({
      reason: NoteReason.EmptyDir,
      message: `data in emptyDir ${emptyDirs.join(', ')} will be lost`,
    });
  return notes;
}

function hasController({ metadata }: Pod): boolean {
  return metadata.ownerReferences?.some(({ controller }) => controller === true) === true;
}

const defaultResponseMs = defaultEvictionApi.responseSeconds * 1_000;

function budgetPreviews(pods: readonly PreviewedPod[], { budgets }: PreviewInput): BudgetPreview[] {
  return budgets
    .toSorted((a, b) => compareNames(nameOf(a), nameOf(b)))
    .flatMap((budget) => {
      const selected = pods.filter(
        ({ pod }) =>
          needsEviction(pod) && budgetsOf(pod, [budget]).length > 0 && !bypassesBudget(pod, budget),
      );
      const allowed = allowedBy(budget);
      if (selected.length === 0 || selected.length <= allowed) return [];
      const unmanaged = selected.filter(({ pod }) => !hasController(pod) && evacuatorsOf(pod).length === 0);
      return [budgetPreview(budget, selected.length, unmanaged.length)];
    });
}

/** `unmanaged`: number of pods that neither a controller nor an evacuator replaces. */
function budgetPreview(budget: PodDisruptionBudget, pods: number, unmanaged: number): BudgetPreview {
  const allowed = allowedBy(budget);
  const facts = { budget: nameOf(budget), pods, allowed };
  const stuck = unmanaged - allowed;
  if (allowed > 0 && stuck > 0) {
    const message = `No controller recreates ${numbered(unmanaged, 'pod')}, and the budget allows ${numbered(allowed, 'disruption')}: ${stuck} will not be evicted unless pods are added or the budget is relaxed.`;
    return { ...facts, allows: 'Some', stuck, message };
  }
  if (allowed > 0) {
    const message = `${numbered(pods, 'pod')} must be evicted, ${allowed} at a time: the next one when a replacement is ready.`;
    return { ...facts, allows: 'Gradually', message };
  }
  const { reason, message } = budgetBlocker(budget);
  return {
    ...facts,
    allows: reason === BlockerReason.DisruptionBudgetNeverAllows ? 'Never' : 'NotNow',
    message,
  };
}

function nameOf({ metadata }: PodDisruptionBudget): string {
  return `${metadata.namespace}/${metadata.name}`;
}
