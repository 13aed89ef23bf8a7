import type { Pod } from '../../api/core.ts';
import type { Evacuation, EvacuationStatus, Evacuator } from '../../api/evacuation.ts';
import type { PodType } from '../../api/nodeMaintenance.ts';
import {
  DAEMONSET_EVACUATOR,
  DEPLOYMENT_EVACUATOR,
  DEPLOYMENT_RESPONDER,
  EVACUATION_NODE_LABEL,
  MAX_EVACUATORS,
  MAX_PROGRESS_DEADLINE_SECONDS,
  STATEFULSET_EVACUATOR,
  STATIC_POD_EVACUATOR,
} from '../../api/names.ts';
import { isTrue } from '../common/conditions.ts';
import { assertNever } from '../common/assertNever.ts';
import { evacuationName } from './evacuation.ts';
import { compareNames, mayHaveAgent } from '../common/names.ts';
import { isFinished, podTypeOf } from '../common/pod.ts';
import { oneLine } from '../common/text.ts';

/** Selects the evacuators of a pod and the active evacuator among them (KEP-4212 > Drain, DaemonSet Controller). */

/** Prefix of the annotations that register evacuators on a pod, followed by the evacuator class. */
const annotationPrefix = 'evacuation.coordination.k8s.io/priority_';

/** Returns the registration of an evacuator for the controllers of Kubernetes itself. */
export function controllerEvacuator(evacuatorClass: string): Evacuator {
  return { evacuatorClass, priority: controllerPriority, role: controllerRole };
}

/** "10000/controller": the registration of evacuators for the controllers of Kubernetes itself. */
const controllerPriority = 10_000;
const controllerRole = 'controller';

/** Extension to KEP-4212: True when every evacuator has completed or exceeded its deadline. Its reason is a HandOverReason. */
export const exhaustedCondition = 'EvacuatorsExhausted';

