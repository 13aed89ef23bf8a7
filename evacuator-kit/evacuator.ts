import type { Evacuation } from '../api/evacuation.ts';
import { isFor, isWithdrawn } from '../domain/evacuation/evacuation.ts';
import { hasResponded } from '../domain/evacuation/evacuatorSelection.ts';
import { backOffMs } from '../kube/backOff.ts';
import type { FencedKube } from '../kube/client.ts';
import { byPodUid, type EvacuationView } from '../kube/cluster.ts';
import { errorMessage } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { type RawPod, resources } from '../kube/resources.ts';
import { type Requeue, WorkQueue } from '../kube/workQueue.ts';
import { requireClass } from './evacuatorClass.ts';
import { type Progress, StopReason } from './progress.ts';
import { EvacuationSession } from './session.ts';

/** A pod with all its fields, as just read from the apiserver. The type lists the fields that this project reads. */
export type EvacuatedPod = RawPod & { readonly spec: Readonly<Record<string, unknown>> };

/** Moves or terminates one pod: the contract is that of `Evacuate`. */
export type EvacuatePod = (
  pod: EvacuatedPod,
  evacuation: Readonly<Evacuation>,
  progress: Progress,
) => Promise<string | void>;

/** How a call ended. Stopped: its signal aborted. */
export type Outcome = 'Completed' | 'Failed' | 'Stopped';

export interface EvacuatorOptions {
  /** Class of the evacuator, for example `deployment.apps.k8s.io`: a DNS subdomain of at most 54 characters. */
  readonly evacuatorClass: string;
  readonly evacuate: EvacuatePod;
  /** Informers that the caller runs and may share. */
  readonly view: Pick<EvacuationView, 'pods' | 'evacuations' | 'queues'> & { readonly kube: FencedKube };
  readonly log: Log;
  /** Maximum number of pods that are evacuated in parallel. Others wait while their deadlines run. Default: 1000. */
  readonly maxConcurrent?: number | undefined;
  /** Called when a call starts. Returns what to call when it has ended. */
  readonly onCall?: (() => (outcome: Outcome) => void) | undefined;
}

const retries = { firstMs: 1_000, capMs: 60_000 };
const defaultMaxConcurrent = 1_000;
/** A function that has not ended this long after its signal aborted is abandoned. */
export const stopTimeoutMs = 5_000;

/**
 * Calls a function for every Evacuation whose active evacuator has this class. All state is in the objects, except the back-off
 * after failures: after a crash, the next process continues.
 */
export class Evacuator {
  readonly #options: EvacuatorOptions;
  readonly #queue = new WorkQueue('evacuator');
  /** Key of an Evacuation -> the call in progress. */
  readonly #sessions = new Map<string, EvacuationSession>();
  /** UID of a completed Evacuation -> its activeEvacuatorSince, until the informer shows the completion. */
  readonly #completed = new Map<string, string | undefined>();
  /** UID of an Evacuation -> number of failures in a row, and when to call the function again. */
  readonly #failures = new Map<string, { count: number; retryAtMs: number }>();

  /** Throws an Error with a one-line message for a class that cannot be part of an annotation name. */
  constructor(options: EvacuatorOptions) {
    requireClass(options.evacuatorClass);
    this.#options = options;
  }

