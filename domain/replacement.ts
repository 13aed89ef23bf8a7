import type { Deployment, EndpointSlice, ObjectMeta, Service } from '../api/core.ts';
import { compareNames } from './names.ts';
import { appsController, podTemplateHash, type Release } from './release.ts';

/** How the pods of a Deployment leave their nodes: each is released, replaced, and let go. */

/** A pod that the Deployment's selector matches. */
export interface Replica {
  metadata: ObjectMeta;
  status?: {
    phase?: string;
    conditions?: { type: string; status: string; lastTransitionTime?: string; message?: string }[];
  };
}

/** What one look has found. */
export interface Scene {
  deployment: Deployment;
  pods: readonly Replica[];
  /** UID of a pod -> from whom it was released. */
  released: ReadonlyMap<string, Release>;
  /** All of the namespace. */
  services: readonly Service[];
  /** At least those of the Services that matter, see servicesOf. */
  slices: readonly EndpointSlice[];
  now: Date;
}

export type Step =
  /** Nothing that is done here would help it: the next evacuator is asked. */
  | { kind: 'HandOver'; message: string }
  | { kind: 'Release' }
  | { kind: 'Wait'; message: string; expectedFinishTime?: Date }
  /** It is replaced. */
  | { kind: 'LetGo'; message: string };

export interface Plan {
  /** UID of a pod that is to leave -> what is to be done with it. */
  steps: ReadonlyMap<string, Step>;
  /** The higher, the further the replacements have come. */
  progress: number;
  /** Some pods only need time: their Services, minReadySeconds, or to be Ready again. */
  isClose: boolean;
  /** How many pods serve now, those included that were released. */
  serving: number;
}

/** A replacement is spoken of as late when it takes so much longer than another pod took. Milliseconds. */
const lateness = 60_000;
/** How long a pod takes to become Ready when none shows it. Milliseconds. */
const usualStart = 60_000;
/** For how long a pod may be unready and is still taken for one that serves. Milliseconds. */
const flapping = 30_000;

/** What to do with the pods that are to leave, given by UID. */
export function planReplacement(scene: Scene, leaving: ReadonlySet<string>): Plan {
  const pods = scene.pods
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .toSorted((a, b) => compareNames(a.metadata.name, b.metadata.name));
  const ours = pods.filter((pod) => leaving.has(uidOf(pod)));
  const services = servicesOf(ours, scene.services);
  const fronts = services.map((service) => frontOf(service, scene.slices));
  const states = pods
    .filter((pod) => isOwned(pod, scene))
    .map((pod) => ({ pod, ...stateOf(pod, scene, fronts) }));
  const byUid = new Map(ours.map((pod) => [uidOf(pod), pod]));
  const steps = new Map<string, Step>();
  const refusal = refusalOf(scene.deployment, services);
  for (const uid of leaving) {
    const message = refusal ?? hopelessness(byUid.get(uid), scene);
    if (message !== undefined) steps.set(uid, { kind: 'HandOver', message });
  }
  const waiting = ours.filter((pod) => !steps.has(uidOf(pod)));
  for (const [uid, step] of stepsOf({ ...scene, states, fronts }, waiting)) steps.set(uid, step);
  const isUnsteady = waiting.some((pod) => !isReady(pod));
  return {
    steps,
    progress: states.reduce((sum, { stage }) => sum + stage, 0),
    isClose: isUnsteady || states.some(({ stage }) => stage === Stage.Ready),
    serving:
      availableOf(states) + pods.filter((pod) => scene.released.has(uidOf(pod)) && isReady(pod)).length,
  };
}

/** The Services that send requests to any of these pods. */
export function servicesOf(pods: readonly Replica[], services: readonly Service[]): Service[] {
  return services.filter(
    ({ spec }) => spec.type !== 'ExternalName' && pods.some((pod) => isSelected(pod, spec.selector)),
  );
}

function isSelected({ metadata }: Replica, selector: Record<string, string> | undefined): boolean {
  const wanted = Object.entries(selector ?? {}).filter(([key]) => key !== podTemplateHash);
  return wanted.length > 0 && wanted.every(([key, value]) => metadata.labels?.[key] === value);
}

/** How far a pod has come; each is worth more than the one before. */
const Stage = { Made: 1, Scheduled: 2, Ready: 3, Available: 4 } as const;
type Stage = (typeof Stage)[keyof typeof Stage];

interface State {
  stage: Stage;
  /** What it lacks, for people. */
  lacks: string;
}

type Seen = State & { pod: Replica };