const classPattern = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const valuePattern = /^(-?\d{1,10})\/([A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)$/;
const largestInt32 = 2 ** 31 - 1;
const maxShownLength = 80;

/** The evacuators in the annotations of a pod. Each problem is one line that names an annotation that is ignored. */
export interface Registrations {
  /** Highest priority first. */
  evacuators: Evacuator[];
  problems: string[];
}

/**
 * Returns the evacuators of a pod, highest priority first, from its annotations
 * `evacuation.coordination.k8s.io/priority_<CLASS>: "<priority>/<role>"`. A DaemonSet pod always has the DaemonSet evacuator, and a static pod that
 * of static pods, even without the annotation.
 */
export function registeredEvacuators(pod: Pod): Registrations {
  const annotations = Object.entries(pod.metadata.annotations ?? {})
    .filter(([name]) => name.startsWith(annotationPrefix))
    .toSorted(([a], [b]) => compareNames(a, b));
  const parsed = annotations.map(([name, value]) => parseRegistration(name, value));
  const registered = parsed.flatMap((one) => (typeof one === 'string' ? [] : [one]));
  const evacuators = withController(pod, registered).toSorted(byPriority);
  const problems = parsed.filter((one) => typeof one === 'string');
  const tooMany =
    evacuators.length > MAX_EVACUATORS
      ? [
          `metadata.annotations: expected at most ${MAX_EVACUATORS} evacuators (got ${evacuators.length}); those with the lowest priority are ignored`,
        ]
      : [];
  return { evacuators: evacuators.slice(0, MAX_EVACUATORS), problems: [...problems, ...tooMany] };
}

/** Builds the Evacuation of a pod, with the labels and evacuators that admission would add. */
export function evacuationOf(pod: Pod, progressDeadlineSeconds: number): Evacuation {
  const { name, namespace = '', uid = '' } = pod.metadata;
  const { evacuators } = registeredEvacuators(pod);
  const labels = evacuationLabels(pod);
  const hasLabels = Object.keys(labels).length > 0;
  return {
    metadata: { name: evacuationName(pod.metadata), namespace, ...(hasLabels && { labels }) },
    spec: { podRef: { name, uid }, progressDeadlineSeconds, ...(evacuators.length > 0 && { evacuators }) },
  };
}

/**
 * Returns the labels of the Evacuation of a pod: those of the pod, with the label by which the agent of its node finds the Evacuation of a static
 * pod. No pod names the node of its Evacuation itself. `given` are labels that it has already.
 */
export function evacuationLabels(
  pod: Pod,
  given: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const { [EVACUATION_NODE_LABEL]: _ofPod, ...labels } = { ...pod.metadata.labels, ...given };
  const { nodeName = '' } = pod.spec;
  const isWatched = podTypeOf(pod) === 'Static' && mayHaveAgent(nodeName);
  return isWatched ? { ...labels, [EVACUATION_NODE_LABEL]: nodeName } : labels;
}

function parseRegistration(name: string, value: string): Evacuator | string {
  const field = `metadata.annotations[${name}]`;
  const evacuatorClass = name.slice(annotationPrefix.length);
  if (!isClassName(evacuatorClass))
    return `${field}: expected an evacuator class after priority_, a DNS subdomain such as deployment.apps.k8s.io (got "${oneLine(evacuatorClass, maxShownLength)}")`;
  const [, digits = '', role] = valuePattern.exec(value) ?? [];
  const priority = Number(digits);
  if (role === undefined || priority > largestInt32 || priority < -largestInt32 - 1)
    return `${field}: expected "<priority>/<role>", such as "10000/controller" (got "${oneLine(value, maxShownLength)}")`;
  return { evacuatorClass, priority, role };
}

/** Reports whether a name is valid as an evacuator class: a DNS subdomain. */
export function isClassName(name: string): boolean {
  return classPattern.test(name);
}

/** The evacuators of Kubernetes itself, which "should register" themselves (KEP-4212 > DaemonSet Controller, kubelet: Static Pods). */
const controllers: Readonly<Partial<Record<PodType, string>>> = {
  DaemonSet: DAEMONSET_EVACUATOR,
  Static: STATIC_POD_EVACUATOR,
};

function withController(pod: Pod, registered: Evacuator[]): Evacuator[] {
  const controller = controllers[podTypeOf(pod)];
  if (controller === undefined) return registered;
  if (registered.some(({ evacuatorClass }) => evacuatorClass === controller)) return registered;
  return [...registered, controllerEvacuator(controller)];
}

function byPriority(a: Evacuator, b: Evacuator): number {
  return b.priority - a.priority || compareNames(a.evacuatorClass, b.evacuatorClass);
}

export const HandOverReason = {
  /** The evacuator set `.status.activeEvacuatorCompleted`, but the pod still exists. */
  Completed: 'EvacuatorCompleted',
  /** `.status.evacuationProgressTimestamp` is older than `.spec.progressDeadlineSeconds`. */
  NoProgress: 'ProgressDeadlineExceeded',
  /** No evacuator of the class has responded, and the class is not known to have one. */
  NoResponse: 'EvacuatorNotResponding',
  /** The class is one of this project, and its evacuator cannot serve the pod. */
  NotApplicable: 'EvacuatorNotApplicable',
} as const;
export type HandOverReason = (typeof HandOverReason)[keyof typeof HandOverReason];

/** The reason why the active evacuator is replaced. */
export type HandOver =
  | { from: string; reason: Exclude<HandOverReason, 'EvacuatorNotApplicable'> }
  /** `why` is part of a sentence, as `inapplicableReason` returns it. */
  | { from: string; reason: 'EvacuatorNotApplicable'; why: string };

export type NextStep =
  /** No evacuator can remove the pod gracefully: "the evacuation controller will attempt to evict". */
  | { kind: 'Evict' }
  /** The pod may not be evicted, and has no evacuator. */
  | { kind: 'Skip' }
  /** Set the active evacuator; `after` is present unless it is the first. */
  | { kind: 'Activate'; evacuatorClass: string; after?: HandOver }
  /** No evacuator remains after the last one: the eviction API is next. */
  | { kind: 'Exhausted'; after: HandOver }
  /** The active evacuator must respond or report progress before this time, in milliseconds since 1970. */
  | { kind: 'AwaitProgress'; deadlineMs: number }
  /** The progress timestamp is missing or in the future: set it to the current time. */
  | { kind: 'ResetProgress' };

/** Facts that decide how long an evacuator may take, and what follows the last one. */
export interface EvacuatorDeadlines {
  /** The clock of the apiserver. */
  now: Date;
  /** Time within which an evacuator of an unknown class must respond. Undefined: as long as any other. */
  responseSeconds?: number | undefined;
  /** Reports whether a class is known to have an evacuator, which may be restarting. */
  isKnown?: (evacuatorClass: string) => boolean;
  /** The published drain targets of the node include this DaemonSet pod, so that the next one is kept off the node. */
  isTargeted?: boolean;
}

/** The classes of the evacuators that run in the worker. */
export const builtInEvacuators: readonly string[] = [
  DAEMONSET_EVACUATOR,
  DEPLOYMENT_EVACUATOR,
  STATEFULSET_EVACUATOR,
];

/** The classes of all evacuators of this project: those in the worker, and the node agent. */
export const ownEvacuators: readonly string[] = [...builtInEvacuators, STATIC_POD_EVACUATOR];

/** Evacuators that leave a pod of more than one PodDisruptionBudget to the eviction API, which never evicts it. */
const bySingleBudget: readonly string[] = [DEPLOYMENT_EVACUATOR, STATEFULSET_EVACUATOR, DEPLOYMENT_RESPONDER];

/** Reports whether the evacuator may remove a pod of more than one PodDisruptionBudget. */
export function removesPodOfSeveralBudgets(evacuatorClass: string): boolean {
  return !bySingleBudget.includes(evacuatorClass);
}

/** Tolerated difference between the clocks of an evacuator and the apiserver. */
const clockSkewMs = 30_000;

/** Returns the progress deadline. An Evacuation that is older than the limit in its schema may have a longer one. */
export function deadlineSecondsOf({ spec }: Pick<Evacuation, 'spec'>): number {
  return Math.min(spec.progressDeadlineSeconds, MAX_PROGRESS_DEADLINE_SECONDS);
}

/**
 * Returns why an evacuator of this project cannot serve a pod, whatever it waits for: "no DaemonSet controls the pod". A pod that its DaemonSet
 * has orphaned keeps the annotation of the DaemonSet evacuator. Undefined for an evacuator that can, and for those of others.
 */
export function inapplicableReason(evacuatorClass: string, pod: Pod): string | undefined {
  const podType = podTypeOf(pod);
  if (evacuatorClass === DAEMONSET_EVACUATOR && podType !== 'DaemonSet')
    return 'no DaemonSet controls the pod';
  if (evacuatorClass === STATIC_POD_EVACUATOR && podType !== 'Static') return 'it is not a static pod';
  return undefined;
}

/**
 * Reports whether the pod may be evicted if its evacuators cannot remove it. A pod of a DaemonSet would be created again unless the scheduling gate
 * keeps it off the node, and a static pod always is.
 */
function mayBeEvicted(pod: Pod, isTargeted: boolean): boolean {
  const podType = podTypeOf(pod);
  return podType === 'Default' || (podType === 'DaemonSet' && isTargeted);
}

/** Decides the next step of an evacuation, from the objects alone. */
export function nextEvacuatorStep(
  evacuation: Pick<Evacuation, 'spec' | 'status'>,
  pod: Pod,
  deadlines: EvacuatorDeadlines,
): NextStep {
  const { spec, status } = evacuation;
  const evacuators = spec.evacuators ?? [];
  const isEvictable = mayBeEvicted(pod, deadlines.isTargeted === true);
  const [first] = evacuators;
  if (first === undefined) return { kind: isEvictable ? 'Evict' : 'Skip' };
  const isFinishedByItself = podTypeOf(pod) === 'Default' && isFinished(pod);
  const isExhausted = isFinishedByItself || isTrue(status?.conditions, exhaustedCondition);
  if (isEvictable && isExhausted) return { kind: 'Evict' };
  const classes = evacuators.map((one) => one.evacuatorClass);
  const from = classes.find((one) => one === status?.activeEvacuatorClass) ?? first.evacuatorClass;
  const current = stepWith(from, evacuation, pod, deadlines);
  if (current.kind !== 'Ended') return current;
  const after: HandOver = { from, ...current.handOver };
  // An Evacuation that is older than the limit in its schema may have more evacuators.
  const next = classes.slice(0, MAX_EVACUATORS)[classes.indexOf(from) + 1];
  if (next !== undefined) return { kind: 'Activate', evacuatorClass: next, after };
  if (isEvictable) return { kind: 'Exhausted', after };
  const restartMs = Date.parse(status?.activeEvacuatorSince ?? '') + deadlineSecondsOf(evacuation) * 1_000;
  return restart({ kind: 'Activate', evacuatorClass: first.evacuatorClass, after }, restartMs, deadlines.now);
}

/** Starts again with the first evacuator of a pod that may not be evicted, at most once per deadline. */
function restart(activate: Extract<NextStep, { kind: 'Activate' }>, deadlineMs: number, now: Date): NextStep {
  return now.getTime() < deadlineMs ? { kind: 'AwaitProgress', deadlineMs } : activate;
}

type EvacuatorProgress =
  | Extract<NextStep, { kind: 'AwaitProgress' | 'ResetProgress' }>
  | { kind: 'Ended'; handOver: WithoutClass<HandOver> };
type WithoutClass<T> = T extends unknown ? Omit<T, 'from'> : never;

/**
 * Returns the step while this evacuator is, or would be, the active one. "If the evacuators are unable to evacuate the pod, or if there are no
 * evacuators, the evacuation controller will attempt to evict these pods" (KEP-4212 > Drain): at once if this is known from the pod.
 */
function stepWith(
  evacuatorClass: string,
  evacuation: Pick<Evacuation, 'spec' | 'status'>,
  pod: Pod,
  deadlines: EvacuatorDeadlines,
): EvacuatorProgress | Extract<NextStep, { kind: 'Activate' }> {
  const why = inapplicableReason(evacuatorClass, pod);
  if (why !== undefined) return { kind: 'Ended', handOver: { reason: HandOverReason.NotApplicable, why } };
  const { status } = evacuation;
  if (status?.activeEvacuatorClass !== evacuatorClass) return { kind: 'Activate', evacuatorClass };
  return progressOf(evacuation, status, deadlines);
}

/** Returns whether the active evacuator is working, and if not, why it has ended. */
function progressOf(
  evacuation: Pick<Evacuation, 'spec' | 'status'>,
  status: EvacuationStatus,
  { now, responseSeconds = Infinity, isKnown = () => false }: EvacuatorDeadlines,
): EvacuatorProgress {
  if (status.activeEvacuatorCompleted)
    return { kind: 'Ended', handOver: { reason: HandOverReason.Completed } };
  const progressedAt = Date.parse(status.evacuationProgressTimestamp ?? '');
  if (!(progressedAt <= now.getTime() + clockSkewMs)) return { kind: 'ResetProgress' };
  const progressMs = deadlineSecondsOf(evacuation) * 1_000;
  const responseMs = responseSeconds * 1_000;
  const isUnknown = () => !hasResponded(evacuation) && !isKnown(status.activeEvacuatorClass ?? '');
  const mustRespond = responseMs < progressMs && isUnknown();
  const deadlineMs = progressedAt + (mustRespond ? responseMs : progressMs);
  if (now.getTime() < deadlineMs) return { kind: 'AwaitProgress', deadlineMs };
  const reason = mustRespond ? HandOverReason.NoResponse : HandOverReason.NoProgress;
  return { kind: 'Ended', handOver: { reason } };
}

/**
 * Reports whether the active evacuator has written anything to the status since it became active. An Evacuation without
 * `activeEvacuatorSince` counts as responded: it is not known when the evacuator was activated.
 */
export function hasResponded({ status }: Pick<Evacuation, 'status'>): boolean {
  const { activeEvacuatorClass, activeEvacuatorSince, evacuationProgressTimestamp } = status ?? {};
  if (activeEvacuatorClass === undefined) return false;
  return (
    activeEvacuatorSince === undefined ||
    Date.parse(evacuationProgressTimestamp ?? '') !== Date.parse(activeEvacuatorSince) ||
    status?.activeEvacuatorCompleted === true ||
    status?.expectedEvacuationFinishTime !== undefined ||
    status?.message?.startsWith(awaitedResponse(activeEvacuatorClass)) !== true
  );
}

/** Returns the message of an Evacuation from the activation of an evacuator until its response. */
export function activationMessage(
  evacuation: Pick<Evacuation, 'spec'>,
  evacuatorClass: string,
  pod: Pod,
): string {
  const agent = evacuatorClass === STATIC_POD_EVACUATOR ? `, the agent of node ${pod.spec.nodeName}` : '';
  return `${awaitedResponse(evacuatorClass)}${agent}; next: ${successorsOf(evacuation, evacuatorClass, pod)}.`;
}

/** The beginning of the message above: what follows it depends on the pod. */
function awaitedResponse(evacuatorClass: string): string {
  return `Waiting for ${evacuatorClass} to respond`;
}

/** Returns the evacuators after this one, for messages: "data.example.com, then the eviction API". */
export function successorsOf({ spec }: Pick<Evacuation, 'spec'>, evacuatorClass: string, pod: Pod): string {
  const classes = (spec.evacuators ?? []).slice(0, MAX_EVACUATORS).map((one) => one.evacuatorClass);
  const remaining = classes.slice(classes.indexOf(evacuatorClass) + 1);
  const last: Readonly<Record<PodType, string>> = {
    Default: 'the eviction API',
    DaemonSet: 'the eviction API if the drain targets of the node include the pod',
    Static: `${classes[0]} again`,
  };
  return [...remaining, last[podTypeOf(pod)]].join(', then ');
}

/** Returns why the active evacuator is replaced, as a sentence. */
export function handOverMessage(
  handOver: HandOver,
  { progressSeconds, responseSeconds }: { progressSeconds: number; responseSeconds: number | undefined },
): string {
  const { from } = handOver;
  switch (handOver.reason) {
    case HandOverReason.Completed:
      return `${from} has completed, but the pod still exists.`;
    case HandOverReason.NoProgress:
      return `${from} has reported no progress for ${progressSeconds} s.`;
    case HandOverReason.NoResponse: {
      const evacuator =
        from === STATIC_POD_EVACUATOR ? 'the node agent of its node' : 'an evacuator of this class';
      return `${from} has not responded for ${responseSeconds} s: check that ${evacuator} is running.`;
    }
    case HandOverReason.NotApplicable:
      return `${from} cannot evacuate the pod: ${handOver.why}.`;
    default:
      return assertNever(handOver);
  }
}
