import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { assertNever } from '../../domain/common/assertNever.ts';
import {
  adoption,
  nextShutdownStep,
  type Shutdown,
  shutdownMaintenance,
  shutdownMaintenanceName,
  type ShutdownStep,
} from '../../domain/shutdown/maintenance.ts';
import { Deadline, sleep } from '../../kube/abort.ts';
import { errorMessage } from '../../kube/errors.ts';
import type { JsonPatchOperation } from '../../kube/client.ts';
import { resources } from '../../kube/resources.ts';
import type { AgentDeps } from '../deps.ts';

/** Field manager of the agent's writes to NodeMaintenances. */
export const SHUTDOWN_MANAGER = 'node-maintenance-agent';

const { nodeMaintenances } = resources;
/** An apiserver that does not answer within this time is asked again. */
const requestMs = 5_000;

/** Requests the maintenance of a shutdown and follows it, until the signal aborts. */
export class ShutdownMaintenance {
  readonly #deps: AgentDeps;
  readonly #shutdown: Shutdown;
  #step: ShutdownStep['kind'] | undefined;
  #drainingUid: string | undefined;
  #answeredAtMs = performance.now();
  #reported: string | undefined;

  constructor(deps: AgentDeps, shutdown: Shutdown) {
    this.#deps = deps;
    this.#shutdown = shutdown;
  }

  /** The last step. */
  get step(): ShutdownStep['kind'] | undefined {
    return this.#step;
  }

  /** Time since an apiserver last had the maintenance, or since the start. */
  get silentMs(): number {
    return performance.now() - this.#answeredAtMs;
  }

  async run(pollMs: number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const deadline = new Deadline(requestMs, `no answer for ${requestMs / 1000} s`, signal);
      try {
        await this.#advance(deadline.signal);
        this.#report(undefined);
      } catch (error) {
        if (!signal.aborted) this.#report(errorMessage(error));
      } finally {
        deadline.dispose();
      }
      await sleep(pollMs, signal);
    }
  }

  async #advance(signal: AbortSignal): Promise<void> {
    const { kube, node } = this.#deps;
    const key = { name: shutdownMaintenanceName(node) };
    const existing = await kube.get(nodeMaintenances, key, { signal });
    const next = nextShutdownStep(existing, { ...this.#shutdown, drainingUid: this.#drainingUid });
    await this.#take(next, existing, signal);
    if (next.kind === this.#step) return;
    this.#step = next.kind;
    this.#deps.log.info('Maintenance of the shutdown was followed', { ...key, step: next.kind });
  }

  async #take(step: ShutdownStep, existing: NodeMaintenance | undefined, signal: AbortSignal): Promise<void> {
    const { kube } = this.#deps;
    const options = { signal, fieldManager: SHUTDOWN_MANAGER };
    const key = { name: shutdownMaintenanceName(this.#shutdown.node) };
    switch (step.kind) {
      case 'Create':
        this.#answered(await kube.create(nodeMaintenances, shutdownMaintenance(this.#shutdown), options));
        return;
      case 'Adopt':
        this.#answered(
          await kube.jsonPatch(nodeMaintenances, key, adopting(existing, this.#shutdown.bootId), options),
        );
        return;
      case 'Delete':
        await kube.delete(nodeMaintenances, key, { uid: step.uid, signal });
        return;
      case 'Draining':
      case 'Drained':
      case 'EndedByUser':
        this.#answered(existing);
        return;
      case 'AwaitDeletion':
        return;
      case 'Foreign':
        throw new Error(
          `it is of a user, and does not drain ${this.#shutdown.node} alone: delete it, because agents need its name`,
        );
      default:
        assertNever(step);
    }
  }

  #answered(maintenance: NodeMaintenance | undefined): void {
    this.#answeredAtMs = performance.now();
    if (maintenance?.spec.stage === 'Drain') this.#drainingUid = maintenance.metadata.uid;
  }

  #report(error: string | undefined): void {
    if (this.#reported === error) return;
    this.#reported = error;
    const fields = { name: shutdownMaintenanceName(this.#shutdown.node) };
    if (error === undefined) this.#deps.log.info('Maintenance of the shutdown was reached', fields);
    else this.#deps.log.warn('Maintenance of the shutdown could not be reached', { ...fields, error });
  }
}

/** The change of the reason makes the agent the requester, whose permissions count from then on. */
function adopting(existing: NodeMaintenance | undefined, bootId: string): JsonPatchOperation[] {
  if (existing === undefined) return [];
  const { annotations, reason } = adoption(existing, bootId);
  return [
    ...unchanged(existing),
    { op: 'add', path: '/metadata/annotations', value: annotations },
    { op: 'replace', path: '/spec/stage', value: 'Drain' },
    { op: 'add', path: '/spec/reason', value: reason },
  ];
}

/** Returns the patch that completes the maintenance, unless it has changed since. */
export function completion(maintenance: NodeMaintenance): JsonPatchOperation[] {
  return [...unchanged(maintenance), { op: 'replace', path: '/spec/stage', value: 'Complete' }];
}

function unchanged(maintenance: NodeMaintenance | undefined): JsonPatchOperation[] {
  const { uid, resourceVersion } = maintenance?.metadata ?? {};
  return [
    { op: 'test', path: '/metadata/uid', value: uid },
    { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
  ];
}
