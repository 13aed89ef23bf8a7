import type { Deployment, EndpointSlice, ObjectMeta, Service } from '../../api/core.ts';
import { compareNames, listed } from '../common/names.ts';
import { appsController, podTemplateHash, type Release } from './podRelease.ts';

/**
 * Decides how the pods of a Deployment are evacuated: each pod is released from its ReplicaSet, replaced by a new pod, and
 * evicted once the replacement is available.
 */

/** A pod that the selector of the Deployment matches. */
export interface Replica {
  metadata: ObjectMeta;
  status?: {
    phase?: string;
    conditions?: { type: string; status: string; lastTransitionTime?: string; message?: string }[];
  };
}

export interface ReplacementInput {
  deployment: Deployment;
  pods: readonly Replica[];
  /** UID of a pod -> its release. */
  released: ReadonlyMap<string, Release>;
  /** All Services of the namespace. */
  services: readonly Service[];
  /** The EndpointSlices of at least the Services that servicesOf returns. */
  slices: readonly EndpointSlice[];
  now: Date;
}

export type ReplacementStep =
  /** Replacing the pod first is impossible or would not help: the next evacuator takes over. */
  | { kind: 'Skip'; message: string }
  | { kind: 'Release' }
  | { kind: 'Wait'; message: string; expectedFinishTime?: Date }
  | { kind: 'Replaced'; message: string };

export interface ReplacementPlan {
  /** UID of an evacuated pod -> its next step. */
  steps: ReadonlyMap<string, ReplacementStep>;
  /** Grows as the replacements get closer to being available. */
  progress: number;
  /** Some pods only need time: for their Services, for minReadySeconds, or to become Ready again. */
  isNearlyDone: boolean;
  /** Number of pods that serve now, including released ones. */
  serving: number;
}

/** A replacement is reported as late when it takes this much longer than another pod of the Deployment did. */
const lateAfterMs = 60_000;
/** Assumed time until a pod is Ready when no pod of the Deployment is Ready. */
const defaultStartupMs = 60_000;
/** A pod that has been unready for less than this still counts as serving. */
const flappingMs = 30_000;

/** Decides the next step of each evacuated pod, given by UID. */
export function planReplacement(input: ReplacementInput, evacuated: ReadonlySet<string>): ReplacementPlan {
  const pods = input.pods
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .toSorted((a, b) => compareNames(a.metadata.name, b.metadata.name));
  const ours = pods.filter((pod) => evacuated.has(uidOf(pod)));
  const services = servicesOf(ours, input.services);
  const endpoints = services.map((service) => endpointsOf(service, input.slices));
  const replicas = pods
    .filter((pod) => isOwned(pod, input))
    .map((pod) => ({ pod, ...stateOf(pod, input, endpoints) }));
  const byUid = new Map(ours.map((pod) => [uidOf(pod), pod]));
  const steps = new Map<string, ReplacementStep>();
  const deploymentReason = irreplaceableReason(input.deployment, services);
  for (const uid of evacuated) {
    const message = deploymentReason ?? skipReason(byUid.get(uid), input);
    if (message !== undefined) steps.set(uid, { kind: 'Skip', message });
  }
  const waiting = ours.filter((pod) => !steps.has(uidOf(pod)));
  for (const [uid, step] of stepsOf({ ...input, replicas, endpoints }, waiting)) steps.set(uid, step);
  const isUnsteady = waiting.some((pod) => !isReady(pod));
  return {
    steps,
    progress: replicas.reduce((sum, { stage }) => sum + stage, 0),
    isNearlyDone: isUnsteady || replicas.some(({ stage }) => stage === Stage.Ready),
    serving:
      availableIn(replicas) + pods.filter((pod) => input.released.has(uidOf(pod)) && isReady(pod)).length,
  };
}

/** Returns the Services that select any of these pods. */
export function servicesOf(pods: readonly Replica[], services: readonly Service[]): Service[] {
  return services.filter(
    ({ spec }) => spec.type !== 'ExternalName' && pods.some((pod) => isSelected(pod, spec.selector)),
  );
}

