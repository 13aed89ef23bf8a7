import type { Pod } from '../api/core.ts';
import type { Evacuation, EvacuationStatus, Evacuator } from '../api/evacuation.ts';
import { isTrue } from './conditions.ts';
import { evacuationName } from './evacuation.ts';
import { compareNames } from './names.ts';
import { isFinished, podTypeOf } from './pod.ts';

/** Which evacuators a pod has, and whose turn it is (KEP-4212 > Drain, DaemonSet Controller). */

/** Begins the annotations by which evacuators register on a pod; the rest is the class. */
const annotationPrefix = 'evacuation.coordination.k8s.io/priority_';

/** The class of the DaemonSet evacuator, which is part of the worker. */
const daemonSetClass = 'daemonset.apps.k8s.io';

/** "10000/controller": what the evacuators of Kubernetes' own controllers register with. */
const controllerPriority = 10_000;
const controllerRole = 'controller';

/** Extension to KEP-4212: the condition of an Evacuation whose evacuators all had their turn. Its reason is a HandOverReason. */
export const exhaustedCondition = 'EvacuatorsExhausted';

/** As many as an Evacuation can hold. */
const mostEvacuators = 100;
const classPattern = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const valuePattern = /^(-?\d{1,10})\/([A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)$/;
const largestInt32 = 2 ** 31 - 1;

/** What a pod's annotations say. A problem is one line that names the annotation: that evacuator is left out. */
export interface Registrations {
  /** In the order in which they are asked. */
  evacuators: Evacuator[];
  problems: string[];
}

/**
 * The evacuators of a pod, highest priority first, resolved from its annotations
 * `evacuation.coordination.k8s.io/priority_<CLASS>: "<priority>/<role>"`. A DaemonSet's pod has the evacuator of its
 * controller, annotated or not.
 */
export function registeredEvacuators(pod: Pod): Registrations {
  const annotations = Object.entries(pod.metadata.annotations ?? {})
    .filter(([name]) => name.startsWith(annotationPrefix))
    .toSorted(([a], [b]) => compareNames(a, b));
  const parsed = annotations.map(([name, value]) => parseRegistration(name, value));
  const registered = parsed.flatMap((one) => (typeof one === 'string' ? [] : [one]));
  const evacuators = withDaemonSetController(pod, registered).toSorted(byPriority);
  const problems = parsed.filter((one) => typeof one === 'string');
  const tooMany =
    evacuators.length > mostEvacuators
      ? [
          `metadata.annotations: expected at most ${mostEvacuators} evacuators (got ${evacuators.length}); the last ones are left out`,
        ]
      : [];
  return { evacuators: evacuators.slice(0, mostEvacuators), problems: [...problems, ...tooMany] };
}

/** The Evacuation of a pod, resolved as admission would do it: labels and evacuators are the pod's. */
export function evacuationOf(pod: Pod, progressDeadlineSeconds: number): Evacuation {
  const { name, namespace = '', uid = '', labels } = pod.metadata;
  const { evacuators } = registeredEvacuators(pod);
  return {
    metadata: { name: evacuationName(pod.metadata), namespace, ...(labels && { labels }) },
    spec: { podRef: { name, uid }, progressDeadlineSeconds, ...(evacuators.length > 0 && { evacuators }) },
  };
}

function parseRegistration(name: string, value: string): Evacuator | string {
  const field = `metadata.annotations[${name}]`;
  const evacuatorClass = name.slice(annotationPrefix.length);
  if (!isClassName(evacuatorClass))
    return `${field}: expected the class of an evacuator after priority_, a DNS name such as deployment.apps.k8s.io (got "${evacuatorClass}")`;
  const [, digits = '', role] = valuePattern.exec(value) ?? [];
  const priority = Number(digits);
  if (role === undefined || priority > largestInt32 || priority < -largestInt32 - 1)
    return `${field}: expected "<priority>/<role>", such as "10000/controller" (got "${value.slice(0, 80)}")`;
  return { evacuatorClass, priority, role };
}

/** Whether it can be the class of an evacuator: a DNS subdomain. */
export function isClassName(name: string): boolean {
  return classPattern.test(name);
}

/** "The DaemonSet controller should register itself as a controller evacuator" (KEP-4212 > DaemonSet Controller). */
function withDaemonSetController(pod: Pod, registered: Evacuator[]): Evacuator[] {
  if (podTypeOf(pod) !== 'DaemonSet') return registered;
  if (registered.some(({ evacuatorClass }) => evacuatorClass === daemonSetClass)) return registered;
  return [
    ...registered,
    { evacuatorClass: daemonSetClass, priority: controllerPriority, role: controllerRole },
  ];
}

function byPriority(a: Evacuator, b: Evacuator): number {
  return b.priority - a.priority || compareNames(a.evacuatorClass, b.evacuatorClass);
}

export const HandOverReason = {
  /** The evacuator set `.status.activeEvacuatorCompleted`, and the pod is still there. */
  Completed: 'EvacuatorCompleted',
  /** `.status.evacuationProgressTimestamp` is older than `.spec.progressDeadlineSeconds`. */
  NoProgress: 'EvacuatorMadeNoProgress',
} as const;
export type HandOverReason = (typeof HandOverReason)[keyof typeof HandOverReason];

/** How an evacuator's turn ended. */
export interface HandOver {
  from: string;
  reason: HandOverReason;
}

export type Turn =
  /** Nobody can remove the pod gracefully, or all have tried: "the evacuation controller will attempt to evict". */
  | { kind: 'Evict' }
  /** Nobody may evict a pod of this type, and it has no evacuator. */
  | { kind: 'Keep' }
  /** The next evacuator is to be asked, which is the first when there was none before. */
  | { kind: 'Ask'; evacuatorClass: string; after?: HandOver }
  /** All had their turn: the eviction API is next. */
  | { kind: 'Exhausted'; after: HandOver }
  /** An evacuator is at work, and has until then to report progress. Milliseconds since 1970. */
  | { kind: 'Await'; until: number }
  /** The time of the last progress is missing, or lies ahead of the server's clock. */
  | { kind: 'Restamp' };

/** Clocks may differ by this much. Milliseconds. */
const clockSkew = 30_000;

/** Whose turn it is. All that it rests on is in the objects; `now` is the apiserver's clock. */
export function turnOf({ spec, status }: Pick<Evacuation, 'spec' | 'status'>, pod: Pod, now: Date): Turn {
  const { evacuators = [], progressDeadlineSeconds } = spec;
  const mayBeEvicted = podTypeOf(pod) === 'Default';
  const [first] = evacuators;
  if (first === undefined) return { kind: mayBeEvicted ? 'Evict' : 'Keep' };
  const isNobodysTurn = isFinished(pod) || isTrue(status?.conditions, exhaustedCondition);
  if (mayBeEvicted && isNobodysTurn) return { kind: 'Evict' };
  const active = evacuators.findIndex((one) => one.evacuatorClass === status?.activeEvacuatorClass);
  if (status === undefined || active < 0) return { kind: 'Ask', evacuatorClass: first.evacuatorClass };
  const standing = standingOf(status, progressDeadlineSeconds, now);
  if (standing.kind !== 'Ended') return standing;
  const after = { from: status.activeEvacuatorClass ?? '', reason: standing.reason };
  const next = evacuators[active + 1];
  if (next !== undefined) return { kind: 'Ask', evacuatorClass: next.evacuatorClass, after };
  if (mayBeEvicted) return { kind: 'Exhausted', after };
  const until = Date.parse(status.activeEvacuatorSince ?? '') + progressDeadlineSeconds * 1_000;
  return askAgain({ kind: 'Ask', evacuatorClass: first.evacuatorClass, after }, until, now);
}

/** A pod that nobody may evict goes on asking, at the pace of the deadline. */
function askAgain(ask: Extract<Turn, { kind: 'Ask' }>, until: number, now: Date): Turn {
  return now.getTime() < until ? { kind: 'Await', until } : ask;
}

type Standing = Extract<Turn, { kind: 'Await' | 'Restamp' }> | { kind: 'Ended'; reason: HandOverReason };

/** How it stands with the turn of the active evacuator. */
function standingOf(status: EvacuationStatus, progressDeadlineSeconds: number, now: Date): Standing {
  if (status.activeEvacuatorCompleted) return { kind: 'Ended', reason: HandOverReason.Completed };
  const progressedAt = Date.parse(status.evacuationProgressTimestamp ?? '');
  if (!(progressedAt <= now.getTime() + clockSkew)) return { kind: 'Restamp' };
  const until = progressedAt + progressDeadlineSeconds * 1_000;
  if (now.getTime() >= until) return { kind: 'Ended', reason: HandOverReason.NoProgress };
  return { kind: 'Await', until };
}

/** Who comes after an evacuator, for people: "data.example.com, then the eviction API". */
export function successorsOf({ spec }: Pick<Evacuation, 'spec'>, evacuatorClass: string, pod: Pod): string {
  const classes = (spec.evacuators ?? []).map((one) => one.evacuatorClass);
  const rest = classes.slice(classes.indexOf(evacuatorClass) + 1);
  const last = podTypeOf(pod) === 'Default' ? ['the eviction API'] : [`${classes[0]} again`];
  return [...rest, ...last].join(', then ');
}

/** Why an evacuator's turn ended, as a sentence. */
export function handOverMessage({ from, reason }: HandOver, progressDeadlineSeconds: number): string {
  return reason === HandOverReason.Completed
    ? `${from} has completed, and the pod is still there.`
    : `${from} has reported no progress for ${progressDeadlineSeconds} s.`;
}
