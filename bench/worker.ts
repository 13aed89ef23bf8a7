import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, cpSync, openSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { mutating, validating } from '../admission/registration.ts';
import type { KubeObject } from '../api/core.ts';
import {
  COMPONENT_LABEL,
  IdentityAnnotation,
  SYSTEM_NAMESPACE,
  WEBHOOK_CONFIGURATION,
} from '../api/names.ts';
import { resources } from '../kube/resources.ts';
import { readManifests } from '../manifests/read.ts';
import { renderManifests } from '../manifests/render.ts';
import { until } from '../sandbox/until.ts';
import { freePort } from '../worker/http.ts';
import type { WorkerProgram } from './application.ts';
import { isRunning, killChild, stopChild } from './childProcess.ts';
import { readMemoryMb } from './memory.ts';
import { parseSamples } from './samples.ts';
import { serverProcesses } from './cpu.ts';
import type { Testbed } from './testbed.ts';

const readyTimeoutMs = 60_000;
const stopTimeoutMs = 25_000;

/**
 * The worker as users run it: a separate process with the permissions of deploy/ and without this process's environment.
 * Each run starts a new one, so that no run benefits from the caches of another.
 */
export class WorkerProcess {
  readonly #testbed: Testbed;
  readonly #child: ChildProcess;
  readonly #launchedAt = performance.now();
  readonly #ports: { health: number; metrics: number };
  readonly #log: string;
  #startSeconds = NaN;

  private constructor(
    testbed: Testbed,
    child: ChildProcess,
    ports: { health: number; metrics: number },
    log: string,
  ) {
    this.#testbed = testbed;
    this.#child = child;
    this.#ports = ports;
    this.#log = log;
  }

  /** Resolves when the worker's caches are synced and it leads. */
  static async start(testbed: Testbed, ...args: string[]): Promise<WorkerProcess> {
    await register(testbed);
    const worker = await WorkerProcess.launch(testbed, ...args);
    try {
      worker.#startSeconds = await worker.ready();
      const notLeading = () => worker.#notLeadingReason();
      await until('the worker to lead', notLeading, { timeoutMs: readyTimeoutMs, signal: testbed.signal });
    } catch (error) {
      await worker.stop();
      throw error;
    }
    return worker;
  }

  /** Starts a worker, which is not ready yet, next to one that runs or after it. */
  static async launch(testbed: Testbed, ...args: string[]): Promise<WorkerProcess> {
    const ports = { health: await freePort(), metrics: await freePort() };
    const log = join(testbed.sandbox.dir, `worker-${crypto.randomUUID()}.log`);
    const output = openSync(log, 'w');
    const flags = [`--health-port=${ports.health}`, `--metrics-port=${ports.metrics}`, ...args];
    const program = testbed.worker;
    const own = { HOME: testbed.sandbox.dir, KUBECONFIG: testbed.kubeconfigs.ours };
    const child = spawn(process.execPath, [...program.args, ...flags], {
      env: {
        ...testbed.sandbox.env,
        ...own,
        ...program.env,
        ...copyOfCompiled(program, testbed.sandbox.dir),
      },
      stdio: ['ignore', output, output],
    });
    closeSync(output);
    return new WorkerProcess(testbed, child, ports, log);
  }