function isSelected({ metadata }: Replica, selector: Record<string, string> | undefined): boolean {
  const wanted = Object.entries(selector ?? {}).filter(([key]) => key !== podTemplateHash);
  return wanted.length > 0 && wanted.every(([key, value]) => metadata.labels?.[key] === value);
}

/** The states of a pod on its way to being available; each counts more than the previous one. */
const Stage = { Created: 1, Scheduled: 2, Ready: 3, Available: 4 } as const;
type Stage = (typeof Stage)[keyof typeof Stage];

interface ReplicaState {
  stage: Stage;
  /** The reason why the pod is not available, for messages. */
  unavailableReason: string;
}

type ObservedReplica = ReplicaState & { pod: Replica };

function stateOf(
  pod: Replica,
  input: ReplacementInput,
  endpoints: readonly ServiceEndpoints[],
): ReplicaState {
  const ready = conditionOf(pod, 'Ready');
  const scheduled = conditionOf(pod, 'PodScheduled');
  // The scheduler may report a failure although it has bound the pod: the answer was lost.
  if (scheduled?.status === 'False' && ready?.status !== 'True')
    return {
      stage: Stage.Created,
      unavailableReason: `is not scheduled: ${scheduled.message ?? 'the scheduler gives no reason'}`,
    };
  if (ready?.status !== 'True') return { stage: Stage.Scheduled, unavailableReason: 'is not Ready' };
  const { minReadySeconds = 0 } = input.deployment.spec;
  const readySince = Date.parse(ready.lastTransitionTime ?? '');
  if (minReadySeconds > 0 && !(input.now.getTime() - readySince >= minReadySeconds * 1_000))
    return {
      stage: Stage.Ready,
      unavailableReason: `has not been Ready for ${minReadySeconds} s yet (minReadySeconds)`,
    };
  // A Service may select a label that is set while the pod runs; it never sends requests to pods without that label.
  const missing = endpoints.find((one) => isSelected(pod, one.selector) && !one.ready.has(uidOf(pod)));
  if (missing !== undefined)
    return {
      stage: Stage.Ready,
      unavailableReason: `is not in the EndpointSlices of Service ${missing.service} yet`,
    };
  return { stage: Stage.Available, unavailableReason: '' };
}

/** The pods that a Service sends requests to, by UID. */
interface ServiceEndpoints {
  service: string;
  selector: Record<string, string> | undefined;
  ready: ReadonlySet<string | undefined>;
}

function endpointsOf({ metadata, spec }: Service, slices: readonly EndpointSlice[]): ServiceEndpoints {
  const own = slices.filter(
    (slice) => slice.metadata.labels?.['kubernetes.io/service-name'] === metadata.name,
  );
  // "nil should be interpreted as true"
  const ready = own
    .flatMap(({ endpoints }) => endpoints ?? [])
    .filter(({ conditions }) => conditions?.ready !== false);
  const uids = ready.map(({ targetRef }) => targetRef?.uid);
  return { service: metadata.name, selector: spec.selector, ready: new Set(uids) };
}

export function conditionOf({ status }: Replica, wanted: string) {
  return status?.conditions?.find(({ type }) => type === wanted);
}

export function isReady(pod: Replica): boolean {
  return conditionOf(pod, 'Ready')?.status === 'True';
}

/** Reports whether a ReplicaSet counts the pod. A pod that was just released may still have its owner. */
function isOwned(pod: Replica, { released }: ReplacementInput): boolean {
  return !released.has(uidOf(pod)) && appsController(pod.metadata, 'ReplicaSet') !== undefined;
}

/** Returns why no pod of this Deployment can be replaced before it is evicted. */
function irreplaceableReason(
  { metadata, spec }: Deployment,
  services: readonly Service[],
): string | undefined {
  const name = `Deployment ${metadata.namespace}/${metadata.name}`;
  if (metadata.deletionTimestamp !== undefined) return `${name} is being deleted.`;
  if (spec.replicas === 0) return `${name} is scaled to 0.`;
  if (spec.strategy?.type === 'Recreate')
    return `${name} uses the strategy Recreate, which allows no replacement while the pod runs.`;
  const strict = services.find((service) => service.spec.selector?.[podTemplateHash] !== undefined);
  if (strict !== undefined)
    return `Service ${strict.metadata.name} selects pods by ${podTemplateHash}, so it would no longer select a released pod.`;
  return undefined;
}

