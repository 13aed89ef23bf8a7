import type { KubeObject } from '../api/core.ts';
import { isFor } from '../domain/evacuation/evacuation.ts';
import { backOffMs } from '../kube/backOff.ts';
import type { FencedKube } from '../kube/client.ts';
import { byPodUid, type EvacuationView } from '../kube/cluster.ts';
import { errorMessage } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { type Requeue, WorkQueue } from '../kube/workQueue.ts';
import { StopReason } from './progress.ts';
import type { EvacuatedPod, EvacuatePod, Outcome, Protocol, Session } from './protocol.ts';

interface CallsOptions<Request extends KubeObject> {
  readonly protocol: Protocol<Request>;
  readonly evacuate: EvacuatePod;
  readonly view: Pick<EvacuationView, 'pods' | 'queues'> & { readonly kube: FencedKube };
  readonly log: Log;
  readonly maxConcurrent?: number | undefined;
  readonly onCall?: (() => (outcome: Outcome) => void) | undefined;
}

const retries = { firstMs: 1_000, capMs: 60_000 };
const defaultMaxConcurrent = 1_000;
/** A function that has not ended this long after its signal aborted is abandoned. */
export const stopTimeoutMs = 5_000;

/**
 * Calls a function for every request that is its own to serve. All state is in the objects, except the back-off after failures: after a crash, the
 * next process continues.
 */
export class Calls<Request extends KubeObject> {
  readonly #options: CallsOptions<Request>;
  readonly #queue = new WorkQueue('evacuator');
  /** Key of a request -> the call in progress. */
  readonly #sessions = new Map<string, Session>();
  /** UID of a completed request -> since when it was ours, until the informer shows the completion. */
  readonly #completed = new Map<string, string | undefined>();
  /** UID of a request -> number of failures in a row, and when to call the function again. */
  readonly #failures = new Map<string, { count: number; retryAtMs: number }>();

  constructor(options: CallsOptions<Request>) {
    this.#options = options;
  }

  /** Runs until the signal aborts. Resolves when the calls in progress have ended. */
  async run(signal: AbortSignal): Promise<void> {
    const { view, protocol, log, maxConcurrent = defaultMaxConcurrent } = this.#options;
    const unsubscribe = [
      protocol.informer.subscribe(({ type, key, object }) => {
        if (type === 'Deleted') this.#forget(object);
        this.#requestChanged(key);
      }),
      view.pods.subscribe(({ object }) => {
        const uid = object.metadata.uid ?? '';
        for (const { metadata } of protocol.informer.byIndex(byPodUid, uid))
          this.#requestChanged(`${metadata.namespace}/${metadata.name}`);
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

  /** Stops the call in progress if it must end, and queues a request that needs a call. */
  #requestChanged(key: string): void {
    this.#stopIfInactive(key);
    const { protocol } = this.#options;
    const request = protocol.informer.get(key);
    if (request === undefined) return;
    if (!protocol.isActive(request)) this.#completed.delete(request.metadata.uid ?? '');
    if (!this.#sessions.has(key) && this.#isDue(request)) this.#queue.add(key);
  }

  #stopIfInactive(key: string): void {
    const session = this.#sessions.get(key);
    if (session === undefined) return;
    const reason = this.#stopReason(session, this.#options.protocol.informer.get(key));
    if (reason !== undefined) session.stop(reason);
  }

  #stopReason(session: Session, request: Readonly<Request> | undefined): StopReason | undefined {
    if (!this.#podExists(session.podRef, session.namespace)) return StopReason.PodGone;
    const current = request?.metadata.uid === session.uid ? request : undefined;
    return this.#options.protocol.stopReason(current, session);
  }

  #podExists(podRef: { name: string; uid: string }, namespace: string): boolean {
    const pod = this.#options.view.pods.get(`${namespace}/${podRef.name}`);
    return pod !== undefined && isFor(podRef, pod);
  }

  async #reconcile(key: string, signal: AbortSignal): Promise<Requeue | undefined> {
    const { protocol } = this.#options;
    const request = protocol.informer.get(key);
    if (request === undefined || !this.#isDue(request)) return undefined;
    const uid = request.metadata.uid ?? '';
    const waitMs = (this.#failures.get(uid)?.retryAtMs ?? 0) - performance.now();
    if (waitMs > 0) return { requeueAfterMs: waitMs };
    const pod = await this.#livePod(request);
    if (pod === undefined || signal.aborted) return undefined;
    const session = protocol.openSession(request);
    this.#sessions.set(key, session);
    try {
      // The request may have changed while the pod was read.
      this.#stopIfInactive(key);
      return session.signal.aborted ? undefined : await this.#call(session, pod, request);
    } finally {
      session.end();
      this.#sessions.delete(key);
      // It may have become ours again during the call.
      this.#requestChanged(key);
    }
  }

  /** Reports whether the function must be called for a request. */
  #isDue(request: Readonly<Request>): boolean {
    const { protocol } = this.#options;
    if (protocol.isCancelled(request) || this.#isCompleted(request)) return false;
    // A pod that the informer has not seen yet must not be treated as gone.
    return (
      protocol.isActive(request) &&
      this.#podExists(protocol.targetOf(request), request.metadata.namespace ?? '')
    );
  }

  /** Reports whether we completed this activation, and not an earlier one. */
  #isCompleted(request: Readonly<Request>): boolean {
    const { uid = '' } = request.metadata;
    if (!this.#completed.has(uid)) return false;
    const [since, completed] = [this.#options.protocol.activatedAt(request), this.#completed.get(uid)];
    return !(Date.parse(since ?? '') > Date.parse(completed ?? ''));
  }

  /** Reads the pod of a request; undefined when it is gone or terminating. */
  async #livePod(request: Readonly<Request>): Promise<EvacuatedPod | undefined> {
    const { protocol, view } = this.#options;
    const { name, uid } = protocol.targetOf(request);
    const pod = await view.kube.get(resources.pods, { namespace: request.metadata.namespace, name });
    if (pod?.metadata.uid !== uid || pod.metadata.deletionTimestamp !== undefined) return undefined;
    return pod as EvacuatedPod;
  }

  async #call(session: Session, pod: EvacuatedPod, request: Readonly<Request>): Promise<Requeue | undefined> {
    const { protocol, evacuate, log, onCall } = this.#options;
    const fields = { [protocol.kind]: `${request.metadata.namespace}/${request.metadata.name}` };
    log.info('Evacuation started', { ...fields, evacuatorClass: protocol.name });
    if (!protocol.hasResponded(request)) session.respond();
    const ended = onCall?.();
    try {
      const message = await orAbandoned(
        evacuate(pod, protocol.evacuationOf(request), session),
        session.signal,
      );
      if (session.signal.aborted) throw session.signal.reason;
      const completed = await session.complete(message ?? undefined);
      if (completed === undefined) {
        ended?.('Stopped');
        return this.#retryLater(session.uid);
      }
      ended?.('Completed');
      this.#failures.delete(session.uid);
      this.#completed.set(session.uid, completed.activatedAt);
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

  async #failed(session: Session, error: unknown, fields: Record<string, unknown>): Promise<Requeue> {
    const { protocol, log } = this.#options;
    const retry = this.#retryLater(session.uid);
    log.warn('Evacuation failed, trying again', { ...fields, ...retry, error: errorMessage(error) });
    await session
      .fail(`${protocol.name} failed and will be called again: ${errorMessage(error)}`)
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

  #forget({ metadata: { uid = '' } }: Readonly<Request>): void {
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
