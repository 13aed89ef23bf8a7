import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { errorMessage, isKubeError, isRejection } from '../../kube/errors.ts';
import type { Deps } from '../deps.ts';

/** A rejected node is tried again after this time. */
const retryAfterMs = 60_000;

/** Errors that a retry would not change. */
const permanentErrors = [
  'Invalid',
  'Forbidden',
  'NotFound',
  'AlreadyExists',
  'NamespaceTerminating',
] as const;

/** Returns the message of a rejection. Rethrows every other error, which ends the pass. */
export function rejectionMessage(error: unknown): string {
  if (!isKubeError(error, ...permanentErrors) && !isRejection(error)) throw error;
  return errorMessage(error);
}

/** The nodes whose NodeMaintenance the apiserver rejected, until they are tried again. */
export class Rejections {
  readonly #deps: Pick<Deps, 'cluster' | 'events'>;
  readonly #rejected = new Map<string, { message: string; at: number }>();

  constructor(deps: Pick<Deps, 'cluster' | 'events'>) {
    this.#deps = deps;
  }

  /** Returns the rejected nodes, each with the message of the apiserver. */
  current(): Map<string, string> {
    const since = this.#deps.cluster.kube.now().getTime() - retryAfterMs;
    for (const [node, { at }] of this.#rejected) if (at < since) this.#rejected.delete(node);
    return new Map([...this.#rejected].map(([node, { message }]) => [node, message]));
  }

  add(window: MaintenanceWindow, rejected: ReadonlyMap<string, string>): void {
    const at = this.#deps.cluster.kube.now().getTime();
    for (const [node, message] of rejected) this.#rejected.set(node, { message, at });
    this.recordEvents(window, rejected);
  }

  recordEvents(window: MaintenanceWindow, rejected: ReadonlyMap<string, string>): void {
    for (const [node, rejection] of rejected) {
      const message = `The apiserver rejected the maintenance of node ${node}: ${rejection}`;
      this.#deps.events.record(window, { type: 'Warning', reason: 'MaintenanceRejected', message });
    }
  }
}