/** Returns why replacing this pod first would not help. A released pod already has a replacement to wait for. */
function skipReason(
  pod: Replica | undefined,
  { deployment, released, now }: ReplacementInput,
): string | undefined {
  const { namespace, name } = deployment.metadata;
  if (pod === undefined) return `The pod no longer belongs to Deployment ${namespace}/${name}.`;
  if (isReady(pod) || released.has(uidOf(pod))) return undefined;
  const unreadySince = Date.parse(conditionOf(pod, 'Ready')?.lastTransitionTime ?? '');
  const mayRecover = now.getTime() - unreadySince < flappingMs;
  return mayRecover ? undefined : 'The pod is not Ready and serves no requests.';
}

/** The input, with the state of the replicas that the ReplicaSets count. */
interface ReplacementState extends ReplacementInput {
  replicas: readonly ObservedReplica[];
  endpoints: readonly ServiceEndpoints[];
}

/** Returns the steps of the evacuated pods that can be replaced. */
function stepsOf(state: ReplacementState, ours: readonly Replica[]): [string, ReplacementStep][] {
  const { deployment, released, pods, replicas } = state;
  const leaving = ours.filter((pod) => released.has(uidOf(pod))).toSorted(byRelease(released));
  const wanted = wantedWithout(leaving, state);
  const available = availableIn(replicas);
  // The pods that remain must be at least as many as the Deployment wants.
  const evictable = Math.max(0, available + leaving.length - wanted);
  const { namespace, name } = deployment.metadata;
  const counts = `${available} of ${wanted} pods of Deployment ${namespace}/${name} are available, not counting pods that are being evacuated`;
  const remark = unselectedRemark(state);
  const steps = leaving.map((pod, index): [string, ReplacementStep] => [
    uidOf(pod),
    index < evictable
      ? { kind: 'Replaced', message: `Replaced: ${counts}.${remark}` }
      : awaitReplacement(state, released.get(uidOf(pod)), { counts, remark }),
  ]);
  const out = pods.filter((pod) => released.has(uidOf(pod)) && !pod.metadata.deletionTimestamp);
  const room = Math.max(0, surgeOf(deployment) - out.length);
  const unreleased = ours.filter((pod) => !released.has(uidOf(pod)));
  return [
    ...steps,
    ...unreleased.map((pod, index): [string, ReplacementStep] => [
      uidOf(pod),
      releaseStep(pod, index < room, deployment),
    ]),
  ];
}

/** Returns the step of a pod that is not released yet. */
function releaseStep(pod: Replica, hasRoom: boolean, deployment: Deployment): ReplacementStep {
  if (pod.metadata.labels?.[podTemplateHash] === undefined)
    return {
      kind: 'Skip',
      message: `The pod has no label ${podTemplateHash}, so no ReplicaSet would replace it.`,
    };
  if (!isReady(pod))
    return {
      kind: 'Wait',
      message: `The pod has been unready for less than ${flappingMs / 1_000} s; waiting for it to become Ready again.`,
    };
  if (hasRoom) return { kind: 'Release' };
  const name = `${deployment.metadata.namespace}/${deployment.metadata.name}`;
  return {
    kind: 'Wait',
    message: `Waiting for other pods of Deployment ${name}: at most ${surgeOf(deployment)} at a time are replaced (maxSurge).`,
  };
}

/** Returns which Services will select no replacement, as a sentence after a space; empty when there are none. */
function unselectedRemark({ endpoints, replicas }: ReplacementState): string {
  const unselected = endpoints.filter(
    ({ selector }) => !replicas.some(({ pod }) => isSelected(pod, selector)),
  );
  if (replicas.length === 0 || unselected.length === 0) return '';
  const names = unselected.map(({ service }) => service).toSorted(compareNames);
  return ` No replacement has the labels that Service ${listed(names)} selects.`;
}

