import { isDeepStrictEqual } from 'node:util';
import type { Pod } from '../api/core.ts';
import type { Evacuation, Evacuator } from '../api/evacuation.ts';
import { EVICTION_ANNOTATION, INSTIGATOR_FINALIZER, STATIC_POD_EVACUATOR } from '../api/names.ts';
import { evictionWarnings } from '../domain/admission/eviction.ts';
import { isTrue } from '../domain/common/conditions.ts';
import { holdsNodes, stageOf } from '../domain/common/stage.ts';
import { evacuationName, isEvacuationName, replacementName } from '../domain/evacuation/evacuation.ts';
import {
  evacuationLabels,
  exhaustedCondition,
  inapplicableReason,
  registeredEvacuators,
} from '../domain/evacuation/evacuatorSelection.ts';
import { isFinished, podName } from '../domain/common/pod.ts';
import { joinedProblems } from '../domain/common/text.ts';
import type { JsonPatchOperation, Kube } from '../kube/client.ts';
import { resources } from '../kube/resources.ts';
import { trimPod } from '../kube/transform.ts';
import type { AdmissionView } from './reviewers.ts';
import type { EvacuationRequest, EvictionReview, Reviewer, ReviewResult } from './review.ts';

/**
 * Reviews an Evacuation: validates it against its pod, and adds the labels and evacuators of the pod. "This is resolved to the
 * following Evacuation object according to the pod on admission" (KEP-4212 > Drain).
 */
export function evacuationReviewer(kube: Kube): Reviewer<EvacuationRequest> {
  return async ({ namespace, object }, signal) => {
    const { podRef } = object.spec;
    const raw = await kube.get(resources.pods, { namespace, name: podRef.name }, { signal });
    if (raw === undefined)
      return invalid(
        `spec.podRef.name: pod ${namespace}/${podRef.name} does not exist: use the name of an existing pod`,
      );
    return resolved(object, trimPod(raw));
  };
}

function resolved(evacuation: Evacuation, pod: Pod): ReviewResult {
  const { uid = '' } = pod.metadata;
  const { podRef, evacuators: given } = evacuation.spec;
  if (podRef.uid !== uid)
    return invalid(
      `spec.podRef.uid: pod ${podName(pod)} has UID "${uid}", not "${podRef.uid}": the pod was replaced by another pod of the same name, so use the UID of that one, or do not evacuate it`,
    );
  const name = evacuationName(pod.metadata);
  const { finalizers, annotations } = evacuation.metadata;
  const isDrain = finalizers?.includes(INSTIGATOR_FINALIZER) === true;
  const isForWorker = isDrain || annotations?.[EVICTION_ANNOTATION] !== undefined;
  // The worker replaces an Evacuation that was deleted and is kept by finalizers of others.
  const isReplacement = isForWorker && isEvacuationName(evacuation.metadata.name, pod.metadata);
  if (evacuation.metadata.name !== name && !isReplacement)
    return invalid(
      `metadata.name: must be "${name}" (<podUID>-<podName>), so that a pod has at most one Evacuation (got "${evacuation.metadata.name ?? ''}")`,
    );
  const { evacuators, problems } = registeredEvacuators(pod);
  // An invalid annotation must not block a drain or an Eviction: it continues without that evacuator and records an Event.
  if (problems.length > 0 && !isForWorker) return invalid(`pod ${podName(pod)}: ${joinedProblems(problems)}`);
  const isReplaced = given !== undefined && !isDeepStrictEqual(given, evacuators);
  const warning = 'spec.evacuators: replaced with the evacuators in the annotations of the pod';
  return {
    kind: 'Allowed',
    warnings: [...problems.map((one) => `pod ${podName(pod)}: ${one}`), ...(isReplaced ? [warning] : [])],
    patch: [...labelsPatch(evacuation, pod), ...evacuatorsPatch(given, evacuators)],
  };
}

/** Adds the labels of the pod that the Evacuation does not have; existing labels are kept, except that of the node. */
function labelsPatch({ metadata }: Evacuation, pod: Pod): JsonPatchOperation[] {
  const given = metadata.labels;
  const labels = evacuationLabels(pod, given);
  if (isDeepStrictEqual(labels, given ?? {})) return [];
  if (given === undefined) return [{ op: 'add', path: '/metadata/labels', value: labels }];
  const removed = Object.keys(given).filter((key) => labels[key] === undefined);
  const added = Object.entries(labels).filter(([key, value]) => given[key] !== value);
  return [
    ...removed.map((key) => ({ op: 'remove', path: `/metadata/labels/${escaped(key)}` }) as const),
    ...added.map(([key, value]) => ({ op: 'add', path: `/metadata/labels/${escaped(key)}`, value }) as const),
  ];
}

