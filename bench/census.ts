import type { Pod } from '../api/core.ts';
import type { Kube } from '../kube/client.ts';
import { byNode } from '../kube/cluster.ts';
import { type Change, Informer } from '../kube/informer.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { slimPod } from '../kube/slim.ts';

/** The bench's own watch of its pods: what every contender is judged by, whatever it says of itself. */
export class Census {
  readonly #pods;
  #lastChange = performance.now();

  constructor(kube: Kube, namespace: string, log: Log) {
    const indexes = { [byNode]: (pod: Pod) => (pod.spec.nodeName === undefined ? [] : [pod.spec.nodeName]) };
    this.#pods = new Informer({
      kube,
      resource: resources.pods,
      namespace,
      transform: slimPod,
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

  /** Milliseconds in which no pod has changed. */
  get quietMs(): number {
    return performance.now() - this.#lastChange;
  }

  /** Pods on a node; with `ready`, those that are Running, Ready and not on their way out. */
  count(node: string, which: 'all' | 'ready'): number {
    const pods = this.#pods.byIndex(byNode, node);
    return which === 'all' ? pods.length : pods.filter(isReady).length;
  }

  /** Follows the pods of the nodes from now on, until the last of them is gone. */
  departures(nodes: readonly string[], signal: AbortSignal): Departures {
    const wanted = new Set(nodes);
    const times: number[] = [];
    const empty = Promise.withResolvers<number>();
    const abort = () => empty.reject(signal.reason);
    const note = ({ type, object }: Change<Readonly<Pod>>) => {
      if (type !== 'Deleted' || !wanted.has(object.spec.nodeName ?? '')) return;
      times.push(performance.now());
      if (nodes.every((node) => this.count(node, 'all') === 0)) empty.resolve(performance.now());
    };
    const unsubscribe = this.#pods.subscribe(note);
    signal.addEventListener('abort', abort, { once: true });
    const ended = empty.promise.finally(() => {
      unsubscribe();
      signal.removeEventListener('abort', abort);
    });
    return { times, ended };
  }
}

export interface Departures {
  /** performance.now() at which each pod was seen to be gone; grows. */
  readonly times: readonly number[];
  /** performance.now() at which the last one was. */
  readonly ended: Promise<number>;
}

function isReady({ metadata, status }: Readonly<Pod>): boolean {
  return status.ready && status.phase === 'Running' && metadata.deletionTimestamp === undefined;
}
