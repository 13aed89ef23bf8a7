import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { errorMessage, isKubeError, isRejection } from '../../kube/errors.ts';
import type { Deps } from '../deps.ts';
import { RejectedWrites } from '../rejectedWrites.ts';

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
export class RejectedNodes {
  readonly #events: Deps['events'];
  readonly #rejected = new RejectedWrites(retryAfterMs);

  constructor({ events }: Pick<Deps, 'events'>) {
    this.#events = events;
  }

  /** Returns the rejected nodes, each with the message of the apiserver. */
  current(): Map<string, string> {
    return this.#rejected.waiting();
  }

  /** Returns all nodes that were rejected, also those that are due again. */
  known(): Set<string> {
    return this.#rejected.known();
  }

  add(window: MaintenanceWindow, rejected: ReadonlyMap<string, string>): void {
    for (const [node, message] of rejected) this.#rejected.reject(node, message);
    this.recordEvents(window, rejected);
  }

  recordEvents(window: MaintenanceWindow, rejected: ReadonlyMap<string, string>): void {
    for (const [node, rejection] of rejected) {
      const message = `The apiserver rejected the maintenance of node ${node}: ${rejection}`;
      this.#events.record(window, { type: 'Warning', reason: 'MaintenanceRejected', message });
    }
  }
}
