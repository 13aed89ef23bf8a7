import { uptime } from 'node:os';
import { shutdownMaintenanceName } from '../../domain/shutdown/maintenance.ts';
import {
  decideShutdown,
  ShutdownCause,
  type ShutdownDecision,
  shutdownLimits,
} from '../../domain/shutdown/hold.ts';
import { drainPlanOf, type ShutdownPriority, totalSeconds } from '../../domain/shutdown/priorities.ts';
import { anySignal } from '../../kube/abort.ts';
import type { EventContent } from '../../kube/events.ts';
import { errorMessage } from '../../kube/errors.ts';
import type { AgentDeps } from '../deps.ts';
import { ShutdownInhibitor } from './inhibitor.ts';
import { type Inhibitor, Logind, type LogindState } from './logind.ts';
import { ShutdownMaintenance } from './maintenance.ts';
import { type ShutdownRecord, ShutdownRecordFile } from './record.ts';
import { returnToService } from './returnToService.ts';

export interface ShutdownOptions {
  /** `--shutdown-priorities`; see domain/shutdown/priorities.ts. */
  readonly priorities: readonly ShutdownPriority[];
  /** `--shutdown-limit`. Undefined: the sum of the seconds of the priorities, otherwise as long as logind permits. */
  readonly limitSeconds?: number | undefined;
  /** `--kubelet-shutdown-period`: the `shutdownGracePeriod` of the kubelet, or the sum of its `shutdownGracePeriodByPodPriority`. */
  readonly kubeletPeriodSeconds: number;
  /** `--apiserver-timeout`: after so long without an apiserver the kubelet terminates the pods. */
  readonly apiserverTimeoutSeconds: number;
  /** D-Bus address of the system bus. */
  readonly busAddress: string;
  /** A directory that a boot empties, such as /run/node-maintenance-agent. */
  readonly runDirectory: string;
}

/** The state of shutdowns for the part of the agent that reboots the host. */
export class ShutdownState {
  /** The host is about to end, no matter who has asked for it. */
  isInProgress = false;
}

/** Interval in which a shutdown in progress is checked. */
const shutdownPollMs = 1_000;
/** Interval without a shutdown: signals of logind are read at once. */
const idlePollMs = 60_000;
/** Interval of attempts while logind does not answer. */
const unknownPollMs = 2_000;
/** `who` of the inhibitor of the kubelet (pkg/kubelet/nodeshutdown/systemd). */
const kubeletInhibitor = 'kubelet';

/**
 * Turns shutdowns of the node into a NodeMaintenance (KEP-4212 > kubelet: Graceful Node Shutdown), until the signal aborts. Never rejects: without
 * logind it waits for it. Contract:
 *
 * 1. A shutdown waits for the agent from PrepareForShutdown until the node is drained, or the limit.
 * 2. Before the agent lets the node go, it passes PrepareForShutdown on to a kubelet that waits for it, which terminates the pods that are left by its own
 *    priorities and then releases its own inhibitor. It does so early if no apiserver has the maintenance, and if the time runs out.
 * 3. What a restart of the agent must not forget is in logind (its inhibitor), in the NodeMaintenance, and in a file in /run.
 * 4. The maintenance is completed when the node is Ready in another boot, or when the shutdown was cancelled.
 */
export async function runShutdown(
  deps: AgentDeps,
  { shared = new ShutdownState(), ...options }: ShutdownOptions & { readonly shared?: ShutdownState },
  signal: AbortSignal,
): Promise<void> {
  const { busAddress, runDirectory } = options;
  const { log } = deps;
  const logind = new Logind({ busAddress, log });
  const connected = logind.run(signal);
  const node = new ShutdownHandler(deps, {
    options,
    logind,
    inhibitor: new ShutdownInhibitor({ busAddress, log }),
    file: new ShutdownRecordFile(runDirectory),
  });
  while (!signal.aborted) {
    const state = await logind.observe();
    shared.isInProgress = state?.preparing ?? shared.isInProgress;
    const waitMs = await node.reconcile(state, signal).catch((error: unknown) => {
      log.error('Shutdown could not be handled, retrying', { error: errorMessage(error) });
      return shutdownPollMs;
    });
    await logind.changed(waitMs, signal);
  }
  await node.close();
  await connected;
}

interface Parts {
  readonly options: ShutdownOptions;
  readonly logind: Logind;
  readonly inhibitor: ShutdownInhibitor;
  readonly file: ShutdownRecordFile;
}

