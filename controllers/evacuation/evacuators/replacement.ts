import type { Deployment, Pod } from '../../../api/core.ts';
import { RELEASED_ANNOTATION } from '../../../api/names.ts';
import { selectorText, selectsLabels } from '../../../domain/common/labelSelector.ts';
import {
  parseRelease,
  podTemplateHash,
  type Release,
  releaseText,
} from '../../../domain/evacuation/podRelease.ts';
import {
  planReplacement,
  type ReplacementInput,
  type ReplacementStep,
  servicesOf,
} from '../../../domain/evacuation/replacement.ts';
import type { Progress } from '../../../evacuator-kit/progress.ts';
import { sleep } from '../../../kube/abort.ts';
import { backOffMs } from '../../../kube/backOff.ts';
import { forEachBounded } from '../../../kube/bounded.ts';
import type { Cluster } from '../../../kube/cluster.ts';
import { errorMessage, isRejection } from '../../../kube/errors.ts';
import type { EventRecorder } from '../../../kube/events.ts';
import type { Log } from '../../../kube/log.ts';
import { type RawPod, resources } from '../../../kube/resources.ts';
import { isOutdated } from './patchOutcome.ts';

interface ReplacementOptions {
  cluster: Cluster;
  events: EventRecorder;
  log: Log;
  deployment: { namespace: string; name: string; uid: string };
  /** Called when no pod is left to replace. The object must not be used afterwards. */
  onEmpty: () => void;
}

/** A pod that is being evacuated. */
interface EvacuatedPod {
  uid: string;
  /** The annotation that releasing the pod sets, or has set. */
  release: Release;
  progress: Progress;
  /** The progress deadline of its Evacuation. */
  deadlineSeconds: number;
}

interface Member extends EvacuatedPod {
  done: PromiseWithResolvers<string>;
  lastMessage: string;
  /** The progress count of the Deployment at the last report of this pod, and when that was, by the clock of the process. */
  reportedProgress: number;
  reportedAtMs: number;
}

/** Shortest and longest time between two reconciles. */
const minIntervalMs = 250;
const maxIntervalMs = 30_000;
/** Time between two reconciles while a pod only needs time. */
const nearlyDoneBackOff = { firstMs: 500, capMs: 10_000 };
const failureBackOff = { firstMs: 1_000, capMs: 30_000 };
/** Longest time until the progress of a Deployment is reported for the pods that only wait. */
const maxReportDelayMs = 60_000;
const parallelReleases = 8;

const emptyAnnotations = { op: 'add', path: '/metadata/annotations', value: {} } as const;
const releasedPath = `/metadata/annotations/${RELEASED_ANNOTATION.replace('/', '~1')}`;

/**
 * Replaces the evacuated pods of one Deployment together, because what one may do depends on the others. Every reconcile reads
 * the current objects; the only state kept here is what was reported.
 */
export class Replacement {
  readonly #options: ReplacementOptions;
  /** UID of a pod -> the calls that wait for it: an Evacuation and an Eviction of the same pod have one each. */
  readonly #members = new Map<string, readonly Member[]>();
  #deployment: Deployment | undefined;
  #wake = new AbortController();
  #isRunning = false;
  /** Counts the steps that made progress. */
  #progress = 0;
  /** The highest progress of the plan since the last release. */
  #highestPlanProgress: number | undefined;
  /** Number of reconciles in a row without progress, and of those that failed. */
  #idle = 0;
  #failures = 0;

  constructor(options: ReplacementOptions) {
    this.#options = options;
  }

