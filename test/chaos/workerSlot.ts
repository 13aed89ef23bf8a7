import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { mallocEnvironment } from '../../scripts/tools.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { UnreliableNetwork } from '../kube/unreliableNetwork.ts';
import { FakeClock } from './fakeClock.ts';
import type { ApiserverFault, TemporalFault } from './fault.ts';
import { Overlapping } from './overlapping.ts';
import type { EvictionApi } from './scenario.ts';
import { UnreliableApiserver } from './unreliableApiserver.ts';

const delayMs = 500;
const restartMs = 200;

/** Times that a person would not wait for. */
const settings = { EVACUATOR_RESPONSE_TIMEOUT: '2', READINESS_GRACE: '1', NODE_LEASE_DURATION: '30' };

const apiSettings: Record<EvictionApi, Record<string, string>> = {
  evacuation: {},
  lifecycle: { EVICTION_API: 'lifecycle', EVICTION_REQUEST_CONTROLLER: 'true' },
  auto: { EVICTION_API: 'auto', EVICTION_REQUEST_CONTROLLER: 'true' },
};

/** A place for a worker process, with a network of its own to the apiserver and to Temporal, and with a clock of its own. */
export class WorkerSlot {
  readonly #sandbox: Sandbox;
  readonly #evictionApi: EvictionApi;
  readonly #apiserver: Awaited<ReturnType<typeof UnreliableApiserver.before>>;
  readonly #temporal: Awaited<ReturnType<typeof UnreliableNetwork.beforePort>>;
  readonly #clock: FakeClock;
  readonly #clockJumps = new Overlapping<number>((seconds = 0) => this.#clock.set(seconds));
  readonly #suspensions = new Overlapping<true>((hangs) => this.#signal(hangs ? 'SIGSTOP' : 'SIGCONT'));
  readonly #temporalFaults = new Overlapping<TemporalFault>((fault) => this.#setTemporalFault(fault));
  readonly #nodeOptions: string;
  #worker: WorkerProcess | undefined;
  #isAlive = false;

  private constructor(sandbox: Sandbox, evictionApi: EvictionApi, parts: Parts) {
    this.#sandbox = sandbox;
    this.#evictionApi = evictionApi;
    this.#apiserver = parts.apiserver;
    this.#temporal = parts.temporal;
    this.#clock = parts.clock;
    this.#nodeOptions = parts.nodeOptions;
  }

  static async create(sandbox: Sandbox, evictionApi: EvictionApi, nodeOptions = ''): Promise<WorkerSlot> {
    const apiserver = await UnreliableApiserver.before(sandbox.workerKubeconfig);
    const temporal = await UnreliableNetwork.beforePort(Number(sandbox.temporalAddress.split(':')[1]));
    const clock = new FakeClock(join(sandbox.dir, `clock-${crypto.randomUUID()}`));
    return new WorkerSlot(sandbox, evictionApi, { apiserver, temporal, clock, nodeOptions });
  }

  /** The process of the worker that was started last. */
  get pid(): number {
    return this.#worker?.pid ?? 0;
  }

  /** The metrics of that process, in the text format of Prometheus. */
  async metrics(): Promise<string> {
    if (this.#worker === undefined) throw new Error('The worker was not started');
    return this.#worker.metrics();
  }

  start(): void {
    this.#worker = this.#launch();
  }

  #launch(): WorkerProcess {
    const sandbox = this.#sandbox;
    const temporalAddress = this.#temporal.address;
    const worker = startWorker(
      { ...sandbox, workerKubeconfig: this.#apiserver.kubeconfig, temporalAddress },
      {
        env: {
          ...mallocEnvironment(),
          NODE_OPTIONS: this.#nodeOptions,
          ...settings,
          ...apiSettings[this.#evictionApi],
          TEMPORAL_ADDRESS: temporalAddress,
          ...this.#clock.variables,
        },
      },
    );
    this.#isAlive = true;
    void worker.exited().then(() => {
      if (this.#worker === worker) this.#isAlive = false;
    });
    return worker;
  }

  /** Sets the time of day of the process, in seconds from the right one, and returns what ends that. Throws on machines where it cannot be wrong. */
  setClock(seconds: number): () => void {
    return this.#clockJumps.begin(seconds);
  }

  /** Returns when the worker is ready. Starts it if it does not run, and again if it gives up, as a kubelet does. */
  async ready(timeoutMs = 120_000): Promise<void> {
    const startedAt = performance.now();
    let answer = 'it does not run';
    while (answer !== '200 ok') {
      if (performance.now() - startedAt > timeoutMs) throw new Error(`The worker is not ready: ${answer}`);
      if (!this.#isAlive) this.start();
      answer = (await this.#worker?.readyz().catch(String)) ?? '';
      if (answer !== '200 ok') await sleep(restartMs);
    }
  }

  async kill(): Promise<void> {
    await this.#worker?.kill();
  }

  /** Suspends the process, and returns what resumes it. */
  hang(): () => void {
    return this.#suspensions.begin(true);
  }

  /** Starts another process, and stops the first one when the other is ready, as a rollout does. */
  async rollOut(): Promise<void> {
    const previous = this.#worker;
    this.start();
    try {
      await this.ready();
    } finally {
      if (previous !== undefined) await endOf(previous);
    }
  }

  #signal(signal: NodeJS.Signals): void {
    if (this.#isAlive && this.#worker !== undefined) process.kill(this.#worker.pid, signal);
  }

  /** Begins a fault between the worker and the apiserver, and returns what ends it. */
  beginApiserverFault(fault: ApiserverFault): () => void {
    return this.#apiserver.apiserver.begin(fault);
  }

  /** Begins a fault between the worker and Temporal, and returns what ends it. */
  beginTemporalFault(fault: TemporalFault): () => void {
    const { network } = this.#temporal;
    const end = this.#temporalFaults.begin(fault);
    if (fault === 'Swallow' || fault === 'Cut') network.cut();
    if (fault === 'Freeze') network.freeze();
    return () => {
      end();
      // What was frozen or swallowed stays silent.
      network.cut();
    };
  }

  /** Sets what lasts until the fault ends. */
  #setTemporalFault(fault: TemporalFault | undefined): void {
    const { network } = this.#temporal;
    network.up();
    network.late(fault === 'Delay' ? delayMs : 0);
    if (fault === 'Refuse') network.down();
    if (fault === 'Swallow') network.swallow();
    if (fault === 'Truncate') network.truncate();
  }

  /** Ends all faults of the process and of its networks. */
  endFaults(): void {
    this.#apiserver.apiserver.end();
    this.#temporalFaults.end();
    this.#temporal.network.cut();
    this.#suspensions.end();
    this.#clockJumps.end();
  }

  log(): string {
    return this.#worker?.log() ?? '';
  }

  /** Ends the process as a rollout does. */
  async stop(): Promise<void> {
    this.endFaults();
    if (this.#isAlive && this.#worker !== undefined) await endOf(this.#worker);
  }

  async close(): Promise<void> {
    await this.stop();
    await this.#apiserver.close();
    await this.#temporal.close();
  }
}

interface Parts {
  apiserver: Awaited<ReturnType<typeof UnreliableApiserver.before>>;
  temporal: Awaited<ReturnType<typeof UnreliableNetwork.beforePort>>;
  clock: FakeClock;
  nodeOptions: string;
}

/** Ends a process as a rollout does; after its grace period, by force. */
async function endOf(worker: WorkerProcess): Promise<void> {
  const timer = setTimeout(() => void worker.kill(), 10_000);
  await worker.stop();
  clearTimeout(timer);
}
