import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Attempt, Target, TargetMetrics } from './target.ts';

/** `kubectl drain NODE...` with its defaults, in the sandbox's version. */
export const kubectl: Target = {
  name: 'kubectl',
  async prepare({ sandbox, kubeconfigs }, nodeNames) {
    const env = { PATH: sandbox.bin, HOME: sandbox.dir, KUBECONFIG: kubeconfigs.kubectl };
    return new KubectlDrain(join(sandbox.bin, 'kubectl'), ['drain', ...nodeNames], env);
  },
};

class KubectlDrain implements Attempt {
  readonly #start: () => ChildProcess;
  #child: ChildProcess | undefined;
  #exit: Promise<unknown> | undefined;

  constructor(command: string, args: readonly string[], env: Record<string, string>) {
    this.#start = () => spawn(command, args, { env, stdio: ['ignore', 'ignore', 'pipe'] });
  }

  async drain(): Promise<void> {
    const child = this.#start();
    this.#child = child;
    this.#exit = once(child, 'close');
    const [complaints] = await Promise.all([child.stderr === null ? '' : text(child.stderr), this.#exit]);
    if (child.exitCode === 0) return;
    throw new Error(`kubectl drain failed: ${complaints.trim().split('\n').slice(-3).join(' | ')}`);
  }

  async settle(): Promise<void> {}

  async end(): Promise<TargetMetrics> {
    this.#child?.kill('SIGKILL');
    await this.#exit;
    return {};
  }
}
