import { Context } from '@temporalio/activity';
import type {
  MaintenanceWindowActivities,
  WindowOrders,
  WindowState,
  WindowStep,
} from '../../activities/contract.ts';
import { eventually } from './eventually.ts';

/** Often, because the worker takes a cancellation from the answer to a heartbeat. Milliseconds. */
const heartbeatEvery = 50;

/** The activities of one window without a cluster: rollOut lasts until the test ends it, or the workflow cancels it. */
export class FakeWindow {
  readonly name = `fake-${crypto.randomUUID().slice(0, 8)}`;
  /** Every call in order, with what was asked of it. */
  readonly calls: string[] = [];
  readonly activities: MaintenanceWindowActivities;
  /** Of the newest rollOut. */
  orders: WindowOrders | undefined;
  /** Of orders by message. */
  refusal: Error | undefined;
  resting: string[] = [];
  /** Until it resolves, the window is not open. */
  opening: Promise<void> = Promise.resolve();
  readonly #lastsMs: number;
  #underWay: ((step: WindowStep) => void) | undefined;

  constructor({ lastsMs = 3_600_000 } = {}) {
    this.#lastsMs = lastsMs;
    this.activities = {
      openWindow: async () => {
        this.calls.push('openWindow');
        await this.opening;
        const times = [0, this.#lastsMs].map((ms) => new Date(Date.now() + ms).toISOString());
        const [start = '', end = ''] = times;
        return { name: this.name, uid: 'uid', start, end, resting: this.resting };
      },
      rollOut: (_, orders) => this.#rollOut(orders),
      authorizeOrder: async () => {
        this.calls.push('authorizeOrder');
        if (this.refusal !== undefined) throw this.refusal;
      },
      advanceTurn: async (_, node) => void this.calls.push(`advanceTurn ${node}`),
      closeWindow: async () => void this.calls.push('closeWindow'),
    };
  }

  /** Resolves when rollOut is under way with these orders. */
  async ordered(orders: Partial<WindowOrders>): Promise<void> {
    await eventually(`rollOut with ${JSON.stringify(orders)}`, () => {
      expect({ underWay: this.#underWay !== undefined, ...this.orders }).toMatchObject({
        underWay: true,
        ...orders,
      });
    });
  }

  /** Ends the rollOut that is under way, or the next one. */
  async ends(step: WindowStep): Promise<void> {
    await this.ordered({});
    const end = this.#underWay;
    end?.(step);
    await eventually('rollOut to be over', () => expect(this.#underWay).not.toBe(end));
  }

  async #rollOut(orders: WindowOrders): Promise<WindowStep> {
    this.calls.push('rollOut');
    this.orders = orders;
    const context = Context.current();
    const over = Promise.withResolvers<WindowStep>();
    this.#underWay = over.resolve;
    const beat = setInterval(() => context.heartbeat(), heartbeatEvery);
    try {
      return await Promise.race([over.promise, context.cancelled]);
    } finally {
      clearInterval(beat);
      this.#underWay = undefined;
    }
  }
}

/** How far a window of four nodes has come; name what differs. */
export function windowState(differs: Partial<WindowState> = {}): WindowState {
  return { revision: 'r', nodes: 4, done: 0, underWay: [], failed: [], remaining: 4, ...differs };
}