/** A task that ends when it is stopped. */
interface Task {
  readonly ended: Promise<void>;
  stop(): void;
}

class ShutdownHandler {
  readonly #deps: AgentDeps;
  readonly #parts: Parts;
  #state: LogindState | undefined;
  #record: ShutdownRecord | undefined;
  #maintenance: { readonly of: ShutdownMaintenance; readonly task: Task } | undefined;
  #returning: Task | undefined;
  /** Nothing remains to be completed since the last shutdown. */
  #hasReturned = false;
  #hasReleased = false;
  #inhibitDelayMaxSeconds = defaultInhibitDelayMaxSeconds;
  #reportedProblem: string | undefined;

  constructor(deps: AgentDeps, parts: Parts) {
    this.#deps = deps;
    this.#parts = parts;
  }

  /** Resolves with the time after which to check again. */
  async reconcile(state: LogindState | undefined, signal: AbortSignal): Promise<number> {
    this.#state = state;
    if (state !== undefined) this.#checkLimit(state);
    if (state === undefined && this.#record === undefined) {
      // After another boot it is certain without logind that the shutdown is over.
      this.#startReturn(signal);
      return unknownPollMs;
    }
    if (state?.preparing === false) {
      await this.#handleNoShutdown(state, signal);
      return this.#parts.inhibitor.isHeldIn(state.inhibitors) ? idlePollMs : unknownPollMs;
    }
    await this.#handleShutdown(state, signal);
    return shutdownPollMs;
  }

  /** Releases the inhibitor, unless a shutdown is in progress: then the next agent continues it. */
  async close(): Promise<void> {
    const { inhibitor } = this.#parts;
    const isShuttingDown = this.#record !== undefined || this.#state?.preparing === true;
    if (isShuttingDown) inhibitor.leave();
    else await inhibitor.release(this.#state?.inhibitors ?? []);
    await Promise.all([this.#maintenance?.task.ended, this.#returning?.ended]);
  }

  async #handleNoShutdown({ inhibitors }: LogindState, signal: AbortSignal): Promise<void> {
    const { file, inhibitor, logind } = this.#parts;
    this.#maintenance?.task.stop();
    this.#maintenance = undefined;
    this.#hasReleased = false;
    inhibitor.hold(inhibitors);
    const record = this.#record ?? (await file.read());
    if (record !== undefined) {
      this.#deps.log.info('Shutdown was cancelled');
      if (record.kubeletNotified) await logind.notifyKubelet(false);
      await file.remove();
      this.#record = undefined;
      this.#hasReturned = false;
    }
    this.#startReturn(signal);
  }

  #startReturn(signal: AbortSignal): void {
    if (this.#hasReturned || this.#returning !== undefined) return;
    this.#returning = startTask(signal, async (stop) => {
      await returnToService(this.#deps, () => this.#state?.preparing, stop);
      this.#hasReturned = !stop.aborted;
      this.#returning = undefined;
    });
  }

  async #handleShutdown(state: LogindState | undefined, signal: AbortSignal): Promise<void> {
    const { file, inhibitor, options } = this.#parts;
    this.#returning?.stop();
    if (!this.#hasReleased && state !== undefined) inhibitor.hold(state.inhibitors);
    this.#record ??= (await file.read()) ?? (await this.#begin());
    const maintenance = this.#ensureMaintenance(signal);
    const decision = decideShutdown({
      limitSeconds: this.#limits().limitSeconds,
      kubeletSeconds: options.kubeletPeriodSeconds,
      apiserverTimeoutSeconds: options.apiserverTimeoutSeconds,
      elapsedSeconds: uptime() - this.#record.startedAtUptime,
      silentSeconds: maintenance.silentMs / 1000,
      maintenance: maintenance.step,
      kubeletDelays: kubeletDelays(state),
    });
    await this.#apply(decision, this.#record);
  }

  async #begin(): Promise<ShutdownRecord> {
    const record = { startedAtUptime: uptime(), kubeletNotified: false };
    await this.#writeRecord(record);
    const { limitSeconds } = this.#limits();
    this.#deps.log.info('Shutdown started', { limitSeconds });
    const name = shutdownMaintenanceName(this.#deps.node);
    const message = `The node is shutting down, and waits up to ${limitSeconds} s until NodeMaintenance ${name} has drained it.`;
    this.#event({ type: 'Normal', reason: 'ShutdownDelayed', message });
    return record;
  }

  #ensureMaintenance(signal: AbortSignal): ShutdownMaintenance {
    if (this.#maintenance === undefined) {
      const { node, bootId } = this.#deps;
      const drainPlan = drainPlanOf(this.#parts.options.priorities);
      const of = new ShutdownMaintenance(this.#deps, { node, bootId, drainPlan });
      this.#maintenance = { of, task: startTask(signal, (stop) => of.run(shutdownPollMs, stop)) };
    }
    return this.#maintenance.of;
  }

  async #apply(decision: ShutdownDecision, record: ShutdownRecord): Promise<void> {
    if (decision.kind === 'Hold' || this.#hasReleased) return;
    const needsNotification = !record.kubeletNotified && kubeletDelays(this.#state) !== false;
    const isNotified = !needsNotification || (await this.#notifyKubelet(record, decision.cause));
    if (decision.kind !== 'Release') return;
    // It is notified again at the next poll.
    if (!isNotified && decision.cause !== ShutdownCause.Limit) return;
    this.#hasReleased = true;
    this.#announce(decision.cause);
    await this.#parts.inhibitor.release(this.#state?.inhibitors ?? []);
  }

  /** Resolves with whether logind has passed it on. */
  async #notifyKubelet(record: ShutdownRecord, cause: ShutdownCause): Promise<boolean> {
    const { log } = this.#deps;
    const notified = { ...record, kubeletNotified: true };
    // Recorded first: the kubelet would close its descriptor twice for two signals.
    await this.#writeRecord(notified);
    try {
      await this.#parts.logind.notifyKubelet(true);
      this.#record = notified;
      log.info('Kubelet was notified of the shutdown', { cause });
      return true;
    } catch (error) {
      log.error('Kubelet could not be notified of the shutdown', { error: errorMessage(error) });
      return false;
    }
  }

  /** A shutdown is handled also if only a restart of the agent would need the record. */
  async #writeRecord(record: ShutdownRecord): Promise<void> {
    await this.#parts.file.write(record).catch((error: unknown) => {
      this.#deps.log.warn('Shutdown could not be recorded', { error: errorMessage(error) });
    });
  }

