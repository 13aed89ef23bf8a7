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
  /** Some replacements only need time: their Services, or minReadySeconds. */
  isClose: boolean;
}

/** A replacement is spoken of as late when it takes so much longer than another pod took. Milliseconds. */
const lateness = 60_000;
/** How long a pod takes to become Ready when none shows it. Milliseconds. */
const usualStart = 60_000;

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
    const message = refusal ?? hopelessness(byUid.get(uid), scene.deployment);
    if (message !== undefined) steps.set(uid, { kind: 'HandOver', message });
  }
  const waiting = ours.filter((pod) => !steps.has(uidOf(pod)));
  for (const [uid, step] of stepsOf(scene, waiting, states)) steps.set(uid, step);
  return {
    steps,
    progress: states.reduce((sum, { stage }) => sum + stage, 0),
    isClose: states.some(({ stage }) => stage === Stage.Ready),
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
  const without = fronts.find((front) => !front.ready.has(uidOf(pod)));
  if (without !== undefined)
    return { stage: Stage.Ready, lacks: `is not in the EndpointSlices of Service ${without.service} yet` };
  return { stage: Stage.Available, lacks: '' };
}

/** To which pods a Service sends requests, by UID. */
interface Front {
  service: string;
  ready: ReadonlySet<string | undefined>;
}

function frontOf({ metadata }: Service, slices: readonly EndpointSlice[]): Front {
  const own = slices.filter(
    (slice) => slice.metadata.labels?.['kubernetes.io/service-name'] === metadata.name,
  );
  // "nil should be interpreted as true"
  const ready = own
    .flatMap(({ endpoints }) => endpoints ?? [])
    .filter(({ conditions }) => conditions?.ready !== false);
  return { service: metadata.name, ready: new Set(ready.map(({ targetRef }) => targetRef?.uid)) };
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

/** Why releasing this pod would keep nothing available. */
function hopelessness(pod: Replica | undefined, { metadata }: Deployment): string | undefined {
  if (pod === undefined) return `Deployment ${metadata.namespace}/${metadata.name} has no such pod any more.`;
  return isReady(pod) ? undefined : 'The pod is not Ready: it serves nobody.';
}

/** Of pods that are Ready, of a Deployment that takes part. */
function stepsOf(scene: Scene, ours: readonly Replica[], states: readonly Seen[]): [string, Step][] {
  const { deployment, released, pods } = scene;
  const wanted = wantedAvailable(deployment);
  const available = states.filter(({ stage }) => stage === Stage.Available).length;
  const leaving = ours.filter((pod) => released.has(uidOf(pod))).toSorted(byRelease(released));
  // Whoever goes leaves as many behind as the Deployment wants.
  const mayGo = Math.max(0, available + leaving.length - wanted);
  const counted = `${available} of ${wanted} pods of Deployment ${deployment.metadata.namespace}/${deployment.metadata.name} are available`;
  const steps = leaving.map((pod, index): [string, Step] => [
    uidOf(pod),
    index < mayGo
      ? { kind: 'LetGo', message: `Replaced: ${counted} without those that leave.` }
      : awaitReplacement(scene, released.get(uidOf(pod)), counted, states),
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
  if (index < room) return { kind: 'Release' };
  const atOnce = surgeOf(deployment);
  const name = `${deployment.metadata.namespace}/${deployment.metadata.name}`;
  return {
    kind: 'Wait',
    message: `In line: pods of Deployment ${name} leave ${atOnce} at a time (maxSurge).`,
  };
}

function awaitReplacement(
  { deployment, now }: Scene,
  release: Release | undefined,
  counted: string,
  states: readonly Seen[],
): Step {
  const behind = states.filter(({ stage }) => stage !== Stage.Available);
  const [first] = behind.toSorted((a, b) => b.stage - a.stage);
  const more = behind.length > 1 ? `, and ${behind.length - 1} more are behind` : '';
  const what =
    first === undefined ? 'no replacement is made yet' : `${first.pod.metadata.name} ${first.lacks}${more}`;
  const minReady = (deployment.spec.minReadySeconds ?? 0) * 1_000;
  const expected = Date.parse(release?.releasedAt ?? '') + startOf(states) + minReady;
  const message = `${counted} without those that leave: ${what}.`;
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
