import { setTimeout as sleep } from 'node:timers/promises';
import { serverNames } from '../../sandbox/layout.ts';
import { compact } from '../kit/etcd.ts';
import type { Testbed } from './testbed.ts';
import { evictionRequestFlags } from '../kit/sandbox.ts';
import { type Fault, type ServerWithFaults, serversWithFaults } from './fault.ts';
import type { Ignorance } from './invariants/drains.ts';
import { Overlapping } from './overlapping.ts';
import { expireWebhookCertificate } from './webhookCertificate.ts';
import type { WorkerSlot } from './workerSlot.ts';

/** Less than the database of Temporal and the journal of any transaction. */
const fullFileBytes = 4_096;

/** Makes servers, networks and workers fail, and repairs them. */
export class Operators {
  readonly #testbed: Testbed;
  readonly #slots: readonly WorkerSlot[];
  /** Server -> number of faults that keep it down. */
  readonly #down = new Map<ServerWithFaults, number>();
  readonly #suspensions: Readonly<Record<ServerWithFaults, Overlapping<true>>>;
  /** Number of faults in which EvictionRequests are not served, and whether the apiserver was last started so. */
  #disabled = 0;
  #isDisabled = false;
  /** Faults in which a worker could not learn what users do. */
  readonly ignorance: Ignorance[] = [];
  /** Faults that were caused: a machine cannot cause all of them. */
  readonly caused = new Set<Fault>();

  constructor(testbed: Testbed, slots: readonly WorkerSlot[]) {
    this.#testbed = testbed;
    this.#slots = slots;
    const suspensionOf = (name: ServerWithFaults) =>
      new Overlapping<true>((hangs) => {
        const server = testbed.sandbox.server(name);
        if (hangs) server.pause();
        else server.resume();
      });
    const all = serversWithFaults.map((name) => [name, suspensionOf(name)] as const);
    this.#suspensions = Object.fromEntries(all) as Record<ServerWithFaults, Overlapping<true>>;
  }

  /** Returns when the fault is over. */
  async cause(fault: Fault): Promise<void> {
    const fromMs = Date.now();
    const end = await this.#begin(fault);
    this.caused.add(fault);
    try {
      await sleep(fault.forMs);
      await end();
    } finally {
      if (cutsOff(fault)) this.ignorance.push({ fromMs, toMs: Date.now() });
    }
  }

  rollOut(): Promise<void> {
    return this.#slot(0).rollOut();
  }

