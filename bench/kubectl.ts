import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { killChild } from './childProcess.ts';
import { readMemoryMb } from './memory.ts';
import type { Attempt, DrainRequest, Target, TargetMetrics } from './target.ts';
import type { TargetName } from './targetNames.ts';
import type { Testbed } from './testbed.ts';

/** `kubectl drain NODE...` with its defaults, in the sandbox's version: one process for each maintenance. */
export const kubectl: Target = {
  name: 'kubectl',
  prepare: async (testbed, { maintenances }) => drainOf(testbed, 'kubectl', maintenances),
};

/** `kubectl drain NODE`, a process for each node of each maintenance, all at once. */
export const kubectlPerNode: Target = {
  name: 'kubectl-per-node',
  prepare: async (testbed, request) =>
    drainOf(
      testbed,
      'kubectl-per-node',
      request.maintenances.flatMap((nodes) => nodes.map((node) => [node])),
    ),
};

function drainOf(
  { sandbox, kubeconfigs }: Testbed,
  target: TargetName,
  processes: DrainRequest['maintenances'],
): Attempt {
  const env = { PATH: sandbox.bin, HOME: sandbox.dir, KUBECONFIG: kubeconfigs[target] };
  const start = (nodes: readonly string[]) =>
    spawn(join(sandbox.bin, 'kubectl'), ['drain', ...nodes], { env, stdio: ['ignore', 'ignore', 'pipe'] });
  return new KubectlDrain(() => processes.map(start));
}

const samplingMs = 200;

class KubectlDrain implements Attempt {
  readonly #start: () => ChildProcess[];
  #children: ChildProcess[] = [];
  /** The peak of each process so far: its last sample, because it ends by itself. */
  readonly #peaksMb = new Map<ChildProcess, number>();

  constructor(start: () => ChildProcess[]) {
    this.#start = start;
  }

  async drain(): Promise<void> {
    this.#children = this.#start();
    const sampling = setInterval(() => this.#sample(), samplingMs);
    try {
      await Promise.all(this.#children.map(succeeded));
    } finally {
      clearInterval(sampling);
    }
  }

  async settle(): Promise<void> {}

  async end(): Promise<TargetMetrics> {
    await Promise.all(this.#children.map(killChild));
    if (this.#peaksMb.size === 0) return {};
    return { residentMb: [...this.#peaksMb.values()].reduce((sum, peak) => sum + peak, 0) };
  }

  #sample(): void {
    for (const child of this.#children) {
      const peak = readMemoryMb(child.pid, 'VmHWM');
      if (peak !== undefined) this.#peaksMb.set(child, peak);
    }
  }
}

async function succeeded(child: ChildProcess): Promise<void> {
  const exit = once(child, 'close');
  const [complaints] = await Promise.all([child.stderr === null ? '' : text(child.stderr), exit]);
  if (child.exitCode === 0) return;
  throw new Error(`kubectl drain failed: ${complaints.trim().split('\n').at(-1)}`);
}
