import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../../sandbox/until.ts';
import { freePort } from '../../worker/http.ts';
import { stopChild } from '../childProcess.ts';
import { readMemoryMb } from '../memory.ts';
import type { Testbed } from '../testbed.ts';
import type { Operator } from './operator.ts';

const readyTimeoutMs = 60_000;
const stopTimeoutMs = 5_000;

/** An operator as a process of its own, new for each run. */
export class OperatorProcess {
  readonly #child: ChildProcess;
  readonly #log: string;
  readonly #exited = new AbortController();
  #startSeconds = NaN;

  private constructor(child: ChildProcess, log: string) {
    this.#child = child;
    this.#log = log;
    child.once('exit', () => this.#exited.abort(new Error(`It exited early: ${this.#lastError()}`)));
  }

  /** Resolves when it says that it is ready. */
  static async start(testbed: Testbed, operator: Operator, command: string): Promise<OperatorProcess> {
    const { sandbox, kubeconfigs, signal } = testbed;
    const dir = join(sandbox.dir, `${operator.name}-${crypto.randomUUID()}`);
    mkdirSync(dir);
    const healthPort = await freePort();
    const args = await operator.prepare({ dir, healthPort });
    const log = join(dir, 'log');
    const output = openSync(log, 'w');
    const launchedAt = performance.now();
    const child = spawn(command, args, {
      cwd: dir,
      env: { PATH: sandbox.bin, HOME: dir, TMPDIR: dir, KUBECONFIG: kubeconfigs[operator.name] },
      stdio: ['ignore', output, output],
    });
    closeSync(output);
    const started = new OperatorProcess(child, log);
    try {
      const notReady = () => started.#notReadyReason(healthPort);
      await until(`${operator.name} to be ready`, notReady, { timeoutMs: readyTimeoutMs, signal });
    } catch (error) {
      await started.stop();
      throw error;
    }
    started.#startSeconds = (performance.now() - launchedAt) / 1_000;
    return started;
  }

  /** Aborts when the process ends. */
  get exited(): AbortSignal {
    return this.#exited.signal;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get startSeconds(): number {
    return this.#startSeconds;
  }

  get peakMemoryMb(): number | undefined {
    return readMemoryMb(this.#child.pid, 'VmHWM');
  }

  async stop(): Promise<void> {
    await stopChild(this.#child, stopTimeoutMs);
  }

  async #notReadyReason(port: number): Promise<string | undefined> {
    this.exited.throwIfAborted();
    const health = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined);
    return health?.ok === true ? undefined : '/readyz does not answer 200';
  }

  #lastError(): string {
    const lines = readFileSync(this.#log, 'utf8').trim().split('\n');
    return (lines.findLast((line) => /\berror\b/i.test(line)) ?? lines.at(-1) ?? '').slice(0, 500);
  }
}
