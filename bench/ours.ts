import { setTimeout as sleep } from 'node:timers/promises';
import { MAINTENANCE_FINALIZER, NODE_MAINTENANCE, temporalNames } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { isTrue } from '../domain/common/conditions.ts';
import { resources } from '../kube/resources.ts';
import { until } from '../sandbox/until.ts';
import type { Testbed } from './testbed.ts';
import type { Attempt, Target, TargetMetrics } from './target.ts';
import { unregister, WorkerProcess } from './worker.ts';

/** This project: the worker runs, and a NodeMaintenance of stage Drain requests the drain. */
export const ours: Target = {
  name: 'ours',
  async prepare(testbed, nodeNames) {
    const worker = await WorkerProcess.start(testbed);
    return new OurDrain(testbed, worker, nodeNames, await worker.requests());
  },
};

const settleTimeoutMs = 120_000;
const completeTimeoutMs = 120_000;
const pollMs = 200;

class OurDrain implements Attempt {
  readonly #testbed: Testbed;
  readonly #worker: WorkerProcess;
  readonly #maintenance: NodeMaintenance;
  readonly #requestsBefore: number;
  #isCreated = false;
  #metrics: TargetMetrics = {};

  constructor(testbed: Testbed, worker: WorkerProcess, nodeNames: readonly string[], requestsBefore: number) {
    this.#testbed = testbed;
    this.#worker = worker;
    this.#maintenance = maintenanceOf(nodeNames);
    this.#requestsBefore = requestsBefore;
  }

  get pid(): number | undefined {
    return this.#worker.pid;
  }

  async drain(signal: AbortSignal): Promise<void> {
    const { kube, maintenances } = this.#testbed;
    this.#isCreated = true;
    await kube.create(resources.nodeMaintenances, this.#maintenance, { fieldManager: 'bench' });
    while (!isTrue(this.#observed?.status?.conditions, 'Drained')) await maintenances.changed(signal);
  }

  async settle(signal: AbortSignal): Promise<void> {
    const probe = async () => {
      await sleep(pollMs);
      const { items } = await this.#testbed.kube.list(resources.evacuations);
      return items.length === 0 ? undefined : `${items.length} remain`;
    };
    await until('the Evacuations to be removed', probe, { timeoutMs: settleTimeoutMs, signal });
    this.#metrics = { ownRequests: (await this.#worker.requests()) - this.#requestsBefore };
  }

  async end(): Promise<TargetMetrics> {
    try {
      if (!this.#isCreated || this.#testbed.signal.aborted) return this.#metrics;
      await complete(this.#testbed, this.#name);
      const run = this.#testbed.temporal.workflow.getHandle(
        temporalNames(undefined).maintenanceId(this.#name),
      );
      await run.result();
      const { historyLength } = await run.describe();
      return { ...this.#metrics, residentMb: this.#worker.peakMemoryMb(), historyEvents: historyLength };
    } finally {
      await this.#worker.stop();
      await unregister(this.#testbed);
    }
  }

  get #name(): string {
    return this.#maintenance.metadata.name;
  }

  get #observed(): Readonly<NodeMaintenance> | undefined {
    return this.#testbed.maintenances.get(this.#name);
  }
}

/** Completes the maintenance, which uncordons its nodes, and deletes it. */
export async function complete({ kube, maintenances, signal }: Testbed, name: string): Promise<void> {
  await kube.mergePatch(resources.nodeMaintenances, { name }, { spec: { stage: 'Complete' } });
  const finalizing = () =>
    maintenances.get(name)?.metadata.finalizers?.includes(MAINTENANCE_FINALIZER)
      ? 'it still has its finalizer'
      : undefined;
  await until('the maintenance to complete', finalizing, { timeoutMs: completeTimeoutMs, signal });
  const uid = maintenances.get(name)?.metadata.uid ?? '';
  await kube.delete(resources.nodeMaintenances, { name }, { uid });
}

/** Returns a new maintenance that drains the nodes. */
export function maintenanceOf(nodeNames: readonly string[]): NodeMaintenance {
  const hostname = { key: 'kubernetes.io/hostname', operator: 'In' as const, values: [...nodeNames] };
  const nodeSelector = { nodeSelectorTerms: [{ matchExpressions: [hostname] }] };
  return {
    apiVersion: NODE_MAINTENANCE.apiVersion,
    kind: NODE_MAINTENANCE.kind,
    metadata: { name: `bench-${crypto.randomUUID().slice(0, 8)}` },
    spec: { nodeSelector, stage: 'Drain', reason: 'benchmark' },
  };
}
