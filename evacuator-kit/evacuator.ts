import type { Evacuation } from '../api/evacuation.ts';
import { isFor, isWithdrawn } from '../domain/evacuation.ts';
import { backOffMs } from '../kube/backOff.ts';
import type { FencedKube } from '../kube/client.ts';
import { byPodUid, type EvacuationView } from '../kube/cluster.ts';
import { wordsOf } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { type RawPod, resources } from '../kube/resources.ts';
import { type Requeue, WorkQueue } from '../kube/workQueue.ts';
import { requireClass } from './evacuatorClass.ts';
import { type Progress, StopReason, Turn } from './turn.ts';

/** A pod with all its fields, as the apiserver had it a moment ago; the type names those that this package reads. */
export type LivePod = RawPod & { readonly spec: Readonly<Record<string, unknown>> };

/**
 * Moves or ends one pod in the application's own way. Contract:
 *
 * 1. It is called when `status.activeEvacuatorClass` is its class, for a pod that lives and is not terminating.
 * 2. When it returns, its turn is completed: the next evacuator is asked, at last the eviction API. What it returns is
 *    the last message.
 * 3. When it throws, the Evacuation says so, and it is called again, later and later, while it is still its turn.
 * 4. When `progress.signal` aborts it should end soon, and whatever it returns or throws then counts for nothing.
 * 5. After a restart it is called again for the same Evacuation: look at what is there already, and at
 *    `evacuation.status`, before doing anything.
 */
export type Evacuate = (
  pod: LivePod,
  evacuation: Readonly<Evacuation>,
  progress: Progress,
) => Promise<string | void>;

export interface EvacuatorOptions {
  /** For example `deployment.apps.k8s.io`: a DNS subdomain of at most 54 characters. */
  readonly evacuatorClass: string;
  readonly evacuate: Evacuate;
  /** Its informers are watched by the caller, who may share them. */
  readonly view: Pick<EvacuationView, 'pods' | 'evacuations'> & { readonly kube: FencedKube };
  readonly log: Log;
  /** Pods that are evacuated at the same time; the others wait, and their deadlines run. Default 1000. */
  readonly atOnce?: number | undefined;
}

const retries = { firstMs: 1_000, capMs: 60_000 };
const manyAtOnce = 1_000;
/** A function that does not end for so long after it was told to stop is left behind. Milliseconds. */
export const stopsWithin = 5_000;

/**
 * Calls a function for every Evacuation whose turn is its class's. Keeps nothing that the objects do not say, but for
 * the delays after failures: kill it anywhere and the next one goes on.
 */
export class Evacuator {
  readonly #options: EvacuatorOptions;
  readonly #queue = new WorkQueue();
  /** Evacuation key -> the call that is under way. */
  readonly #turns = new Map<string, Turn>();
  /** UID of an Evacuation whose completion was written -> since when the turn was ours, until the informer shows it. */
  readonly #completed = new Map<string, string | undefined>();
  /** UID of an Evacuation -> how often the function failed for it, and when it is called again. */
  readonly #failures = new Map<string, { count: number; retryAt: number }>();

  /** Throws an Error of one line for a class that no annotation can name. */
  constructor(options: EvacuatorOptions) {
    requireClass(options.evacuatorClass);
    this.#options = options;
  }

