import type { Node } from '../api/core.ts';
import type { Kube } from '../kube/client.ts';
import { Informer } from '../kube/informer.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';

/** The benchmark's own watch of the nodes: it observes cordons of every target alike. */
export class Cordons {
  readonly #nodes: Informer<Node>;

  constructor(kube: Kube, log: Log) {
    this.#nodes = new Informer({ kube, resource: resources.nodes, log });
  }

  async start(signal: AbortSignal): Promise<void> {
    this.#nodes.start(signal);
    await this.#nodes.synced(signal);
  }

  /** Observes when the first of these nodes is cordoned, from now on. */
  first(names: readonly string[]): FirstCordon {
    const wanted = new Set(names);
    let at: number | undefined;
    const stop = this.#nodes.subscribe(({ type, object: { metadata, spec } }) => {
      if (type === 'Deleted' || spec.unschedulable !== true || !wanted.has(metadata.name)) return;
      at ??= performance.now();
    });
    return { at: () => at, stop };
  }
}

export interface FirstCordon {
  /** performance.now() of the first observed cordon; undefined before. */
  at(): number | undefined;
  stop(): void;
}
