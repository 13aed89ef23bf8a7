import type { KubeObject } from '../api/core.ts';
import type { ChangeHandler, Informer } from './informer.ts';

/** The use of an informer that runs only while it has users. */
export interface InformerUse<T extends KubeObject> {
  readonly informer: Informer<T>;
  /** Call it once. */
  release(): void;
}

/** An informer that runs while at least one caller uses it, and costs nothing otherwise. All callers share its watch. */
export class OnDemandInformer<T extends KubeObject> {
  readonly #create: () => Informer<T>;
  #running: { informer: Informer<T>; stop: AbortController; users: number } | undefined;

  constructor(create: () => Informer<T>) {
    this.#create = create;
  }

  /** Starts the informer unless it runs. `handler` receives what Informer.subscribe reports, until the use is released. */
  acquire(handler: ChangeHandler<T>): InformerUse<T> {
    const running = this.#running ?? this.#start();
    running.users += 1;
    const unsubscribe = running.informer.subscribe(handler);
    return {
      informer: running.informer,
      release: () => {
        unsubscribe();
        running.users -= 1;
        if (running.users === 0) this.#stop(running.stop);
      },
    };
  }

  #start() {
    const stop = new AbortController();
    const informer = this.#create();
    informer.start(stop.signal);
    this.#running = { informer, stop, users: 0 };
    return this.#running;
  }

  #stop(stop: AbortController): void {
    this.#running = undefined;
    stop.abort();
  }
}
