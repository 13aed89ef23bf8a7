import { setTimeout as sleep } from 'node:timers/promises';
import { MAINTENANCE_FINALIZER, NODE_MAINTENANCE, workflowIdOf } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { isTrue } from '../domain/conditions.ts';
import { resources } from '../kube/resources.ts';
import { until } from '../sandbox/until.ts';
import type { Bed } from './bed.ts';
import type { Account, Attempt, Contender } from './contender.ts';
import { unregister, WorkerProcess } from './worker.ts';

/** This project: the worker runs, and the order is a NodeMaintenance of stage Drain. */
export const ours: Contender = {
  name: 'ours',
  async prepare(bed, targets) {
    const worker = await WorkerProcess.start(bed);
    return new OurDrain(bed, worker, targets, await worker.requests());
  },
};

/** Milliseconds. */
const settledWithin = 120_000;
const completeWithin = 120_000;
const lookEvery = 200;

class OurDrain implements Attempt {
  readonly #bed: Bed;
  readonly #worker: WorkerProcess;
  readonly #order: NodeMaintenance;
  readonly #requestsBefore: number;
  #ordered = false;
  #account: Account = {};

  constructor(bed: Bed, worker: WorkerProcess, targets: readonly string[], requestsBefore: number) {
    this.#bed = bed;
    this.#worker = worker;
    this.#order = maintenanceOf(`bench-${crypto.randomUUID().slice(0, 8)}`, targets);
    this.#requestsBefore = requestsBefore;
  }

  get pid(): number | undefined {
    return this.#worker.pid;
  }

  async drain(signal: AbortSignal): Promise<void> {
    const { kube, maintenances } = this.#bed;
    this.#ordered = true;
    await kube.create(resources.nodeMaintenances, this.#order, { fieldManager: 'bench' });
    while (!isTrue(this.#seen?.status?.conditions, 'Drained')) await maintenances.changed(signal);
  }

  async settle(signal: AbortSignal): Promise<void> {
    const probe = async () => {
      await sleep(lookEvery);
      const { items } = await this.#bed.kube.list(resources.evacuations);
      return items.length === 0 ? undefined : `${items.length} are left`;
    };
    await until('the Evacuations to be removed', probe, { within: settledWithin, signal });
    this.#account = { ownRequests: (await this.#worker.requests()) - this.#requestsBefore };
  }

  async end(): Promise<Account> {
    try {
      if (!this.#ordered || this.#bed.signal.aborted) return this.#account;
      await this.#complete();
      const run = this.#bed.temporal.workflow.getHandle(workflowIdOf(this.#name));
      await run.result();
      const { historyLength } = await run.describe();
      return { ...this.#account, residentMb: this.#worker.peakMemory(), historyEvents: historyLength };
    } finally {
      await this.#worker.stop();
      await unregister(this.#bed);
    }
  }

  /** Gives the nodes back, as every maintenance does at its end, and removes the order. */
  async #complete(): Promise<void> {
    const { kube, signal } = this.#bed;
    const key = { name: this.#name };
    await kube.mergePatch(resources.nodeMaintenances, key, { spec: { stage: 'Complete' } });
    const held = () =>
      this.#seen?.metadata.finalizers?.includes(MAINTENANCE_FINALIZER) ? 'it has not' : undefined;
    await until('the maintenance to complete', held, { within: completeWithin, signal });
    const uid = this.#seen?.metadata.uid ?? '';
    await kube.delete(resources.nodeMaintenances, key, { uid });
  }

  get #name(): string {
    return this.#order.metadata.name;
  }

  get #seen(): Readonly<NodeMaintenance> | undefined {
    return this.#bed.maintenances.get(this.#name);
  }
}

function maintenanceOf(name: string, targets: readonly string[]): NodeMaintenance {
  const hostname = { key: 'kubernetes.io/hostname', operator: 'In' as const, values: [...targets] };
  const nodeSelector = { nodeSelectorTerms: [{ matchExpressions: [hostname] }] };
  return {
    apiVersion: NODE_MAINTENANCE.apiVersion,
    kind: NODE_MAINTENANCE.kind,
    metadata: { name },
    spec: { nodeSelector, stage: 'Drain', reason: 'benchmark' },
  };
}
