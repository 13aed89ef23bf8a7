import type { Deployment, Pod } from '../../api/core.ts';
import { RELEASED_ANNOTATION } from '../../api/names.ts';
import { selectorText, selectsLabels } from '../../domain/labelSelector.ts';
import { parseRelease, podTemplateHash, type Release, releaseText } from '../../domain/release.ts';
import { planReplacement, type Scene, servicesOf, type Step } from '../../domain/replacement.ts';
import type { Progress } from '../../evacuator-kit/index.ts';
import { rest } from '../../kube/abort.ts';
import { backOffMs } from '../../kube/backOff.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import type { Cluster } from '../../kube/cluster.ts';
import { isRefusal, wordsOf } from '../../kube/errors.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { Log } from '../../kube/log.ts';
import { type RawPod, resources } from '../../kube/resources.ts';
import { isOutdated } from './patchOutcome.ts';

interface ReplacementOptions {
  cluster: Cluster;
  events: EventRecorder;
  log: Log;
  deployment: { namespace: string; name: string; uid: string };
  /** No pod is left to replace: it is not used again. */
  onEmpty: () => void;
}

/** A pod that is to leave. */
interface Leaving {
  uid: string;
  /** What is noted on it, or will be. */
  release: Release;
  progress: Progress;
  /** For how long it may report no progress. */
  deadlineSeconds: number;
}

interface Member extends Leaving {
  done: PromiseWithResolvers<string>;
  said: string;
  /** How far the Deployment had come when this one last reported, and when that was, by the process's clock. */
  told: number;
  toldAt: number;
}

/** Between two looks, however many changes there are, and when nothing changes. Milliseconds. */
const shortest = 250;
const longest = 30_000;
/** Between two looks when a pod only needs time: the longer it takes, the longer. */
const whenClose = { firstMs: 500, capMs: 10_000 };
/** Between two looks that fail. */
const whenFailed = { firstMs: 1_000, capMs: 30_000 };
/** Longest time between progress and the report of those who only wait for their turn. Milliseconds. */
const longestSilence = 60_000;
const releasesAtOnce = 8;

const emptyAnnotations = { op: 'add', path: '/metadata/annotations', value: {} } as const;
const releasedPath = `/metadata/annotations/${RELEASED_ANNOTATION.replace('/', '~1')}`;

/**
 * Replaces the pods of one Deployment that are to leave, together, because what one may do depends on the others. Looks at
 * everything anew each time, and remembers only what it has said.
 */
export class Replacement {
  readonly #options: ReplacementOptions;
  readonly #members = new Map<string, Member>();
  #deployment: Deployment | undefined;
  #wake = new AbortController();
  #isRunning = false;
  /** Counts whatever went ahead. */
  #steps = 0;
  #furthest: number | undefined;
  /** Looks in a row that saw nothing go ahead, and that failed. */
  #idle = 0;
  #failures = 0;

  constructor(options: ReplacementOptions) {
    this.#options = options;
  }

