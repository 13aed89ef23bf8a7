import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { backOffMs } from '../../kube/backOff.ts';
import { errorMessage } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import type { Inhibitor } from './logind.ts';

/** Name of the agent in `systemd-inhibit --list`. */
const agentInhibitor = 'node-maintenance-agent';

const inhibit = [
  'systemd-inhibit',
  '--what=shutdown',
  '--mode=delay',
  `--who=${agentInhibitor}`,
  '--why=Pods leave the node before it shuts down',
  'sleep',
  'infinity',
];

/** logind permits no new inhibitor during a shutdown, so that one that ends then cannot be replaced. */
const respawnBackOff = { firstMs: 500, capMs: 10_000 };

/**
 * Delays shutdowns: logind waits for a process that holds a descriptor, which is a child, because Node.js cannot receive descriptors over
 * D-Bus. The child outlives the agent, since logind grants no other one during a shutdown; the next agent finds it by its name.
 */
export class ShutdownInhibitor {
  readonly #busAddress: string;
  readonly #log: Log;
  #child: ChildProcess | undefined;
  #failures = 0;
  #retryAtMs = 0;
  #startedAtMs = 0;
  #reported: string | undefined;

  constructor({ busAddress, log }: { busAddress: string; log: Log }) {
    this.#busAddress = busAddress;
    this.#log = log;
  }

  /** Returns true if logind lists the child of this agent, or that of an earlier one. */
  isHeldIn(inhibitors: readonly Inhibitor[]): boolean {
    return ours(inhibitors).length > 0;
  }

  /** Starts a child unless logind lists one of this agent or of an earlier one. Does nothing within the back-off after a failure. */
  hold(inhibitors: readonly Inhibitor[]): void {
    const isHeld = this.isHeldIn(inhibitors);
    if (isHeld) {
      this.#failures = 0;
      this.#reported = undefined;
      return;
    }
    if (this.#child !== undefined) {
      // logind has forgotten it, for example because it was restarted without its state.
      const isForgotten = !inhibitors.some(({ who }) => who === agentInhibitor);
      if (isForgotten && performance.now() > this.#startedAtMs + forgottenMs) this.#child.kill('SIGTERM');
      return;
    }
    if (performance.now() < this.#retryAtMs) return;
    const command = [`DBUS_SYSTEM_BUS_ADDRESS=${this.#busAddress}`, ...inhibit];
    const child = spawn('env', command, { detached: true, stdio: ['ignore', 'ignore', 'pipe'] });
    this.#child = child;
    this.#startedAtMs = performance.now();
    const errors: string[] = [];
    child.stderr?.setEncoding('utf8').on('data', (text: string) => errors.push(text));
    child.once('error', (error) => this.#ended(child, errorMessage(error)));
    child.once('exit', (code, signal) => this.#ended(child, errors.join('').trim() || `${code ?? signal}`));
    child.once('spawn', () => this.#log.info('Shutdown inhibitor was started', { pid: child.pid }));
    child.unref();
  }

  /** Ends the child, also one of an earlier agent. The shutdown continues if nothing else delays it. */
  async release(inhibitors: readonly Inhibitor[]): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child?.pid !== undefined && child.exitCode === null) {
      child.kill('SIGTERM');
      await once(child, 'exit', { signal: AbortSignal.timeout(exitMs) }).catch(() => child.kill('SIGKILL'));
    }
    for (const { pid } of ours(inhibitors)) {
      if (pid !== child?.pid && (await isInhibitor(pid))) endProcess(pid);
    }
  }

  /** Leaves the child to the next agent. */
  leave(): void {
    this.#child?.stderr?.destroy();
    this.#child = undefined;
  }

  #ended(child: ChildProcess, error: string): void {
    if (this.#child !== child) return;
    this.#child = undefined;
    this.#retryAtMs = performance.now() + backOffMs(this.#failures++, respawnBackOff);
    if (this.#reported !== error) this.#log.warn('Shutdown inhibitor ended and is started again', { error });
    this.#reported = error;
  }
}

const exitMs = 5_000;
/** A child that logind does not list by then is started again. */
const forgottenMs = 10_000;

/** Only processes of root count: other users may choose any name. */
function ours(inhibitors: readonly Inhibitor[]): Inhibitor[] {
  return inhibitors.filter(({ who, uid }) => who === agentInhibitor && uid === process.getuid?.());
}

async function isInhibitor(pid: number): Promise<boolean> {
  const commandLine = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  return commandLine.includes(`--who=${agentInhibitor}`);
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGTERM');
  } catch {
    // It has ended by itself.
  }
}