  /** Runs until the signal aborts. Resolves when the calls in progress have ended. */
  async run(signal: AbortSignal): Promise<void> {
    const { view, log, maxConcurrent = defaultMaxConcurrent } = this.#options;
    const unsubscribe = [
      view.evacuations.subscribe(({ type, key, object }) => {
        if (type === 'Deleted') this.#forget(object);
        this.#evacuationChanged(key);
      }),
      view.pods.subscribe(({ object }) => {
        const uid = object.metadata.uid ?? '';
        for (const { metadata } of view.evacuations.byIndex(byPodUid, uid))
          this.#evacuationChanged(`${metadata.namespace}/${metadata.name}`);
      }),
    ];
    const onAbort = () => {
      for (const session of this.#sessions.values()) session.stop(StopReason.ShuttingDown);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      await this.#queue.run({
        workers: maxConcurrent,
        reconcile: (key) => this.#reconcile(key, signal),
        signal,
        log,
        observer: view.queues,
      });
    } finally {
      signal.removeEventListener('abort', onAbort);
      for (const stop of unsubscribe) stop();
    }
  }

  /** Stops the call in progress if it must end, and queues an Evacuation that needs a call. */
  #evacuationChanged(key: string): void {
    this.#stopIfInactive(key);
    const evacuation = this.#options.view.evacuations.get(key);
    if (evacuation === undefined) return;
    if (!this.#isActive(evacuation)) this.#completed.delete(evacuation.metadata.uid ?? '');
    if (!this.#sessions.has(key) && this.#isDue(evacuation)) this.#queue.add(key);
  }

  #stopIfInactive(key: string): void {
    const session = this.#sessions.get(key);
    if (session === undefined) return;
    const reason = this.#stopReason(session, this.#options.view.evacuations.get(key));
    if (reason !== undefined) session.stop(reason);
  }

  #stopReason(
    session: EvacuationSession,
    evacuation: Readonly<Evacuation> | undefined,
  ): StopReason | undefined {
    if (!this.#podExists(session.podRef, session.namespace)) return StopReason.PodGone;
    const current = evacuation?.metadata.uid === session.uid ? evacuation : undefined;
    const isDeleted = current === undefined || current.metadata.deletionTimestamp !== undefined;
    if (isDeleted && !session.forbidsCancellation) return StopReason.Cancelled;
    return current === undefined || this.#isActive(current) ? undefined : StopReason.DeadlineExceeded;
  }

  /** Reports whether the active evacuator has our class and has not completed. */
  #isActive({ status }: Readonly<Evacuation>): boolean {
    return status?.activeEvacuatorClass === this.#options.evacuatorClass && !status.activeEvacuatorCompleted;
  }

  #podExists(podRef: Evacuation['spec']['podRef'], namespace: string): boolean {
    const pod = this.#options.view.pods.get(`${namespace}/${podRef.name}`);
    return pod !== undefined && isFor(podRef, pod);
  }

  async #reconcile(key: string, signal: AbortSignal): Promise<Requeue | undefined> {
    const { view, evacuatorClass, log } = this.#options;
    const evacuation = view.evacuations.get(key);
    if (evacuation === undefined || !this.#isDue(evacuation)) return undefined;
    const uid = evacuation.metadata.uid ?? '';
    const waitMs = (this.#failures.get(uid)?.retryAtMs ?? 0) - performance.now();
    if (waitMs > 0) return { requeueAfterMs: waitMs };
    const pod = await this.#livePod(evacuation);
    if (pod === undefined || signal.aborted) return undefined;
    const session = new EvacuationSession({ kube: view.kube, evacuation, evacuatorClass, log });
    this.#sessions.set(key, session);
    try {
      // The Evacuation may have changed while the pod was read.
      this.#stopIfInactive(key);
      return session.signal.aborted ? undefined : await this.#call(session, pod, evacuation);
    } finally {
      session.end();
      this.#sessions.delete(key);
      // Our class may have become active again during the call.
      this.#evacuationChanged(key);
    }
  }

  /** Reports whether the function must be called for an Evacuation. */
  #isDue(evacuation: Readonly<Evacuation>): boolean {
    if (isWithdrawn(evacuation) || this.#isCompleted(evacuation)) return false;
    const { metadata, spec } = evacuation;
    // A pod that the informer has not seen yet must not be treated as gone.
    return this.#isActive(evacuation) && this.#podExists(spec.podRef, metadata.namespace ?? '');
  }

  /** Reports whether we completed this activation of our class, and not an earlier one. */
  #isCompleted({ metadata: { uid = '' }, status }: Readonly<Evacuation>): boolean {
    if (!this.#completed.has(uid)) return false;
    const [since, completed] = [status?.activeEvacuatorSince, this.#completed.get(uid)];
    return !(Date.parse(since ?? '') > Date.parse(completed ?? ''));
  }

  /** Reads the pod of an Evacuation; undefined when it is gone or terminating. */
  async #livePod({ metadata, spec }: Readonly<Evacuation>): Promise<EvacuatedPod | undefined> {
    const key = { namespace: metadata.namespace, name: spec.podRef.name };
    const pod = await this.#options.view.kube.get(resources.pods, key);
    if (pod?.metadata.uid !== spec.podRef.uid || pod.metadata.deletionTimestamp !== undefined)
      return undefined;
    return pod as EvacuatedPod;
  }

  async #call(
    session: EvacuationSession,
    pod: EvacuatedPod,
    evacuation: Readonly<Evacuation>,
  ): Promise<Requeue | undefined> {
    const fields = { evacuation: `${evacuation.metadata.namespace}/${evacuation.metadata.name}` };
    const { evacuatorClass, evacuate, log, onCall } = this.#options;
    log.info('Evacuation started', { ...fields, evacuatorClass });
    if (!hasResponded(evacuation)) session.respond();
    const ended = onCall?.();
    try {
      const message = await orAbandoned(evacuate(pod, evacuation, session), session.signal);
      if (session.signal.aborted) throw session.signal.reason;
      const completed = await session.complete(message ?? undefined);
      if (completed === undefined) {
        ended?.('Stopped');
        return this.#retryLater(session.uid);
      }
      ended?.('Completed');
      this.#failures.delete(session.uid);
      this.#completed.set(session.uid, completed.status?.activeEvacuatorSince);
      log.info('Evacuation completed', fields);
      return undefined;
    } catch (error) {
      if (session.signal.aborted) {
        const reason = errorMessage(session.signal.reason);
        log.info('Evacuation stopped', { ...fields, reason, error: errorMessage(error) });
        ended?.('Stopped');
        return undefined;
      }
      ended?.('Failed');
      return this.#failed(session, error, fields);
    }
  }

  async #failed(
    session: EvacuationSession,
    error: unknown,
    fields: Record<string, unknown>,
  ): Promise<Requeue> {
    const { evacuatorClass, log } = this.#options;
    const retry = this.#retryLater(session.uid);
    log.warn('Evacuation failed, trying again', { ...fields, ...retry, error: errorMessage(error) });
    await session
      .fail(`${evacuatorClass} failed and will be called again: ${errorMessage(error)}`)
      .catch((rejection) => {
        log.warn('Reporting the failure failed', { ...fields, error: errorMessage(rejection) });
      });
    return retry;
  }

  /** Schedules another call, with back-off. */
  #retryLater(uid: string): Requeue {
    const count = this.#failures.get(uid)?.count ?? 0;
    const requeueAfterMs = backOffMs(count, retries);
    this.#failures.set(uid, { count: count + 1, retryAtMs: performance.now() + requeueAfterMs });
    return { requeueAfterMs };
  }

  #forget({ metadata: { uid = '' } }: Readonly<Evacuation>): void {
    this.#completed.delete(uid);
    this.#failures.delete(uid);
  }
}

/** Resolves like the function, or rejects stopTimeoutMs after the signal aborted, so that a stuck call does not occupy a worker. */
async function orAbandoned<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const abandoned = Promise.withResolvers<never>();
  let timer: NodeJS.Timeout | undefined;
  const onAbort = () => {
    const message = `the function did not return within ${stopTimeoutMs / 1_000} s after its signal aborted, and was abandoned`;
    timer = setTimeout(() => abandoned.reject(new Error(message)), stopTimeoutMs);
  };
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([work, abandoned.promise]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  }
}