  /** Resolves with the last words about the pod when its turn is over. */
  async join(leaving: Leaving): Promise<string> {
    const { signal } = leaving.progress;
    signal.throwIfAborted();
    const member: Member = {
      ...leaving,
      done: Promise.withResolvers(),
      said: '',
      told: this.#steps,
      toldAt: performance.now(),
    };
    const leave = () => {
      this.#drop(member);
      member.done.reject(signal.reason);
      this.#wake.abort();
    };
    signal.addEventListener('abort', leave, { once: true });
    this.#members.set(member.uid, member);
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
      const waitMs = await this.#advance().catch((error: unknown) => this.#postpone(error));
      if (this.#members.size === 0) break;
      await rest(shortest);
      await rest(waitMs, this.#wake.signal);
    }
    this.#isRunning = false;
    this.#options.onEmpty();
  }

  /** Nobody sees how far the pods are: the deadline is left to run. */
  #postpone(error: unknown): number {
    const { deployment, log } = this.#options;
    const name = `${deployment.namespace}/${deployment.name}`;
    const waitMs = backOffMs(this.#failures, whenFailed);
    this.#failures += 1;
    log.warn('Replacements cannot be seen to, trying again', { deployment: name, error: wordsOf(error) });
    const message = `The replacements of Deployment ${name} cannot be seen to, trying again: ${wordsOf(error)}`;
    for (const member of this.#members.values()) this.#note(member, message);
    return waitMs;
  }

  /** Looks, and does what is to be done; returns how long to wait for a change. */
  async #advance(): Promise<number> {
    const members = new Map(this.#members);
    const scene = await this.#look();
    if (scene === undefined) {
      const { namespace, name } = this.#options.deployment;
      for (const member of members.values())
        this.#dismiss(member, `Deployment ${namespace}/${name} is gone.`);
      return 0;
    }
    const { steps, progress, isClose, serving } = planReplacement(scene, new Set(members.keys()));
    const before = this.#steps;
    // What has come far before the first look was told by somebody else.
    if (progress > (this.#furthest ?? progress)) this.#steps += 1;
    this.#furthest = Math.max(this.#furthest ?? progress, progress);
    const toRelease: Member[] = [];
    for (const [uid, step] of steps) {
      const member = members.get(uid);
      if (member !== undefined && this.#take(member, step) === 'Release') toRelease.push(member);
    }
    await forEachBounded(releasesAtOnce, toRelease, (member) => this.#release(member, scene, serving));
    this.#failures = 0;
    this.#idle = this.#steps > before ? 0 : this.#idle + 1;
    const waitMs = isClose || toRelease.length > 0 ? backOffMs(this.#idle, whenClose) : longest;
    return Math.min(waitMs, this.#nextReportMs());
  }

  #take(member: Member, step: Step): Step['kind'] {
    switch (step.kind) {
      case 'HandOver':
        this.#dismiss(member, step.message);
        break;
      case 'LetGo':
        this.#steps += 1;
        this.#dismiss(member, step.message);
        break;
      case 'Wait':
        this.#tell(member, step.message, step.expectedFinishTime);
        break;
      case 'Release':
        break;
    }
    return step.kind;
  }

  #dismiss(member: Member, message: string): void {
    this.#drop(member);
    member.done.resolve(message);
  }

  /** Another call for the same pod may have joined meanwhile. */
  #drop(member: Member): void {
    if (this.#members.get(member.uid) === member) this.#members.delete(member.uid);
  }

  /** Progress is what moves the deadline: that something else is waited for does not. */
  #tell(member: Member, message: string, expectedFinishTime?: Date): void {
    const isNews = message !== member.said;
    if (this.#steps === member.told || (!isNews && this.#silenceLeft(member) > 0))
      return this.#note(member, message);
    member.progress.report({ message, ...(expectedFinishTime && { expectedFinishTime }) });
    member.told = this.#steps;
    member.toldAt = performance.now();
    member.said = message;
  }

  #note(member: Member, message: string): void {
    if (message !== member.said) member.progress.note(message);
    member.said = message;
  }

  /** How long the steps of others may go untold: each would be a write for every pod that waits. Milliseconds. */
  #silenceLeft({ deadlineSeconds, toldAt }: Member): number {
    return Math.min(deadlineSeconds * 100, longestSilence) - (performance.now() - toldAt);
  }

  #nextReportMs(): number {
    const behind = [...this.#members.values()].filter(({ told }) => told < this.#steps);
    return Math.max(whenClose.firstMs, Math.min(...behind.map((member) => this.#silenceLeft(member))));
  }

  /** Takes the label by which its ReplicaSet knows it, in one step with the note of whose it was. */
  async #release(member: Member, scene: Scene, servedBefore: number): Promise<void> {
    const { cluster, events, log } = this.#options;
    const seen = scene.pods.find(({ metadata }) => metadata.uid === member.uid);
    if (seen === undefined || member.progress.signal.aborted) return;
    const { name, namespace = '', annotations, labels } = seen.metadata;
    const releasedAt = cluster.kube.now().toISOString();
    const note = releaseText({ ...member.release, releasedAt, servedBefore });
    try {
      await cluster.kube.jsonPatch(resources.pods, { namespace, name }, [
        { op: 'test', path: '/metadata/uid', value: member.uid },
        { op: 'test', path: `/metadata/labels/${podTemplateHash}`, value: labels?.[podTemplateHash] },
        ...(annotations === undefined ? [emptyAnnotations] : []),
        { op: 'add', path: releasedPath, value: note },
        { op: 'remove', path: `/metadata/labels/${podTemplateHash}` },
      ]);
    } catch (error) {
      // The next look shows how it is now.
      if (await isOutdated(cluster.kube, seen.metadata, error)) return;
      if (!isRefusal(error)) throw error;
      this.#dismiss(member, `The pod cannot be released, and so not be replaced: ${error.apiMessage}`);
      return;
    }
    this.#steps += 1;
    // What had come far now counts for less.
    this.#furthest = undefined;
    const replicaSet = member.release.replicaSet.name;
    const message = `Released from ReplicaSet ${replicaSet}, which makes another pod, while this one goes on serving.`;
    const subject = { apiVersion: 'v1', kind: 'Pod', name, namespace, uid: member.uid };
    events.record(subject, { type: 'Normal', reason: 'Released', message });
    log.info('Pod released', { pod: `${namespace}/${name}`, replicaSet });
  }

  /** Undefined when the Deployment is no more. */
  async #look(): Promise<Scene | undefined> {
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
    const leaving = pods.items.filter(({ metadata }) => this.#members.has(metadata.uid ?? ''));
    const names = servicesOf(leaving, services.items).map((service) => service.metadata.name);
    const ofServices = `kubernetes.io/service-name in (${names.join(',')})`;
    const slices =
      names.length === 0
        ? []
        : (await kube.list(resources.endpointSlices, { namespace, labelSelector: ofServices })).items;
    return {
      deployment,
      pods: pods.items,
      released: releasedOf(pods.items),
      services: services.items,
      slices,
      now: kube.now(),
    };
  }
}

/** A pod that was given back keeps its note until its ReplicaSet has it. */
function releasedOf(pods: readonly RawPod[]): Map<string, Release> {
  return new Map(
    pods.flatMap(({ metadata }): [string, Release][] => {
      if (metadata.labels?.[podTemplateHash] !== undefined) return [];
      const release = parseRelease(metadata.annotations?.[RELEASED_ANNOTATION]);
      return release === undefined ? [] : [[metadata.uid ?? '', release]];
    }),
  );
}