  /** Ends all faults; returns when everything works again. */
  async repair(): Promise<void> {
    for (const slot of this.#slots) slot.endFaults();
    await this.#repairServers();
    await Promise.all(this.#slots.map((slot) => slot.ready()));
  }

  /** Gives up what workers do that cannot be repaired otherwise. */
  async restartWorkers(): Promise<void> {
    await Promise.all(this.#slots.map((slot) => slot.kill()));
    await this.repair();
  }

  async #repairServers(): Promise<void> {
    this.#down.clear();
    this.#disabled = 0;
    const { sandbox } = this.#testbed;
    for (const suspension of Object.values(this.#suspensions)) suspension.end();
    sandbox.server('temporal').limitFileSize(undefined);
    if (this.#isDisabled) await sandbox.server('kube-apiserver').kill();
    this.#isDisabled = false;
    await this.restartServers();
  }

  /**
   * Starts servers that do not run, as their supervisors do, those that need others after them. Some exit by themselves: while the apiserver does not
   * answer, and kube-scheduler when its watch shows a pod on another node than before.
   */
  async restartServers(): Promise<void> {
    for (const name of serverNames) await this.#testbed.sandbox.server(name).start();
  }

  /** Begins a fault, and returns what ends it. */
  async #begin(fault: Fault): Promise<() => Promise<void> | void> {
    switch (fault.kind) {
      case 'Kill':
      case 'Hang':
        return this.#beginOfServer(fault);
      case 'KillWorker': {
        const slot = this.#slot(fault.worker);
        await slot.kill();
        return () => slot.ready();
      }
      case 'HangWorker':
        return this.#slot(fault.worker).hang();
      case 'ClockJump':
        return this.#slot(fault.worker).setClock(fault.seconds);
      case 'Apiserver':
        return this.#slot(fault.worker).beginApiserverFault(fault.network);
      case 'Temporal':
        return this.#slot(fault.worker).beginTemporalFault(fault.network);
      case 'FullDisk': {
        const temporal = this.#testbed.sandbox.server('temporal');
        temporal.limitFileSize(fullFileBytes);
        // It may have exited.
        return () => {
          temporal.limitFileSize(undefined);
          return this.#isDown('temporal') ? undefined : this.#start('temporal');
        };
      }
      case 'ExpireWebhookCertificate':
        await expireWebhookCertificate(this.#testbed.kube);
        return () => undefined;
      case 'Expire':
        return this.#expire();
      case 'DisableEvictionRequests':
        return this.#disableEvictionRequests();
    }
  }

  async #beginOfServer({
    kind,
    server: name,
  }: Extract<Fault, { kind: 'Kill' | 'Hang' }>): Promise<() => Promise<void> | void> {
    return kind === 'Hang' ? this.#suspensions[name].begin(true) : this.#kill(name);
  }

  /** Kills a server, and returns what starts it, unless another fault still keeps it down. */
  async #kill(name: ServerWithFaults): Promise<() => Promise<void>> {
    const server = this.#testbed.sandbox.server(name);
    this.#down.set(name, (this.#down.get(name) ?? 0) + 1);
    await server.kill();
    return async () => {
      const left = (this.#down.get(name) ?? 1) - 1;
      this.#down.set(name, left);
      if (left === 0) await this.#start(name);
    };
  }

  #isDown(name: ServerWithFaults): boolean {
    return (this.#down.get(name) ?? 0) > 0;
  }

  async #start(name: ServerWithFaults): Promise<void> {
    const server = this.#testbed.sandbox.server(name);
    if (name !== 'kube-apiserver') return server.start();
    this.#isDisabled = this.#disabled > 0;
    return this.#isDisabled ? server.startWithout(evictionRequestFlags) : server.start();
  }

  async #disableEvictionRequests(): Promise<() => Promise<void>> {
    this.#disabled += 1;
    await this.#restartApiserver();
    return async () => {
      this.#disabled = Math.max(0, this.#disabled - 1);
      await this.#restartApiserver();
    };
  }

  async #restartApiserver(): Promise<void> {
    const start = await this.#kill('kube-apiserver');
    await start();
  }

  /** Stops the apiserver and compacts etcd, so that neither has earlier revisions once the apiserver is started again. */
  async #expire(): Promise<() => Promise<void>> {
    const start = await this.#kill('kube-apiserver');
    // An etcd that fails itself forgets nothing.
    await compact(this.#testbed.sandbox).catch(() => undefined);
    return start;
  }

  #slot(number: number): WorkerSlot {
    const slot = this.#slots[number];
    if (slot === undefined) throw new Error(`There is no worker ${number}`);
    return slot;
  }
}

/** Reports whether a worker cannot learn from the apiserver what users do. With conflicts, and with requests that arrive twice, its watches go on. */
function cutsOff(fault: Fault): boolean {
  switch (fault.kind) {
    case 'Kill':
    case 'Hang':
      return fault.server === 'kube-apiserver' || fault.server === 'etcd';
    case 'Apiserver':
      return fault.network !== 'Answer409' && fault.network !== 'Repeat';
    case 'KillWorker':
    case 'HangWorker':
    case 'Expire':
    case 'DisableEvictionRequests':
      return true;
    case 'ClockJump':
    case 'Temporal':
    case 'FullDisk':
    case 'ExpireWebhookCertificate':
      return false;
  }
}
