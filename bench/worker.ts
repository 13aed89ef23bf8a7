import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { mutating, registrationName, validating } from '../admission/registration.ts';
import { COMPONENT_LABEL, IdentityAnnotation, SYSTEM_NAMESPACE } from '../api/names.ts';
import { resources } from '../kube/resources.ts';
import { until } from '../sandbox/until.ts';
import { workerArguments } from '../scripts/tools.ts';
import { freePort } from '../worker/http.ts';
import type { Bed } from './bed.ts';
import { parseSamples } from './requests.ts';

/** Milliseconds. */
const readyWithin = 60_000;
const stopsWithin = 25_000;

/**
 * The worker as users run it: a process of its own, with the permissions of deploy/ and nothing of our environment. A new
 * one for each run, so that none profits from what another has warmed up.
 */
export class WorkerProcess {
  readonly #child: ChildProcess;
  readonly #metrics: string;
  readonly #log: string;

  private constructor(child: ChildProcess, metricsPort: number, log: string) {
    this.#child = child;
    this.#metrics = `http://127.0.0.1:${metricsPort}/metrics`;
    this.#log = log;
  }

  /** Resolves when it has seen the cluster and runs the control loops. */
  static async start(bed: Bed, ...args: string[]): Promise<WorkerProcess> {
    const [healthPort, metricsPort] = [await freePort(), await freePort()];
    const log = join(bed.sandbox.dir, 'worker.log');
    const output = openSync(log, 'w');
    const profiling = bed.profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${bed.profile}`];
    const ports = [`--health-port=${healthPort}`, `--metrics-port=${metricsPort}`];
    const child = spawn(process.execPath, [...profiling, ...workerArguments(), ...ports, ...args], {
      env: { ...bed.sandbox.env, HOME: bed.sandbox.dir, KUBECONFIG: bed.kubeconfigs.ours },
      stdio: ['ignore', output, output],
    });
    closeSync(output);
    const worker = new WorkerProcess(child, metricsPort, log);
    try {
      const ready = () => worker.#problem(bed, healthPort);
      await until('the worker to be ready', ready, { within: readyWithin, signal: bed.signal });
    } catch (error) {
      await worker.stop();
      throw error;
    }
    return worker;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Requests to Kubernetes so far, by its own counter. */
  async requests(): Promise<number> {
    return Object.values(await this.requestsByKind()).reduce((sum, count) => sum + count, 0);
  }

  /** The same, as `VERB RESOURCE` -> count. */
  async requestsByKind(): Promise<Record<string, number>> {
    const page = await (await fetch(this.#metrics)).text();
    const kinds: Record<string, number> = {};
    for (const { name, labels, value } of parseSamples(page)) {
      if (name !== 'node_maintenance_kube_requests_total') continue;
      const kind = `${labels['verb']} ${labels['resource']}`;
      kinds[kind] = (kinds[kind] ?? 0) + value;
    }
    return kinds;
  }

  /** The most memory that it has had in RAM at once. MB. */
  peakMemory(): number {
    return this.#memory('VmHWM');
  }

  /** What it has in RAM now. MB. */
  memory(): number {
    return this.#memory('VmRSS');
  }

  #memory(field: 'VmHWM' | 'VmRSS'): number {
    const status = readFileSync(`/proc/${this.#child.pid}/status`, 'utf8');
    return Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]) / 1024;
  }

  async stop(): Promise<void> {
    if (!this.#isRunning) return;
    const exit = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    const patience = new AbortController();
    const kill = sleep(stopsWithin, undefined, { signal: patience.signal }).then(
      () => this.#child.kill('SIGKILL'),
      () => undefined,
    );
    await exit;
    patience.abort();
    await kill;
  }

  get #isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  async #problem({ kube }: Bed, healthPort: number): Promise<string | undefined> {
    if (!this.#isRunning) throw new Error(`The worker ended early: ${this.#lastWords()}`);
    const health = await fetch(`http://127.0.0.1:${healthPort}/readyz`).catch(() => undefined);
    if (health?.ok !== true) return 'it is not ready';
    const { items } = await kube.list(resources.leases, { namespace: SYSTEM_NAMESPACE });
    const { holderIdentity } =
      items.find(({ metadata: { name } }) => name === 'node-maintenance-controllers')?.spec ?? {};
    const leader = items.find(
      ({ metadata: { labels }, spec }) =>
        labels?.[COMPONENT_LABEL] !== undefined && spec.holderIdentity === holderIdentity,
    );
    const temporalIdentity = leader?.metadata.annotations?.[IdentityAnnotation.TemporalIdentity];
    return temporalIdentity === `${this.#child.pid}@${hostname()}` ? undefined : 'another one leads';
  }

  #lastWords(): string {
    return readFileSync(this.#log, 'utf8').trim().split('\n').slice(-3).join(' | ');
  }
}

/** The peers' evictions must not pay for a webhook that nobody serves any more. */
export async function unregister({ kube }: Bed): Promise<void> {
  for (const resource of [validating, mutating]) {
    const found = await kube.get(resource, { name: registrationName });
    if (found !== undefined)
      await kube.delete(resource, { name: registrationName }, { uid: found.metadata.uid ?? '' });
  }
}
