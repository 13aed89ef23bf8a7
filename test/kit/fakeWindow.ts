import { Context } from '@temporalio/activity';
import type {
  AcceptedRequests,
  MaintenanceWindowActivities,
  WindowRequest,
  WindowRequests,
} from '../../activities/contract.ts';
import { requestsUnknownTo } from '../../domain/windows/requests.ts';
import type { WindowState, WindowStep } from '../../domain/windows/windowState.ts';
import { eventually } from './eventually.ts';
import { testScope } from './temporalNames.ts';

/** Short, because the worker learns of a cancellation from the answer to a heartbeat. */
const heartbeatMs = 50;
const heartbeatTimeoutSeconds = 540;

/**
 * Implements the activities of one window without a cluster: rollOut runs until the object records a request, the test ends it or the workflow
 * cancels it.
 */
export class FakeWindow {
  readonly name = `fake-${crypto.randomUUID().slice(0, 8)}`;
  /** Every call in order, with its argument. */
  readonly calls: string[] = [];
  readonly activities: MaintenanceWindowActivities;
  /** Requests of the latest rollOut. */
  requests: WindowRequests | undefined;
  /** The failure of authorizeRequest.  */
  rejection: Error | undefined;
  pausedByWindow: string[] = [];
  /** The window opens when it resolves. */
  opening: Promise<void> = Promise.resolve();
  readonly #lastsMs: number;
  /** Requests that the object records. */
  #recorded: AcceptedRequests = { approved: false, approvedNodes: [], paused: false, cancelled: false };
  #previous: WindowState | undefined;
  #inProgress: ((step: WindowStep) => void) | undefined;

  constructor({ lastsMs = 3_600_000 } = {}) {
    this.#lastsMs = lastsMs;
    this.activities = {
      openWindow: async () => {
        this.calls.push('openWindow');
        await this.opening;
        const times = [0, this.#lastsMs].map((ms) => new Date(Date.now() + ms).toISOString());
        const [start = '', end = ''] = times;
        const cluster = { name: testScope.name, uid: testScope.uid };
        const { name, pausedByWindow } = this;
        return { name, uid: 'uid', cluster, start, end, heartbeatTimeoutSeconds, pausedByWindow };
      },
      rollOut: (_, requests, previous) => this.#rollOut(requests, previous),
      authorizeRequest: async (_, request) => {
        this.calls.push('authorizeRequest');
        if (this.rejection !== undefined) throw this.rejection;
        this.#record(request);
      },
      advanceNode: async (_, node) => void this.calls.push(`advanceNode ${node}`),
      closeWindow: async () => void this.calls.push('closeWindow'),
    };
  }

  /** Waits until rollOut is in progress with these requests. */
  async eventuallyRequested(requests: Partial<WindowRequests>): Promise<void> {
    await eventually(`rollOut with ${JSON.stringify(requests)}`, () => {
      expect({ inProgress: this.#inProgress !== undefined, ...this.requests }).toMatchObject({
        inProgress: true,
        ...requests,
      });
    });
  }

  /** Ends the running rollOut, or the next one. */
  async ends(step: WindowStep): Promise<void> {
    await this.eventuallyRequested({});
    if ('state' in step && step.state.requests) this.#recorded = step.state.requests;
    const end = this.#inProgress;
    end?.(step);
    await eventually('rollOut to be over', () => expect(this.#inProgress).not.toBe(end));
  }

  /** Records a request, which ends rollOut as it ends the real one. */
  #record({ approvedNodes = [], ...flags }: WindowRequest): void {
    const nodes = new Set([...this.#recorded.approvedNodes, ...approvedNodes]);
    this.#recorded = { ...this.#recorded, ...flags, approvedNodes: [...nodes] } as AcceptedRequests;
    this.#inProgress?.(this.#progressed());
  }

  #progressed(): WindowStep {
    const state = { ...(this.#previous ?? windowState()), requests: this.#recorded };
    return { kind: 'Progressed', state };
  }

  async #rollOut(requests: WindowRequests, previous: WindowState | undefined): Promise<WindowStep> {
    this.calls.push('rollOut');
    this.requests = requests;
    this.#previous = previous;
    if (requestsUnknownTo(requests, { end: '', ...this.#recorded })) return this.#progressed();
    const context = Context.current();
    const over = Promise.withResolvers<WindowStep>();
    this.#inProgress = over.resolve;
    const heartbeat = setInterval(() => context.heartbeat(), heartbeatMs);
    try {
      return await Promise.race([over.promise, context.cancelled]);
    } finally {
      clearInterval(heartbeat);
      this.#inProgress = undefined;
    }
  }
}

/** Returns the state of a window of four nodes; pass only what differs. */
export function windowState(differs: Partial<WindowState> = {}): WindowState {
  return { revision: 'r', nodes: 4, done: 0, inProgress: [], failed: [], remaining: 4, ...differs };
}