  /** Resolves with the final message when the pod is replaced or cannot be. Rejects when its evacuation, which is in progress, is stopped. */
  async join(pod: EvacuatedPod): Promise<string> {
    const { signal } = pod.progress;
    const member: Member = {
      ...pod,
      done: Promise.withResolvers(),
      lastMessage: '',
      reportedProgress: this.#progress,
      reportedAtMs: performance.now(),
    };
    const leave = () => {
      this.#remove(member);
      member.done.reject(signal.reason);
      this.#wake.abort();
    };
    signal.addEventListener('abort', leave, { once: true });
    this.#members.set(member.uid, [...(this.#members.get(member.uid) ?? []), member]);
    if (this.#isRunning) this.#wake.abort();
    else void this.#run();
    try {
      return await member.done.promise;
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }

  podChanged({ metadata }: Pod): void {
    const { namespace } = this.#options.deployment;
    const selector = this.#deployment?.spec.selector;
    if (metadata.namespace !== namespace || selector === undefined) return;
    if (selectsLabels(selector, metadata.labels ?? {})) this.#wake.abort();
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#members.size > 0) {
      this.#wake = new AbortController();
      const waitMs = await this.#reconcile().catch((error: unknown) => this.#reportFailure(error));
      if (this.#members.size === 0) break;
      await sleep(minIntervalMs);
      await sleep(waitMs, this.#wake.signal);
    }
    this.#isRunning = false;
    this.#options.onEmpty();
  }

  /** Reports a failed reconcile without moving the deadline. Returns the time until the retry. */
  #reportFailure(error: unknown): number {
    const { deployment, log } = this.#options;
    const name = `${deployment.namespace}/${deployment.name}`;
    const waitMs = backOffMs(this.#failures, failureBackOff);
    this.#failures += 1;
    log.warn('Checking replacements failed, trying again', { deployment: name, error: errorMessage(error) });
    const message = `Checking the replacements of Deployment ${name} failed, trying again: ${errorMessage(error)}`;
    for (const member of this.#all()) this.#reportWaiting(member, message);
    return waitMs;
  }

  /** Performs the next step of every pod. Returns the time until the next reconcile if nothing changes. */
  async #reconcile(): Promise<number> {
    const members = new Map(this.#members);
    const input = await this.#observe();
    if (input === undefined) {
      const { namespace, name } = this.#options.deployment;
      const message = `Deployment ${namespace}/${name} no longer exists.`;
      for (const member of this.#all()) this.#finish(member, message);
      return 0;
    }
    const { steps, progress, isNearlyDone, serving } = planReplacement(input, new Set(members.keys()));
    const progressBefore = this.#progress;
    // Progress before the first reconcile is not ours to report.
    if (progress > (this.#highestPlanProgress ?? progress)) this.#progress += 1;
    this.#highestPlanProgress = Math.max(this.#highestPlanProgress ?? progress, progress);
    const toRelease: (readonly Member[])[] = [];
    for (const [uid, step] of steps) {
      const ofPod = members.get(uid) ?? [];
      if (step.kind === 'Release') toRelease.push(ofPod);
      if (step.kind === 'Replaced') this.#progress += 1;
      for (const member of ofPod) this.#apply(member, step);
    }
    await forEachBounded(parallelReleases, toRelease, (ofPod) => this.#release(ofPod, input, serving));
    this.#failures = 0;
    this.#idle = this.#progress > progressBefore ? 0 : this.#idle + 1;
    const isBusy = isNearlyDone || toRelease.length > 0;
    return Math.min(isBusy ? backOffMs(this.#idle, nearlyDoneBackOff) : maxIntervalMs, this.#nextReportMs());
  }

  #apply(member: Member, step: ReplacementStep): void {
    switch (step.kind) {
      case 'Skip':
      case 'Replaced':
        this.#finish(member, step.message);
        break;
      case 'Wait':
        this.#report(member, step.message, step.expectedFinishTime);
        break;
      case 'Release':
        break;
    }
  }

  #finish(member: Member, message: string): void {
    this.#remove(member);
    member.done.resolve(message);
  }

  #all(): Member[] {
    return [...this.#members.values()].flat();
  }

  #remove(member: Member): void {
    const others = (this.#members.get(member.uid) ?? []).filter((one) => one !== member);
    if (others.length > 0) this.#members.set(member.uid, others);
    else this.#members.delete(member.uid);
  }

  /** Reports progress, which moves the deadline, only after a step that made progress; otherwise writes the message alone. */
  #report(member: Member, message: string, expectedFinishTime?: Date): void {
    const hasChanged = message !== member.lastMessage;
    const hasProgress = this.#progress !== member.reportedProgress;
    if (!hasProgress || (!hasChanged && this.#reportDelayMs(member) > 0)) {
      this.#reportWaiting(member, message);
      return;
    }
    member.progress.report({ message, ...(expectedFinishTime && { expectedFinishTime }) });
    member.reportedProgress = this.#progress;
    member.reportedAtMs = performance.now();
    member.lastMessage = message;
  }

  #reportWaiting(member: Member, message: string): void {
    if (message !== member.lastMessage) member.progress.reportWaiting(message);
    member.lastMessage = message;
  }

  /** Returns how long to delay the report of another pod's progress, because it would be a write for every waiting pod. */
  #reportDelayMs({ deadlineSeconds, reportedAtMs }: Member): number {
    return Math.min(deadlineSeconds * 100, maxReportDelayMs) - (performance.now() - reportedAtMs);
  }

  #nextReportMs(): number {
    const unreported = this.#all().filter((one) => one.reportedProgress < this.#progress);
    const delaysMs = unreported.map((member) => this.#reportDelayMs(member));
    return Math.max(nearlyDoneBackOff.firstMs, Math.min(...delaysMs));
  }

  /** Removes the label that the ReplicaSet selects, and writes the annotation that says how to return the pod, in one patch. */
  async #release(ofPod: readonly Member[], input: ReplacementInput, servedBefore: number): Promise<void> {
    const { cluster, events, log } = this.#options;
    const member = ofPod.find(({ progress }) => !progress.signal.aborted);
    const pod = input.pods.find(({ metadata }) => metadata.uid === member?.uid);
    if (pod === undefined || member === undefined) return;
    const { name, namespace = '', annotations, labels } = pod.metadata;
    const releasedAt = cluster.kube.now().toISOString();
    const value = releaseText({ ...member.release, releasedAt, servedBefore });
    try {
      await cluster.kube.jsonPatch(resources.pods, { namespace, name }, [
        { op: 'test', path: '/metadata/uid', value: member.uid },
        { op: 'test', path: `/metadata/labels/${podTemplateHash}`, value: labels?.[podTemplateHash] },
        ...(annotations === undefined ? [emptyAnnotations] : []),
        { op: 'add', path: releasedPath, value },
        { op: 'remove', path: `/metadata/labels/${podTemplateHash}` },
      ]);
    } catch (error) {
      // The next reconcile reads the pod again.
      if (await isOutdated(cluster.kube, pod.metadata, error)) return;
      if (!isRejection(error)) throw error;
      const message = `The apiserver rejected releasing the pod from its ReplicaSet: ${error.apiMessage}`;
      for (const one of ofPod) this.#finish(one, message);
      return;
    }
    this.#progress += 1;
    // The plan has a new replica to wait for, so its progress starts again.
    this.#highestPlanProgress = undefined;
    const replicaSet = member.release.replicaSet.name;
    const message = `Released from ReplicaSet ${replicaSet}, which creates a replacement while this pod keeps serving.`;
    const subject = { apiVersion: 'v1', kind: 'Pod', name, namespace, uid: member.uid };
    events.record(subject, { type: 'Normal', reason: 'ReleasedFromReplicaSet', message });
    log.info('Pod released', { pod: `${namespace}/${name}`, replicaSet });
  }

  /** Reads the current objects; undefined when the Deployment no longer exists. */
  async #observe(): Promise<ReplacementInput | undefined> {
    const { kube } = this.#options.cluster;
    const { namespace, name, uid } = this.#options.deployment;
    const deployment = await kube.get(resources.deployments, { namespace, name });
    if (deployment?.metadata.uid !== uid) return undefined;
    this.#deployment = deployment;
    const labelSelector = selectorText(deployment.spec.selector);
    const [pods, services] = await Promise.all([
      kube.list(resources.pods, { namespace, labelSelector }),
      kube.list(resources.services, { namespace }),
    ]);
    const evacuated = pods.items.filter(({ metadata }) => this.#members.has(metadata.uid ?? ''));
    const names = servicesOf(evacuated, services.items).map((service) => service.metadata.name);
    const ofServices = `kubernetes.io/service-name in (${names.join(',')})`;
    const slices =
      names.length === 0
        ? []
        : (await kube.list(resources.endpointSlices, { namespace, labelSelector: ofServices })).items;
    return {
      deployment,
      pods: pods.items,
      released: releasesOf(pods.items),
      services: services.items,
      slices,
      now: kube.now(),
    };
  }
}

/** Returns the released pods by UID. A returned pod has its label again, but keeps the annotation until it is adopted. */
function releasesOf(pods: readonly RawPod[]): Map<string, Release> {
  return new Map(
    pods.flatMap(({ metadata }): [string, Release][] => {
      if (metadata.labels?.[podTemplateHash] !== undefined) return [];
      const release = parseRelease(metadata.annotations?.[RELEASED_ANNOTATION]);
      return release === undefined ? [] : [[metadata.uid ?? '', release]];
    }),
  );
}