function evacuatorsPatch(
  given: Evacuator[] | undefined,
  evacuators: readonly Evacuator[],
): JsonPatchOperation[] {
  if (evacuators.length > 0) return [{ op: 'add', path: '/spec/evacuators', value: evacuators }];
  return given === undefined ? [] : [{ op: 'remove', path: '/spec/evacuators' }];
}

/** Escapes a key for a JSON Pointer (RFC 6901). */
function escaped(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** Decides on evictions that bypass the evacuators of a pod, such as those of `kubectl drain`. */
export type DirectEvictions = 'reject' | 'allow';

/**
 * Reviews an eviction: "Pods that support evacuation and have evacuation.coordination.k8s.io/priority_${EVACUATOR_CLASS}
 * annotations will block eviction requests" (KEP-4212 > Kubectl), until no evacuator remains. The response is 429, so that
 * `kubectl drain` retries as it does for a PodDisruptionBudget. Warns of the maintenances that hold the node of the pod: an eviction names only the
 * pod, so that no policy in the apiserver knows its node.
 */
export function evictionReviewer(
  { kube, maintenances }: Pick<AdmissionView, 'kube' | 'maintenances'>,
  directEvictions: DirectEvictions,
): Reviewer<EvictionReview> {
  return async ({ namespace, name }, signal) => {
    const holding = maintenances.list().filter((one) => holdsNodes(stageOf(one)));
    if (directEvictions === 'allow' && holding.length === 0) return { kind: 'Allowed' };
    const raw = await kube.get(resources.pods, { namespace, name }, { signal });
    const pod = raw && trimPod(raw);
    if (pod === undefined || pod.metadata.deletionTimestamp !== undefined || isFinished(pod))
      return { kind: 'Allowed' };
    const allowed: ReviewResult = { kind: 'Allowed', warnings: evictionWarnings(pod, holding) };
    if (directEvictions === 'allow') return allowed;
    // Most nodes have no agent, and evicting a mirror pod stops nothing: the kubelet creates it again.
    const classes = registeredEvacuators(pod)
      .evacuators.map((one) => one.evacuatorClass)
      .filter((one) => one !== STATIC_POD_EVACUATOR && inapplicableReason(one, pod) === undefined);
    if (classes.length === 0) return allowed;
    const evacuation = await evacuationOf(kube, pod, signal);
    if (isTrue(evacuation?.status?.conditions, exhaustedCondition)) return allowed;
    return { kind: 'Denied', reason: 'TooManyRequests', message: evictionDenial(pod, classes, evacuation) };
  };
}

/** An Evacuation that was deleted and is kept by finalizers has a replacement, and that one, too. */
const maxReplacements = 3;

async function evacuationOf(
  kube: Kube,
  { metadata }: Pod,
  signal: AbortSignal,
): Promise<Evacuation | undefined> {
  const { namespace } = metadata;
  const get = (name: string) => kube.get(resources.evacuations, { namespace, name }, { signal });
  let latest = await get(evacuationName(metadata));
  for (let left = maxReplacements; latest?.metadata.deletionTimestamp !== undefined && left > 0; left--) {
    const replacement = await get(replacementName(metadata, latest.metadata));
    if (replacement === undefined) break;
    latest = replacement;
  }
  return latest;
}

function evictionDenial(pod: Pod, classes: readonly string[], evacuation: Evacuation | undefined): string {
  if (evacuation === undefined)
    return `pod ${podName(pod)} cannot be evicted because it has evacuators (${classes.join(', ')}): create a NodeMaintenance for its node, or an Evacuation for the pod`;
  const { activeEvacuatorClass = classes[0], message = '' } = evacuation.status ?? {};
  const details = message === '' ? '' : ` (${message})`;
  return `pod ${podName(pod)} is being evacuated by ${activeEvacuatorClass}${details}: wait until the pod is gone; see Evacuation ${evacuation.metadata.name}`;
}

function invalid(message: string): ReviewResult {
  return { kind: 'Denied', reason: 'Invalid', message };
}