  #announce(cause: ShutdownCause): void {
    const { log, node } = this.#deps;
    if (cause === ShutdownCause.Drained) {
      log.info('Releasing the shutdown inhibitor', { cause });
      return;
    }
    log.warn('Releasing the shutdown inhibitor before the node is drained', { cause });
    const message = `Node ${node} shuts down before it was drained: ${causes[cause]}.`;
    this.#event({ type: 'Warning', reason: 'ShutdownNotDrained', message });
  }

  #checkLimit({ inhibitDelayMaxSeconds }: LogindState): void {
    this.#inhibitDelayMaxSeconds = inhibitDelayMaxSeconds;
    const { problem } = this.#limits();
    if (problem === this.#reportedProblem) return;
    this.#reportedProblem = problem;
    if (problem === undefined) return;
    this.#deps.log.warn('Shutdowns are delayed for less time than needed', { problem });
    this.#event({ type: 'Warning', reason: 'ShutdownDelayTooShort', message: `${problem}.` });
  }

  #limits() {
    const { limitSeconds, priorities, kubeletPeriodSeconds } = this.#parts.options;
    const wantedSeconds = limitSeconds ?? totalSeconds(priorities);
    const wanted = { wantedSeconds, kubeletSeconds: kubeletPeriodSeconds };
    return shutdownLimits(wanted, this.#inhibitDelayMaxSeconds);
  }

  #event(content: EventContent): void {
    const { events, node } = this.#deps;
    // As the kubelet names its Node in Events.
    events.record({ apiVersion: 'v1', kind: 'Node', name: node, uid: node }, content);
  }
}

/** The default of logind. */
const defaultInhibitDelayMaxSeconds = 5;

const causes = {
  Ended: 'its NodeMaintenance was completed',
  Limit: 'the time is up',
  NoApiserver: 'no apiserver has accepted its NodeMaintenance, and the kubelet has terminated the pods',
} as const;

function kubeletDelays(state: LogindState | undefined): boolean | undefined {
  const isKubelet = ({ who, uid }: Inhibitor) => who === kubeletInhibitor && uid === process.getuid?.();
  return state?.inhibitors.some(isKubelet);
}

function startTask(signal: AbortSignal, run: (stop: AbortSignal) => Promise<void>): Task {
  const controller = new AbortController();
  const either = anySignal(signal, controller.signal);
  return { ended: run(either.signal).finally(() => either.dispose()), stop: () => controller.abort() };
}
