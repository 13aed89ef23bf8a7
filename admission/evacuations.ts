import { isDeepStrictEqual } from 'node:util';
import type { Pod } from '../api/core.ts';
import type { Evacuation, Evacuator } from '../api/evacuation.ts';
import { INSTIGATOR_FINALIZER } from '../api/names.ts';
import { isTrue } from '../domain/conditions.ts';
import { evacuationName } from '../domain/evacuation.ts';
import { exhaustedCondition, registeredEvacuators } from '../domain/evacuator.ts';
import { isFinished, podName } from '../domain/pod.ts';
import type { JsonPatchOperation, Kube } from '../kube/client.ts';
import { resources } from '../kube/resources.ts';
import { slimPod } from '../kube/slim.ts';
import type { EvacuationRequest, EvictionRequest, Reviewer, Verdict } from './review.ts';

/**
 * Checks an Evacuation against the living pod, and resolves it: "This is resolved to the following Evacuation object
 * according to the pod on admission" (KEP-4212 > Drain), with the labels and the evacuators of the pod.
 */
export function evacuationReviewer(kube: Kube): Reviewer<EvacuationRequest> {
  return async ({ namespace, object }, signal) => {
    const { podRef } = object.spec;
    const raw = await kube.get(resources.pods, { namespace, name: podRef.name }, { signal });
    if (raw === undefined)
      return invalid(`spec.podRef.name: pod ${namespace}/${podRef.name} does not exist: name a living pod`);
    return resolved(object, slimPod(raw));
  };
}

function resolved(evacuation: Evacuation, pod: Pod): Verdict {
  const { uid = '', labels = {} } = pod.metadata;
  const { podRef, evacuators: given } = evacuation.spec;
  if (podRef.uid !== uid)
    return invalid(
      `spec.podRef.uid: pod ${podName(pod)} has another UID than "${podRef.uid}": the pod that was meant is gone`,
    );
  const name = evacuationName(pod.metadata);
  if (evacuation.metadata.name !== name)
    return invalid(
      `metadata.name: expected "${name}", <UID>-<name of the pod>, so that a pod has one Evacuation (got "${evacuation.metadata.name ?? ''}")`,
    );
  const { evacuators, problems } = registeredEvacuators(pod);
  // A drain is never blocked: it goes on without the evacuator, and says so.
  const isDrain = evacuation.metadata.finalizers?.includes(INSTIGATOR_FINALIZER) === true;
  if (problems.length > 0 && !isDrain) return invalid(`pod ${podName(pod)}: ${problems.join('; ')}`);
  const isOverruled = given !== undefined && !isDeepStrictEqual(given, evacuators);
  const overruled =
    "spec.evacuators: evacuators come from the pod's annotations; what was given here is replaced";
  return {
    kind: 'Allowed',
    warnings: [...problems.map((one) => `pod ${podName(pod)}: ${one}`), ...(isOverruled ? [overruled] : [])],
    patch: [...labelsPatch(evacuation, labels), ...evacuatorsPatch(given, evacuators)],
  };
}

/** What the Evacuation says of itself is left as it is. */
function labelsPatch({ metadata }: Evacuation, labels: Record<string, string>): JsonPatchOperation[] {
  const missing = Object.entries(labels).filter(([key]) => metadata.labels?.[key] === undefined);
  if (missing.length === 0) return [];
  if (metadata.labels === undefined) return [{ op: 'add', path: '/metadata/labels', value: labels }];
  return missing.map(([key, value]) => ({ op: 'add', path: `/metadata/labels/${escaped(key)}`, value }));
}

function evacuatorsPatch(
  given: Evacuator[] | undefined,
  evacuators: readonly Evacuator[],
): JsonPatchOperation[] {
  if (evacuators.length > 0) return [{ op: 'add', path: '/spec/evacuators', value: evacuators }];
  return given === undefined ? [] : [{ op: 'remove', path: '/spec/evacuators' }];
}

/** RFC 6901. */
function escaped(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1');
}

/**
 * "Pods that support evacuation and have evacuation.coordination.k8s.io/priority_${EVACUATOR_CLASS} annotations will block
 * eviction requests" (KEP-4212 > Kubectl): until all their evacuators had their turn. `kubectl drain` tries again, as it
 * does for a budget.
 */
export function evictionReviewer(kube: Kube): Reviewer<EvictionRequest> {
  return async ({ namespace, name }, signal) => {
    const raw = await kube.get(resources.pods, { namespace, name }, { signal });
    const pod = raw && slimPod(raw);
    if (pod === undefined || pod.metadata.deletionTimestamp !== undefined || isFinished(pod))
      return { kind: 'Allowed' };
    const classes = registeredEvacuators(pod).evacuators.map((one) => one.evacuatorClass);
    if (classes.length === 0) return { kind: 'Allowed' };
    const key = { namespace, name: evacuationName(pod.metadata) };
    const evacuation = await kube.get(resources.evacuations, key, { signal });
    if (isTrue(evacuation?.status?.conditions, exhaustedCondition)) return { kind: 'Allowed' };
    return { kind: 'Refused', reason: 'TooManyRequests', message: refusal(pod, classes, evacuation) };
  };
}

function refusal(pod: Pod, classes: readonly string[], evacuation: Evacuation | undefined): string {
  if (evacuation === undefined)
    return `pod ${podName(pod)} is not evicted but evacuated, by ${classes.join(', ')}: use a NodeMaintenance for its node, or an Evacuation of the pod`;
  const { activeEvacuatorClass = classes[0], message = '' } = evacuation.status ?? {};
  const details = message === '' ? '' : ` (${message})`;
  return `pod ${podName(pod)} is being evacuated by ${activeEvacuatorClass}${details}: wait for it; see Evacuation ${evacuation.metadata.name}`;
}

function invalid(message: string): Verdict {
  return { kind: 'Refused', reason: 'Invalid', message };
}