function stateOf(pod: Replica, scene: Scene, fronts: readonly Front[]): State {
  const scheduled = conditionOf(pod, 'PodScheduled');
  if (scheduled?.status === 'False')
    return { stage: Stage.Made, lacks: `is not scheduled: ${scheduled.message ?? 'for no given reason'}` };
  const ready = conditionOf(pod, 'Ready');
  if (ready?.status !== 'True') return { stage: Stage.Scheduled, lacks: 'is not Ready' };
  const { minReadySeconds = 0 } = scene.deployment.spec;
  const readySince = Date.parse(ready.lastTransitionTime ?? '');
  if (minReadySeconds > 0 && !(scene.now.getTime() - readySince >= minReadySeconds * 1_000))
    return { stage: Stage.Ready, lacks: `is Ready, but not for ${minReadySeconds} s yet` };
  // A Service may select by a label that is set while the pod runs: it never sends to those that lack it.
  const without = fronts.find((front) => isSelected(pod, front.selector) && !front.ready.has(uidOf(pod)));
  if (without !== undefined)
    return { stage: Stage.Ready, lacks: `is not in the EndpointSlices of Service ${without.service} yet` };
  return { stage: Stage.Available, lacks: '' };
}

/** To which pods a Service sends requests, by UID. */
interface Front {
  service: string;
  selector: Record<string, string> | undefined;
  ready: ReadonlySet<string | undefined>;
}

