import type { Pod, PodDisruptionBudget, StatefulSet } from '../../api/core.ts';
import { STATEFULSET_EVACUATOR } from '../../api/names.ts';
import { compareNames } from '../common/names.ts';
import { budgetsOf, bypassesBudget, neverAllowsDisruption } from './budgets.ts';
import { registeredEvacuators } from './evacuatorSelection.ts';
import { conditionOf, isReady, type Replica } from './replacement.ts';

/**
 * Decides how a pod of a StatefulSet is evacuated whose owner has registered the evacuator `statefulset.apps.k8s.io`. A StatefulSet never has two
 * pods of the same name, so that no replacement can start first. A budget that can never allow a disruption keeps such a pod on its node until
 * a user acts; with the consent of the owner it is deleted when every other pod of the StatefulSet is available.
 */

export interface StatefulSetInput {
  pod: Pod;
  /** The StatefulSet that controls the pod. */
  statefulSet: StatefulSet;
  /** The pods that it controls. */
  pods: readonly Replica[];
  budgets: readonly PodDisruptionBudget[];
  now: Date;
}

export type StatefulSetStep =
  /** The eviction API is next: it evicts the pod, or waits for its budget. */
  { kind: 'Skip'; message: string } | { kind: 'Wait'; message: string } | { kind: 'Delete' };

/** Decides the next step of the pod. */
export function statefulSetStep(input: StatefulSetInput): StatefulSetStep {
  const message = reasonToEvict(input);
  if (message !== undefined) return { kind: 'Skip', message };
  const { pod, statefulSet, pods, now } = input;
  const { metadata, spec } = statefulSet;
  const others = pods.filter((one) => one.metadata.uid !== pod.metadata.uid);
  const unavailable = others
    .map((one) => ({ name: one.metadata.name, reason: unavailableReason(one, statefulSet, now) }))
    .filter(({ reason }) => reason !== undefined)
    .toSorted((a, b) => compareNames(a.name, b.name));
  const wanted = (spec.replicas ?? 1) - 1;
  const available = others.length - unavailable.length;
  if (unavailable.length === 0 && available >= wanted) return { kind: 'Delete' };
  const [first] = unavailable;
  const cause = first === undefined ? 'a pod has not been created yet' : `${first.name} ${first.reason}`;
  const more = unavailable.length > 1 ? `, ${unavailable.length - 1} more not available` : '';
  return {
    kind: 'Wait',
    message: `Waiting for the other pods of StatefulSet ${metadata.namespace}/${metadata.name}, ${available} of ${wanted} are available: ${cause}${more}.`,
  };
}

/** Returns why the pod is left to the eviction API. */
function reasonToEvict({ pod, statefulSet, budgets }: StatefulSetInput): string | undefined {
  const { metadata, spec } = statefulSet;
  const name = `StatefulSet ${metadata.namespace}/${metadata.name}`;
  // A user could name the evacuator in an Evacuation while no webhook resolves it from the pod.
  const consents = registeredEvacuators(pod).evacuators.some(
    ({ evacuatorClass }) => evacuatorClass === STATEFULSET_EVACUATOR,
  );
  if (!consents)
    return `The pod has no annotation for ${STATEFULSET_EVACUATOR}, by which its owner permits it.`;
  if (metadata.deletionTimestamp !== undefined) return `${name} is being deleted.`;
  if (spec.replicas === 0) return `${name} is scaled to 0.`;
  const [budget, ...more] = budgetsOf(pod, budgets);
  if (budget === undefined) return 'No PodDisruptionBudget selects the pod.';
  if (more.length > 0) return 'More than one PodDisruptionBudget selects the pod.';
  const budgetName = `PodDisruptionBudget ${budget.metadata.namespace}/${budget.metadata.name}`;
  if (bypassesBudget(pod, budget)) return `${budgetName} does not protect the pod in its current state.`;
  return neverAllowsDisruption(budget) ? undefined : `${budgetName} can allow a disruption.`;
}

/** Returns why a pod is not available: "is terminating". */
function unavailableReason(pod: Replica, { spec }: StatefulSet, now: Date): string | undefined {
  if (pod.metadata.deletionTimestamp !== undefined) return 'is terminating';
  if (!isReady(pod)) return 'is not Ready';
  const { minReadySeconds = 0 } = spec;
  const readyMs = now.getTime() - Date.parse(conditionOf(pod, 'Ready')?.lastTransitionTime ?? '');
  if (minReadySeconds > 0 && !(readyMs >= minReadySeconds * 1_000))
    return `has not been Ready for ${minReadySeconds} s yet (minReadySeconds)`;
  return undefined;
}
