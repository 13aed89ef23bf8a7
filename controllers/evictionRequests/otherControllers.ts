import { LIFECYCLE_EVICTION } from '../../api/names.ts';
import {
  type ObservedEviction,
  otherController,
  otherImperativeResponder,
} from '../../domain/evictionRequests/otherControllers.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { Log } from '../../kube/log.ts';
import type { EvictionView } from './evictionView.ts';

interface Deps {
  readonly view: EvictionView;
  readonly events: EventRecorder;
  readonly log: Log;
  /** When this process began to lead, in milliseconds since the epoch. */
  readonly sinceMs: number;
}

/**
 * Observes whether another program acts on EvictionRequests, or evicts pods as the imperative responder. From then on this process does not, until
 * it leads again: two controllers would undo each other's writes.
 */
export class OtherControllers {
  readonly #deps: Deps;
  #controller: string | undefined;
  #imperativeResponder: string | undefined;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  get hasController(): boolean {
    return this.#controller !== undefined;
  }

  get hasImperativeResponder(): boolean {
    return this.#imperativeResponder !== undefined;
  }

  /** Observes until the returned function is called. Must be called before other subscribers of the view act. */
  start(): () => void {
    const { view } = this.#deps;
    return view.evictions.subscribe(({ object }) => {
      this.#observe(object);
      this.#observeImperative(object);
    });
  }

  #observe(eviction: ObservedEviction): void {
    if (this.#controller !== undefined) return;
    this.#controller = otherController(eviction, this.#deps.sinceMs);
    if (this.#controller === undefined) return;
    const message = `Eviction ${eviction.metadata.name} is written by ${this.#controller}: the controller of node maintenance leaves EvictionRequests to it.`;
    this.#report(eviction, message);
  }

  #observeImperative(object: ObservedEviction): void {
    if (this.#imperativeResponder !== undefined) return;
    this.#imperativeResponder = otherImperativeResponder(object, this.#deps.sinceMs);
    if (this.#imperativeResponder === undefined) return;
    this.#report(
      object,
      `Eviction ${object.metadata.name} is carried out by ${this.#imperativeResponder}: node maintenance leaves the imperative evictions to it.`,
    );
  }

  #report({ metadata }: ObservedEviction, message: string): void {
    const { events, log } = this.#deps;
    const { name, namespace, uid } = metadata;
    const { apiVersion, kind } = LIFECYCLE_EVICTION;
    events.record(
      { apiVersion, kind, metadata: { name, ...(namespace && { namespace }), ...(uid && { uid }) } },
      { type: 'Warning', reason: 'EvictionControllerYielded', message },
    );
    log.warn('Another controller of EvictionRequests was found', { namespace, name, reason: message });
  }
}