  /** Works until the signal aborts; resolves when the calls under way have ended. */
  async run(signal: AbortSignal): Promise<void> {
    const { view, log, atOnce = manyAtOnce } = this.#options;
    const unsubscribe = [
      view.evacuations.subscribe(({ type, key, object }) => {
        if (type === 'Deleted') this.#forget(object);
        this.#look(key);
      }),
      view.pods.subscribe(({ object }) => {
        const uid = object.metadata.uid ?? '';
        for (const { metadata } of view.evacuations.byIndex(byPodUid, uid))
          this.#look(`${metadata.namespace}/${metadata.name}`);
      }),
    ];
    const stop = () => {
      for (const turn of this.#turns.values()) turn.stop(StopReason.Stopping);
    };
    signal.addEventListener('abort', stop, { once: true });
    try {
      await this.#queue.run({
        workers: atOnce,
        reconcile: (key) => this.#evacuate(key, signal),
        signal,
        log,
      });
    } finally {
      signal.removeEventListener('abort', stop);
      for (const end of unsubscribe) end();
    }
  }

  #look(key: string): void {
    this.#stopIfOver(key);
    const evacuation = this.#options.view.evacuations.get(key);
    if (evacuation === undefined) return;
    if (!this.#isOurs(evacuation)) this.#completed.delete(evacuation.metadata.uid ?? '');
    if (!this.#turns.has(key) && this.#isDue(evacuation)) this.#queue.add(key);
  }

  #stopIfOver(key: string): void {
    const turn = this.#turns.get(key);
    if (turn === undefined) return;
    const reason = this.#reasonToStop(turn, this.#options.view.evacuations.get(key));
    if (reason !== undefined) turn.stop(reason);
  }

  #reasonToStop(turn: Turn, evacuation: Readonly<Evacuation> | undefined): StopReason | undefined {
    if (!this.#hasPod(turn.podRef, turn.namespace)) return StopReason.PodGone;
    const current = evacuation?.metadata.uid === turn.uid ? evacuation : undefined;
    const isDeleted = current === undefined || current.metadata.deletionTimestamp !== undefined;
    if (isDeleted && !turn.forbidsCancellation) return StopReason.Cancelled;
    return current === undefined || this.#isOurs(current) ? undefined : StopReason.TurnLost;
  }

  /** Whether it is our class's turn, and nobody said that it is over. */
  #isOurs({ status }: Readonly<Evacuation>): boolean {
    return status?.activeEvacuatorClass === this.#options.evacuatorClass && !status.activeEvacuatorCompleted;
  }

  #hasPod(podRef: Evacuation['spec']['podRef'], namespace: string): boolean {
    const pod = this.#options.view.pods.get(`${namespace}/${podRef.name}`);
    return pod !== undefined && isFor(podRef, pod);
  }

  async #evacuate(key: string, signal: AbortSignal): Promise<Requeue | undefined> {
    const { view, evacuatorClass, log } = this.#options;
    const evacuation = view.evacuations.get(key);
    if (evacuation === undefined || !this.#isDue(evacuation)) return undefined;
    const uid = evacuation.metadata.uid ?? '';
    const waitMs = (this.#failures.get(uid)?.retryAt ?? 0) - performance.now();
    if (waitMs > 0) return { requeueAfterMs: waitMs };
    const pod = await this.#livePod(evacuation);
    if (pod === undefined || signal.aborted) return undefined;
    const turn = new Turn({ kube: view.kube, evacuation, evacuatorClass, log });
    this.#turns.set(key, turn);
    try {
      // It may have changed while the pod was fetched.
      this.#stopIfOver(key);
      return turn.signal.aborted ? undefined : await this.#call(turn, pod, evacuation);
    } finally {
      turn.end();
      this.#turns.delete(key);
      // The turn may have been lost and regained meanwhile.
      this.#look(key);
    }
  }

  #isDue(evacuation: Readonly<Evacuation>): boolean {
    if (isWithdrawn(evacuation) || this.#isCompleted(evacuation)) return false;
    // A pod that the informer has not seen yet would be taken for gone.
    return (
      this.#isOurs(evacuation) && this.#hasPod(evacuation.spec.podRef, evacuation.metadata.namespace ?? '')
    );
  }

  /** Whether we completed this turn, and none that began later. */
  #isCompleted({ metadata: { uid = '' }, status }: Readonly<Evacuation>): boolean {
    if (!this.#completed.has(uid)) return false;
    const [since, completed] = [status?.activeEvacuatorSince, this.#completed.get(uid)];
    return !(Date.parse(since ?? '') > Date.parse(completed ?? ''));
  }

  /** The pod that is meant, unless it is on its way out. */
  async #livePod({ metadata, spec }: Readonly<Evacuation>): Promise<LivePod | undefined> {
    const key = { namespace: metadata.namespace, name: spec.podRef.name };
    const pod = await this.#options.view.kube.get(resources.pods, key);
    if (pod?.metadata.uid !== spec.podRef.uid || pod.metadata.deletionTimestamp !== undefined)
      return undefined;
    return pod as LivePod;
  }

  async #call(turn: Turn, pod: LivePod, evacuation: Readonly<Evacuation>): Promise<Requeue | undefined> {
    const fields = { evacuation: `${evacuation.metadata.namespace}/${evacuation.metadata.name}` };
    const { evacuatorClass, evacuate, log } = this.#options;
    log.info('Evacuation begun', { ...fields, evacuatorClass });
    try {
      const message = await orLeftBehind(evacuate(pod, evacuation, turn), turn.signal);
      if (turn.signal.aborted) throw turn.signal.reason;
      const completed = await turn.complete(message ?? undefined);
      if (completed === undefined) return this.#later(turn.uid);
      this.#failures.delete(turn.uid);
      this.#completed.set(turn.uid, completed.status?.activeEvacuatorSince);
      log.info('Evacuation completed', fields);
      return undefined;
    } catch (error) {
      if (turn.signal.aborted) {
        log.info('Evacuation stopped', {
          ...fields,
          reason: wordsOf(turn.signal.reason),
          last: wordsOf(error),
        });
        return undefined;
      }
      return this.#failed(turn, error, fields);
    }
  }

  async #failed(turn: Turn, error: unknown, fields: Record<string, unknown>): Promise<Requeue> {
    const { evacuatorClass, log } = this.#options;
    const again = this.#later(turn.uid);
    log.warn('Evacuation failed, trying again', { ...fields, ...again, error: wordsOf(error) });
    await turn.fail(`${evacuatorClass} failed, and is tried again: ${wordsOf(error)}`).catch((refusal) => {
      log.warn('The failure could not be written', { ...fields, error: wordsOf(refusal) });
    });
    return again;
  }

  /** The more often in a row, the later. */
  #later(uid: string): Requeue {
    const count = this.#failures.get(uid)?.count ?? 0;
    const requeueAfterMs = backOffMs(count, retries);
    this.#failures.set(uid, { count: count + 1, retryAt: performance.now() + requeueAfterMs });
    return { requeueAfterMs };
  }

  #forget({ metadata: { uid = '' } }: Readonly<Evacuation>): void {
    this.#completed.delete(uid);
    this.#failures.delete(uid);
  }
}

/** Waits for the function, but not for ever once it was told to stop: it would keep its place from others. */
async function orLeftBehind<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const leftBehind = Promise.withResolvers<never>();
  let timer: NodeJS.Timeout | undefined;
  const onAbort = () => {
    const words = `the function goes on ${stopsWithin / 1_000} s after it was told to stop, and is left behind`;
    timer = setTimeout(() => leftBehind.reject(new Error(words)), stopsWithin);
  };
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([work, leftBehind.promise]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  }
}
