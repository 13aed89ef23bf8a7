import { sleep, anySignal } from '../../kube/abort.ts';
import { backOffMs } from '../../kube/backOff.ts';
import { errorMessage } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import { Bus } from './bus.ts';

/** The name of the agent on the system bus. The proxy of the kubelet lets PrepareForShutdown pass from it, and from nobody else. */
export const AGENT_BUS_NAME = 'io.k8s.nodemaintenance.Agent';

const manager = {
  destination: 'org.freedesktop.login1',
  path: '/org/freedesktop/login1',
  interface: 'org.freedesktop.login1.Manager',
} as const;

const shutdownRule = `type='signal',sender='${manager.destination}',path='${manager.path}',interface='${manager.interface}',member='PrepareForShutdown'`;
const ownerRule = `type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',member='NameOwnerChanged',arg0='${manager.destination}'`;

/** A process that delays shutdowns. */
export interface Inhibitor {
  readonly who: string;
  readonly uid: number;
  readonly pid: number;
}

/** The state of logind at one moment. */
export interface LogindState {
  /** A shutdown is in progress. */
  readonly preparing: boolean;
  readonly inhibitDelayMaxSeconds: number;
  /** Inhibitors that delay shutdowns. */
  readonly inhibitors: readonly Inhibitor[];
}

const reconnectBackOff = { firstMs: 250, capMs: 10_000 };

/**
 * Follows logind over D-Bus, whether or not the bus or logind restarts. A signal only says that there is something to read: what counts is
 * what logind answers, which no other process can forge.
 */
export class Logind {
  readonly #address: string;
  readonly #log: Log;
  #bus: Bus | undefined;
  #change = new AbortController();
  #reported: string | undefined;

  constructor({ busAddress, log }: { busAddress: string; log: Log }) {
    this.#address = busAddress;
    this.#log = log;
  }

  /** Stays connected until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      try {
        const bus = await this.#connect();
        failures = 0;
        await ended(bus.closed, signal);
        this.#disconnect(signal.aborted ? undefined : 'the connection to D-Bus ended');
      } catch (error) {
        this.#disconnect(errorMessage(error));
      }
      await sleep(backOffMs(failures++, reconnectBackOff), signal);
    }
  }

  /** Resolves with undefined if logind does not answer. */
  async observe(): Promise<LogindState | undefined> {
    const bus = this.#bus;
    if (bus === undefined) return undefined;
    try {
      const [preparing, delayUSec, [inhibitors]] = await Promise.all([
        bus.property({ ...manager, member: 'PreparingForShutdown' }),
        bus.property({ ...manager, member: 'InhibitDelayMaxUSec' }),
        bus.call({ ...manager, member: 'ListInhibitors' }),
      ]);
      this.#report(undefined);
      return {
        preparing: preparing === true,
        inhibitDelayMaxSeconds: Number(delayUSec) / 1e6,
        inhibitors: delayingShutdown(inhibitors),
      };
    } catch (error) {
      this.#report(errorMessage(error));
      return undefined;
    }
  }

  /** Sends PrepareForShutdown to the kubelet, which reacts as if logind had sent it. Rejects if the bus does not take it. */
  async notifyKubelet(preparing: boolean): Promise<void> {
    const bus = this.#bus;
    if (bus === undefined) throw new Error('there is no connection to D-Bus');
    // Not before, because another agent, such as one that is ending, may have owned the name.
    if (!(await bus.own(AGENT_BUS_NAME))) throw new Error(`another process owns ${AGENT_BUS_NAME}: end it`);
    const { path, interface: iface } = manager;
    const body = [preparing];
    await bus.broadcast({ path, interface: iface, member: 'PrepareForShutdown', signature: 'b', body });
  }

  /** Resolves when there may be something new, or after the time. */
  async changed(ms: number, signal: AbortSignal): Promise<void> {
    const either = anySignal(this.#change.signal, signal);
    await sleep(ms, either.signal);
    either.dispose();
    this.#change = this.#change.signal.aborted ? new AbortController() : this.#change;
  }

  async #connect(): Promise<Bus> {
    const bus = await Bus.connect(this.#address);
    try {
      await bus.listen(shutdownRule, () => this.#change.abort());
      await bus.listen(ownerRule, () => this.#change.abort());
      await bus.own(AGENT_BUS_NAME);
    } catch (error) {
      bus.close();
      throw error;
    }
    this.#bus = bus;
    this.#report(undefined);
    // A signal may have been missed.
    this.#change.abort();
    return bus;
  }

  #disconnect(error: string | undefined): void {
    this.#bus?.close();
    this.#bus = undefined;
    if (error !== undefined) this.#report(error);
  }

  #report(error: string | undefined): void {
    if (this.#reported === error) return;
    this.#reported = error;
    if (error === undefined) this.#log.info('Logind answered');
    else this.#log.warn('Logind could not be asked, retrying', { address: this.#address, error });
  }
}

async function ended(closed: AbortSignal, signal: AbortSignal): Promise<void> {
  const either = anySignal(closed, signal);
  await new Promise<void>((resolve) => {
    if (either.signal.aborted) resolve();
    else either.signal.addEventListener('abort', () => resolve(), { once: true });
  });
  either.dispose();
}

/** ListInhibitors returns what, who, why, mode, uid and pid of each. */
function delayingShutdown(reply: unknown): Inhibitor[] {
  if (!Array.isArray(reply)) return [];
  return reply.flatMap((fields: unknown): Inhibitor[] => {
    if (!Array.isArray(fields)) return [];
    const [what, who, , mode, uid, pid] = fields as unknown[];
    const delays = String(what).split(':').includes('shutdown') && mode === 'delay';
    return delays ? [{ who: String(who), uid: Number(uid), pid: Number(pid) }] : [];
  });
}