function awaitReplacement(
  { deployment, replicas, now }: ReplacementState,
  release: Release | undefined,
  { counts, remark }: { counts: string; remark: string },
): ReplacementStep {
  const minReadyMs = (deployment.spec.minReadySeconds ?? 0) * 1_000;
  const expectedMs = Date.parse(release?.releasedAt ?? '') + startupMs(replicas) + minReadyMs;
  const message = `${counts}: ${pendingReplicas(replicas)}.${remark}`;
  if (Number.isNaN(expectedMs)) return { kind: 'Wait', message };
  const expectedFinishTime = new Date(expectedMs);
  const isLate = now.getTime() > expectedMs + lateAfterMs;
  return {
    kind: 'Wait',
    message: isLate ? `Blocked since ${expectedFinishTime.toISOString()}: ${message}` : message,
    expectedFinishTime,
  };
}

/** Returns why the replica that is closest to being available is not, and how many more are not. */
function pendingReplicas(replicas: readonly ObservedReplica[]): string {
  const pending = replicas.filter(({ stage }) => stage !== Stage.Available);
  const [first] = pending.toSorted((a, b) => b.stage - a.stage);
  if (first === undefined) return 'no replacement has been created yet';
  const more = pending.length > 1 ? `, ${pending.length - 1} more not available` : '';
  return `${first.pod.metadata.name} ${first.unavailableReason}${more}`;
}

/** Returns how long the fastest pod took to become Ready. */
function startupMs(replicas: readonly ObservedReplica[]): number {
  const times = replicas.flatMap(({ pod }) => {
    const ready = conditionOf(pod, 'Ready');
    if (ready?.status !== 'True') return [];
    const ms = Date.parse(ready.lastTransitionTime ?? '') - Date.parse(pod.metadata.creationTimestamp ?? '');
    return Number.isNaN(ms) ? [] : [ms];
  });
  return times.length === 0 ? defaultStartupMs : Math.max(0, Math.min(...times));
}

/**
 * Returns how many pods must be available without the leaving ones: as many as served before the first of them was released,
 * because a pod that was already missing then is not waited for. At least one.
 */
function wantedWithout(leaving: readonly Replica[], { deployment, released }: ReplacementInput): number {
  const before = leaving.map((pod) => released.get(uidOf(pod))?.servedBefore ?? Number.POSITIVE_INFINITY);
  return Math.max(1, Math.min(wantedAvailable(deployment), Math.max(...before)));
}

function availableIn(replicas: readonly ObservedReplica[]): number {
  return replicas.filter(({ stage }) => stage === Stage.Available).length;
}

/** Returns how many pods the Deployment wants available. During a rollout it accepts maxUnavailable fewer, but at least one. */
function wantedAvailable({ metadata, spec, status }: Deployment): number {
  const { replicas = 1, strategy } = spec;
  const isRollingOut =
    (status?.observedGeneration ?? 0) < (metadata.generation ?? 0) ||
    (status?.updatedReplicas ?? 0) < (status?.replicas ?? 0);
  if (!isRollingOut) return replicas;
  const unavailable = Math.floor(scaledValue(strategy?.rollingUpdate?.maxUnavailable, replicas));
  return Math.max(1, replicas - unavailable);
}

/** Returns how many pods may be released at the same time: as many as a rollout would add, at least one. */
function surgeOf(deployment: Deployment): number {
  return Math.max(1, maxSurgeOf(deployment));
}

/** Returns how many pods more than its replicas a rollout of the Deployment creates. */
export function maxSurgeOf({ spec: { replicas = 1, strategy } }: Deployment): number {
  if (strategy?.type === 'Recreate') return 0;
  return Math.ceil(scaledValue(strategy?.rollingUpdate?.maxSurge, replicas));
}

/** Scales a number or a percentage to the replicas; the default of the apiserver is 25 %. */
function scaledValue(value: number | string | undefined, replicas: number): number {
  if (typeof value === 'number') return value;
  return (Number.parseInt(value ?? '25%', 10) / 100) * replicas;
}

function byRelease(released: ReadonlyMap<string, Release>) {
  const key = (pod: Replica) => `${released.get(uidOf(pod))?.releasedAt} ${pod.metadata.name}`;
  return (a: Replica, b: Replica) => compareNames(key(a), key(b));
}

function uidOf({ metadata }: Pick<Replica, 'metadata'>): string {
  return metadata.uid ?? '';
}
