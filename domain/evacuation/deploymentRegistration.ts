import type { Deployment, Pod, PodDisruptionBudget } from '../../api/core.ts';
import { isFinished, podTypeOf } from '../common/pod.ts';
import { budgetsOf, neverAllowsDisruption } from './budgets.ts';
import { maxSurgeOf } from './replacement.ts';

/**
 * Decides whether the evacuator of Deployments is registered for a pod that has no evacuators, where an installation has chosen that: "I want
 * to run single replica applications without disruptions" (KEP-4212 > Story 2), without an annotation by their owners.
 */

export interface RegistrationInput {
  pod: Pod;
  /** The Deployment of the pod. */
  deployment: Deployment;
  /** The PodDisruptionBudgets of its namespace, at least. */
  budgets: readonly PodDisruptionBudget[];
}

export const RegistrationReason = {
  SingleReplica: 'SingleReplica',
  BudgetNeverAllows: 'BudgetNeverAllows',
} as const;
export type RegistrationReason = (typeof RegistrationReason)[keyof typeof RegistrationReason];

/** Reasons to leave a pod to the eviction API, which come first. */
const exclusions: readonly ((input: RegistrationInput) => boolean)[] = [
  // It serves no requests.
  ({ pod }) =>
    podTypeOf(pod) !== 'Default' || isFinished(pod) || pod.metadata.deletionTimestamp !== undefined,
  // Nothing would replace it.
  ({ deployment: { metadata, spec } }) => metadata.deletionTimestamp !== undefined || spec.replicas === 0,
  // Its owner accepts no second pod beside it, not even during a rollout.
  ({ deployment }) => maxSurgeOf(deployment) <= 0,
  // The claim may allow only one node, and the replacement would wait for the pod that waits for it.
  ({ deployment }) =>
    deployment.spec.template?.spec?.volumes?.some((volume) => volume.persistentVolumeClaim !== undefined) ===
    true,
  // The eviction API evicts no pod of two budgets, replaced or not.
  ({ pod, budgets }) => budgetsOf(pod, budgets).length > 1,
];

/** Returns why the evacuator of Deployments is registered for the pod; undefined if it is not. */
export function registrationReason(input: RegistrationInput): RegistrationReason | undefined {
  if (exclusions.some((applies) => applies(input))) return undefined;
  const { pod, deployment, budgets } = input;
  if ((deployment.spec.replicas ?? 1) === 1) return RegistrationReason.SingleReplica;
  return budgetsOf(pod, budgets).some(neverAllowsDisruption)
    ? RegistrationReason.BudgetNeverAllows
    : undefined;
}

/** Returns the reason as a sentence for the owner of the pod. */
export function registrationMessage(reason: RegistrationReason, { metadata }: Deployment): string {
  const name = `Deployment ${metadata.namespace}/${metadata.name}`;
  return reason === RegistrationReason.SingleReplica
    ? `${name} has a single replica, which is replaced before it is evicted.`
    : `The PodDisruptionBudget of ${name} can never allow a disruption; its pods are replaced before they are evicted.`;
}
