import type { Pod } from '../api/core.ts';
import type { Kube } from '../kube/client.ts';
import { byNode } from '../kube/cluster.ts';
import { type Change, Informer } from '../kube/informer.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { trimPod } from '../kube/transform.ts';

/** The benchmark's own watch of its pods. It measures every target alike, whatever the target reports itself. */
export class PodCount {
  readonly #pods;
  #lastChange = performance.now();

  constructor(kube: Kube, namespace: string, log: Log) {
    const indexes = { [byNode]: (pod: Pod) => (pod.spec.nodeName === undefined ? [] : [pod.spec.nodeName]) };
    this.#pods = new Informer({
      kube,
      resource: resources.pods,
      namespace,
      transform: trimPod,
      indexes,
      log,
    });
    this.#pods.subscribe(() => {
      this.#lastChange = performance.now();
    });
  }

  async start(signal: AbortSignal): Promise<void> {
    this.#pods.start(signal);
    await this.#pods.synced(signal);
  }

  list(): Readonly<Pod>[] {
    return this.#pods.list();
  }

  get size(): number {
    return this.#pods.size;
  }

  /** Returns the milliseconds since a pod changed last. */
  get quietMs(): number {
    return performance.now() - this.#lastChange;
  }

  /** Counts the pods on a node; with `ready`, those that are Running, Ready and not terminating. */
  count(node: string, which: 'all' | 'ready'): number {
    const pods = this.#pods.byIndex(byNode, node);
    return which === 'all' ? pods.length : pods.filter(isReady).length;
  }

  /** Records which pods terminate, from now on. */
  terminations(): Terminations {
    const times = new Map<string, number>();
    const stop = this.#pods.subscribe(({ type, object: { metadata } }) => {
      const { uid = '', deletionTimestamp } = metadata;
      if (type !== 'Deleted' && deletionTimestamp === undefined) return;
      if (!times.has(uid)) times.set(uid, performance.now());
    });
    return { times, stop };
  }

  /** Records the deletions of the nodes' pods from now on, until no pod is left. */
  deletions(nodes: readonly string[], signal: AbortSignal): Deletions {
    const wanted = new Set(nodes);
    const times: number[] = [];
    const empty = Promise.withResolvers<number>();
    const abort = () => empty.reject(signal.reason);
    const record = ({ type, object }: Change<Readonly<Pod>>) => {
      if (type !== 'Deleted' || !wanted.has(object.spec.nodeName ?? '')) return;
      times.push(performance.now());
      if (nodes.every((node) => this.count(node, 'all') === 0)) empty.resolve(performance.now());
    };
    const unsubscribe = this.#pods.subscribe(record);
    signal.addEventListener('abort', abort, { once: true });
    const ended = empty.promise.finally(() => {
      unsubscribe();
      signal.removeEventListener('abort', abort);
    });
    return { times, ended };
  }
}

/** When pods were first observed to terminate, by UID: times of performance.now(). */
export interface Terminations {
  readonly times: ReadonlyMap<string, number>;
  stop(): void;
}

export interface Deletions {
  /** performance.now() of each observed deletion; grows. */
  readonly times: readonly number[];
  /** performance.now() of the last deletion. */
  readonly ended: Promise<number>;
}

function isReady({ metadata, status }: Readonly<Pod>): boolean {
  return status.ready && status.phase === 'Running' && metadata.deletionTimestamp === undefined;
}
