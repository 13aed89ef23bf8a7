import type { Node, PersistentVolume, Pod } from '../../api/core.ts';
import { compareNames, listed } from '../common/names.ts';
import { isFinished, podName, podTypeOf } from '../common/pod.ts';
import { numbered } from '../common/text.ts';
import { finish, type Steps } from '../common/steps.ts';
import { allocation, type UnplacedPod } from './allocation.ts';
import { withCordoned } from './clusterState.ts';
import { unplacedNames } from './condition.ts';
import { misfitText } from './placement.ts';
import { controllerOf, isAboutToBeScheduled, isModelled, needsPlace } from './replacement.ts';

/** The input of a forecast for a drain that may not have started. */
export interface ForecastInput {
  /** All nodes of the cluster, and the names of those to drain. */
  readonly nodes: readonly Node[];
  readonly drained: ReadonlySet<string>;
  /** All pods of the cluster, with what the scheduler requires for them. */
  readonly pods: readonly Pod[];
  readonly volumes: ReadonlyMap<string, PersistentVolume>;
  /** Returns false for pods that the drain leaves where they are. */
  readonly leaves: (pod: Pod) => boolean;
  readonly nowMs: number;
}

/** Whether the pods of a drain fit on other nodes. */
export interface CapacityForecast {
  /** Number of pods whose replacements need places. */
  readonly pods: number;
  readonly unplaced: readonly { readonly pod: string; readonly node: string; readonly message: string }[];
  /** Number of pods that are not compared with nodes: of other schedulers, or with too many rules. */
  readonly notCompared: number;
}

/** Finds other nodes for all pods of a drain together. The result does not depend on the order of nodes and pods. */
export function forecastCapacity(input: ForecastInput): CapacityForecast {
  const { unplaced, leaving, others } = finish(placed(input));
  return {
    pods: leaving.length,
    unplaced: unplaced.map(({ pod, misfit }) => ({
      pod: podName(pod),
      node: pod.spec.nodeName ?? '',
      message: misfitText(misfit),
    })),
    notCompared: others.length,
  };
}

/** Returns the warning of a drain whose pods would be Pending, in steps; undefined if all fit. */
export function* capacityWarning(input: ForecastInput, isHeldBack: boolean): Steps<string | undefined> {
  const { unplaced } = yield* placed(input);
  if (unplaced.length === 0) return undefined;
  const effect = isHeldBack
    ? 'with spec.requireCapacity, pods wait until they fit'
    : 'replacements would be Pending; set spec.requireCapacity to true to let pods wait';
  return `spec.nodeSelector: ${numbered(unplaced.length, 'pod')} would fit on no other node: ${unplacedNames(unplaced)}; ${effect}`;
}

interface PlacedPods {
  readonly leaving: readonly Pod[];
  readonly others: readonly Pod[];
  readonly unplaced: readonly UnplacedPod[];
}

function* placed({ nodes, drained, pods, volumes, leaves, nowMs }: ForecastInput): Steps<PlacedPods> {
  const onNodes = pods
    .filter((pod) => drained.has(pod.spec.nodeName ?? '') && leaves(pod))
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .toSorted((a, b) => compareNames(podName(a), podName(b)));
  const leaving = onNodes.filter(needsPlace);
  const others = onNodes.filter((pod) => isRecreated(pod) && !isModelled(pod));
  const facts = { nodes: withCordoned(nodes, drained), pods, volumes };
  const reserved = pods.filter((pod) => isAboutToBeScheduled(pod, nowMs));
  const drain = {
    name: '',
    createdAt: '',
    waits: false,
    stoppedReason: undefined,
    endsByItself: false,
    pods: leaving,
  };
  const [allocated] = yield* allocation(facts, reserved, [drain]);
  const unplaced: readonly UnplacedPod[] = allocated?.unplaced ?? [];
  return { leaving, others, unplaced };
}

function isRecreated(pod: Pod): boolean {
  return podTypeOf(pod) === 'Default' && !isFinished(pod) && controllerOf(pod) !== undefined;
}

/** Returns the claims of the pods of a drain, at most `max`. */
export function claimsToRead(
  { drained, pods }: Pick<ForecastInput, 'drained' | 'pods'>,
  max: number,
): { namespace: string; name: string }[] {
  return pods
    .filter((pod) => drained.has(pod.spec.nodeName ?? '') && needsPlace(pod))
    .flatMap(({ metadata: { namespace = '' }, spec }) =>
      (spec.claims ?? []).map((name) => ({ namespace, name })),
    )
    .slice(0, max);
}

/** Formats the forecast as sentences for `kubectl maintenance plan`. `isHeldBack`: pods wait until they fit. */
export function forecastText({ pods, unplaced, notCompared }: CapacityForecast, isHeldBack = false): string {
  const skipped =
    notCompared === 0
      ? ''
      : ` ${numbered(notCompared, 'pod')} ${notCompared === 1 ? 'was' : 'were'} not compared, because of another scheduler or too many rules about nodes.`;
  if (pods === 0) return `Capacity: no pod that leaves needs a place on another node.${skipped}`;
  if (unplaced.length === 0 && pods === 1)
    return `Capacity: 1 pod that leaves fits on another node.${skipped}`;
  if (unplaced.length === 0) return `Capacity: all ${pods} pods that leave fit on other nodes.${skipped}`;
  const texts = unplaced.map(({ pod, message }) => `${pod} (${message})`);
  return `Capacity: ${unplaced.length} of ${numbered(pods, 'pod')} that leave fit on no other node and ${isHeldBack ? 'wait until they do' : 'would be Pending'}: ${listed(texts, 3)}.${skipped}`;
}