function frontOf({ metadata, spec }: Service, slices: readonly EndpointSlice[]): Front {
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

function conditionOf({ status }: Replica, wanted: string) {
  return status?.conditions?.find(({ type }) => type === wanted);
}

function isReady(pod: Replica): boolean {
  return conditionOf(pod, 'Ready')?.status === 'True';
}

/** Whether a ReplicaSet counts it; one that was just released may still have its owner. */
function isOwned(pod: Replica, { released }: Scene): boolean {
  return !released.has(uidOf(pod)) && appsController(pod.metadata, 'ReplicaSet') !== undefined;
}

/** Why no pod of this Deployment is to be released. */
function refusalOf({ metadata, spec }: Deployment, services: readonly Service[]): string | undefined {
  const name = `Deployment ${metadata.namespace}/${metadata.name}`;
  if (metadata.deletionTimestamp !== undefined) return `${name} is being deleted.`;
  if (spec.replicas === 0) return `${name} is scaled to 0.`;
  if (spec.strategy?.type === 'Recreate')
    return `${name} has the strategy Recreate: no second pod may run beside the first.`;
  const strict = services.find((service) => service.spec.selector?.[podTemplateHash] !== undefined);
  if (strict !== undefined)
    return `Service ${strict.metadata.name} selects by ${podTemplateHash}: a released pod would drop out of it.`;
  return undefined;
}

/** Why releasing this pod would keep nothing available. One that was released is about to be replaced, and only waits. */
function hopelessness(pod: Replica | undefined, { deployment, released, now }: Scene): string | undefined {
  const { namespace, name } = deployment.metadata;
  if (pod === undefined) return `Deployment ${namespace}/${name} has no such pod any more.`;
  if (isReady(pod) || released.has(uidOf(pod))) return undefined;
  const since = Date.parse(conditionOf(pod, 'Ready')?.lastTransitionTime ?? '');
  const mayBeBack = now.getTime() - since < flapping;
  return mayBeBack ? undefined : 'The pod is not Ready: it serves nobody.';
}

/** A scene and what is concluded from it. */
interface Judged extends Scene {
  states: readonly Seen[];
  fronts: readonly Front[];
}

/** Of a Deployment that takes part, and of pods that serve. */
function stepsOf(judged: Judged, ours: readonly Replica[]): [string, Step][] {
  const { deployment, released, pods, states } = judged;
  const leaving = ours.filter((pod) => released.has(uidOf(pod))).toSorted(byRelease(released));
  const wanted = wantedWithout(leaving, judged);
  const available = availableOf(states);
  // Whoever goes leaves as many behind as the Deployment wants.
  const mayGo = Math.max(0, available + leaving.length - wanted);
  const { namespace, name } = deployment.metadata;
  const counted = `${available} of ${wanted} pods of Deployment ${namespace}/${name} are available without those that leave`;
  const remark = remarkOn(judged);
  const steps = leaving.map((pod, index): [string, Step] => [
    uidOf(pod),
    index < mayGo
      ? { kind: 'LetGo', message: `Replaced: ${counted}.${remark}` }
      : awaitReplacement(judged, released.get(uidOf(pod)), { counted, remark }),
  ]);
  const out = pods.filter(({ metadata }) => released.has(metadata.uid ?? '') && !metadata.deletionTimestamp);
  const room = Math.max(0, surgeOf(deployment) - out.length);
  const inLine = ours.filter((pod) => !released.has(uidOf(pod)));
  return [
    ...steps,
    ...inLine.map((pod, index): [string, Step] => [uidOf(pod), lineUp(pod, index, room, deployment)]),
  ];
}

function lineUp(pod: Replica, index: number, room: number, deployment: Deployment): Step {
  if (pod.metadata.labels?.[podTemplateHash] === undefined)
    return { kind: 'HandOver', message: `The pod has no label ${podTemplateHash}: nobody replaces it.` };
  if (!isReady(pod))
    return { kind: 'Wait', message: 'The pod is not Ready since a moment ago: it may soon serve again.' };
  if (index < room) return { kind: 'Release' };
  const atOnce = surgeOf(deployment);
  const name = `${deployment.metadata.namespace}/${deployment.metadata.name}`;
  return {
    kind: 'Wait',
    message: `In line: pods of Deployment ${name} leave ${atOnce} at a time (maxSurge).`,
  };
}

/** What the replacements can never do; empty, or a sentence after a space. */
function remarkOn({ fronts, states }: Judged): string {
  const lost = fronts.filter(({ selector }) => !states.some(({ pod }) => isSelected(pod, selector)));
  if (states.length === 0 || lost.length === 0) return '';
  const names = lost.map(({ service }) => service).toSorted(compareNames);
  return ` None of those has the labels by which Service ${names.join(', ')} selects.`;
}

function awaitReplacement(
  { deployment, states, now }: Judged,
  release: Release | undefined,
  { counted, remark }: { counted: string; remark: string },
): Step {
  const behind = states.filter(({ stage }) => stage !== Stage.Available);
  const [first] = behind.toSorted((a, b) => b.stage - a.stage);
  const more = behind.length > 1 ? `, and ${behind.length - 1} more are behind` : '';
  const what =
    first === undefined ? 'no replacement is made yet' : `${first.pod.metadata.name} ${first.lacks}${more}`;
  const minReady = (deployment.spec.minReadySeconds ?? 0) * 1_000;
  const expected = Date.parse(release?.releasedAt ?? '') + startOf(states) + minReady;
  const message = `${counted}: ${what}.${remark}`;
  if (Number.isNaN(expected)) return { kind: 'Wait', message };
  const expectedFinishTime = new Date(expected);
  const isLate = now.getTime() > expected + lateness;
  return {
    kind: 'Wait',
    message: isLate ? `Blocked since ${expectedFinishTime.toISOString()}: ${message}` : message,
    expectedFinishTime,
  };
}

/** How long the pod that was fastest took to become Ready. Milliseconds. */
function startOf(states: readonly Seen[]): number {
  const times = states.flatMap(({ pod }) => {
    const ready = conditionOf(pod, 'Ready');
    if (ready?.status !== 'True') return [];
    const ms = Date.parse(ready.lastTransitionTime ?? '') - Date.parse(pod.metadata.creationTimestamp ?? '');
    return Number.isNaN(ms) ? [] : [ms];
  });
  return times.length === 0 ? usualStart : Math.max(0, Math.min(...times));
}

/** As many as served before any of those left: a pod that was missing then is no reason to stay. Never none. */
function wantedWithout(leaving: readonly Replica[], { deployment, released }: Scene): number {
  const before = leaving.map((pod) => released.get(uidOf(pod))?.servedBefore ?? Number.POSITIVE_INFINITY);
  return Math.max(1, Math.min(wantedAvailable(deployment), Math.max(...before)));
}

function availableOf(states: readonly Seen[]): number {
  return states.filter(({ stage }) => stage === Stage.Available).length;
}

/** In a rollout a Deployment itself makes do with maxUnavailable less, but never with none. */
function wantedAvailable({ metadata, spec, status }: Deployment): number {
  const { replicas = 1, strategy } = spec;
  const isRollingOut =
    (status?.observedGeneration ?? 0) < (metadata.generation ?? 0) ||
    (status?.updatedReplicas ?? 0) < (status?.replicas ?? 0);
  if (!isRollingOut) return replicas;
  const spared = Math.floor(shareOf(strategy?.rollingUpdate?.maxUnavailable, replicas));
  return Math.max(1, replicas - spared);
}

/** How many pods may be released at the same time: as many as a rollout would add, at least one. */
function surgeOf({ spec }: Deployment): number {
  const { replicas = 1, strategy } = spec;
  return Math.max(1, Math.ceil(shareOf(strategy?.rollingUpdate?.maxSurge, replicas)));
}

/** A number, or a percentage of the replicas; the apiserver's default is 25 %. */
function shareOf(share: number | string | undefined, replicas: number): number {
  if (typeof share === 'number') return share;
  return (Number.parseInt(share ?? '25%', 10) / 100) * replicas;
}

function byRelease(released: ReadonlyMap<string, Release>) {
  const key = (pod: Replica) => `${released.get(uidOf(pod))?.releasedAt} ${pod.metadata.name}`;
  return (a: Replica, b: Replica) => compareNames(key(a), key(b));
}

function uidOf({ metadata }: Pick<Replica, 'metadata'>): string {
  return metadata.uid ?? '';
}