  /** Resolves with the time from its start until it was ready, if this is called at once. */
  async ready(): Promise<number> {
    const { signal } = this.#testbed;
    const notReady = async () => {
      if (!isRunning(this.#child)) throw new Error(`The worker exited early: ${this.#logTail()}`);
      const health = await fetch(`http://127.0.0.1:${this.#ports.health}/readyz`).catch(() => undefined);
      return health?.ok === true ? undefined : '/readyz does not answer 200';
    };
    await until('the worker to be ready', notReady, { timeoutMs: readyTimeoutMs, signal });
    return (performance.now() - this.#launchedAt) / 1_000;
  }

  /** Seconds from its start until it was ready, if `start` started it. */
  get startSeconds(): number {
    return this.#startSeconds;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Process ids of the worker and of the servers of the sandbox, by name. */
  get processes(): Record<string, number | undefined> {
    return { worker: this.pid, ...serverProcesses(this.#testbed.sandbox) };
  }

  /** Returns the number of requests to Kubernetes so far, by the worker's own counter. */
  async requests(): Promise<number> {
    return Object.values(await this.requestsByKind()).reduce((sum, count) => sum + count, 0);
  }

  /** Returns the same as `VERB RESOURCE` -> count. */
  async requestsByKind(): Promise<Record<string, number>> {
    const page = await (await fetch(`http://127.0.0.1:${this.#ports.metrics}/metrics`)).text();
    const kinds: Record<string, number> = {};
    for (const { name, labels, value } of parseSamples(page)) {
      if (name !== 'node_maintenance_kube_requests_total') continue;
      const kind = `${labels['verb']} ${labels['resource']}`;
      kinds[kind] = (kinds[kind] ?? 0) + value;
    }
    return kinds;
  }

  /** Returns the peak resident memory. */
  peakMemoryMb(): number {
    return readMemoryMb(this.#child.pid, 'VmHWM') ?? NaN;
  }

  /** Returns the resident memory. */
  memoryMb(): number {
    return readMemoryMb(this.#child.pid, 'VmRSS') ?? NaN;
  }

  /** Ends it as a crash does. */
  async kill(): Promise<void> {
    await killChild(this.#child);
  }

  async stop(): Promise<void> {
    await stopChild(this.#child, stopTimeoutMs);
  }

  async #notLeadingReason(): Promise<string | undefined> {
    const { kube } = this.#testbed;
    const { items } = await kube.list(resources.leases, { namespace: SYSTEM_NAMESPACE });
    const { holderIdentity } =
      items.find(({ metadata: { name } }) => name === 'node-maintenance-controllers')?.spec ?? {};
    const leader = items.find(
      ({ metadata: { labels }, spec }) =>
        labels?.[COMPONENT_LABEL] !== undefined && spec.holderIdentity === holderIdentity,
    );
    const temporalIdentity = leader?.metadata.annotations?.[IdentityAnnotation.TemporalIdentity];
    return temporalIdentity?.startsWith(`${this.#child.pid}@${hostname()}_`) === true
      ? undefined
      : 'another worker is the leader';
  }

  #logTail(): string {
    return readFileSync(this.#log, 'utf8').trim().split('\n').slice(-3).join(' | ');
  }
}

/** Removes the webhooks that no process serves any more, so that they do not delay the evictions of other targets. */
export async function unregister({ kube }: Testbed): Promise<void> {
  for (const resource of [validating, mutating]) {
    const found = await kube.get(resource, { name: WEBHOOK_CONFIGURATION });
    if (found !== undefined)
      await kube.delete(resource, { name: WEBHOOK_CONFIGURATION }, { uid: found.metadata.uid ?? '' });
  }
}

/** Installs the webhooks, which `unregister` removes. */
async function register({ kube }: Testbed): Promise<void> {
  const manifests = renderManifests(await readManifests(), { webhookHosts: ['127.0.0.1'] });
  for (const resource of [validating, mutating]) {
    const manifest = manifests.find(({ kind }) => kind === resource.kind);
    if (manifest === undefined) throw new Error(`deploy/ contains no ${resource.kind}`);
    await kube.apply<KubeObject>(resource, manifest, { fieldManager: 'kubectl', force: true });
  }
}

/** No run profits from what the worker of another one has compiled. */
function copyOfCompiled({ compiled }: WorkerProgram, dir: string): Record<string, string> {
  if (compiled === undefined) return {};
  const copy = join(dir, `compiled-${crypto.randomUUID()}`);
  cpSync(compiled, copy, { recursive: true });
  return { NODE_COMPILE_CACHE: copy };
}
