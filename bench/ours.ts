import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { MAINTENANCE_FINALIZER, NODE_MAINTENANCE, temporalNames } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { isTrue } from '../domain/common/conditions.ts';
import { forEachBounded } from '../kube/bounded.ts';
import { type Resource, resources } from '../kube/resources.ts';
import { until } from '../sandbox/until.ts';
import { Silence } from './silence.ts';
import type { Testbed } from './testbed.ts';
import type { Attempt, DrainRequest, Target, TargetMetrics } from './target.ts';
import type { TargetName } from './targetNames.ts';
import { warmUp } from './warmUp.ts';
import { unregister, WorkerProcess } from './worker.ts';

/** This project: the worker runs, and NodeMaintenances of stage Drain request the drain. */
export const ours = targetWith('ours', { requests: [resources.evacuations], options: [] });

/** The same with EvictionRequests, which the worker serves itself. */
export const oursLifecycle = targetWith('ours-lifecycle', {
  requests: [resources.evictionRequests, resources.evictions],
  options: ['--eviction-api=lifecycle', '--eviction-request-controller=true'],
});

interface Setup {
  /** Resources by which pods are asked to leave. */
  requests: readonly Resource[];
  /** Options of the worker. */
  options: readonly string[];
}

function targetWith(name: TargetName, { requests, options }: Setup): Target {
  return {
    name,
    async prepare(testbed, { maintenances, isWarm }) {
      const worker = await WorkerProcess.start(testbed, ...options);
      try {
        if (isWarm) await warmUp(testbed, (node) => drainAndComplete(testbed, node));
        return new OurDrain(
          testbed,
          { worker, requests, requestsBefore: await worker.requests() },
          maintenances,
        );
      } catch (error) {
        await worker.stop();
        await unregister(testbed);
        throw error;
      }
    },
  };
}

const settleTimeoutMs = 120_000;
const completeTimeoutMs = 120_000;
const pollMs = 200;
const maxInFlight = 16;

class OurDrain implements Attempt {
  readonly #testbed: Testbed;
  readonly #worker: WorkerProcess;
  readonly #requests: readonly Resource[];
  readonly #maintenances: readonly NodeMaintenance[];
  readonly #requestsBefore: number;
  #isCreated = false;
  #metrics: TargetMetrics = {};

  constructor(
    testbed: Testbed,
    {
      worker,
      requests,
      requestsBefore,
    }: { worker: WorkerProcess; requests: readonly Resource[]; requestsBefore: number },
    maintenances: DrainRequest['maintenances'],
  ) {
    this.#testbed = testbed;
    this.#worker = worker;
    this.#requests = requests;
    this.#maintenances = maintenances.map(maintenanceOf);
    this.#requestsBefore = requestsBefore;
  }

  get pid(): number | undefined {
    return this.#worker.pid;
  }

  async drain(signal: AbortSignal): Promise<void> {
    this.#isCreated = true;
    const silence = new Silence(performance.now(), this.#names);
    const unsubscribe = this.#testbed.maintenances.subscribe(({ object }) =>
      silence.observe(object, performance.now()),
    );
    try {
      await drained(this.#testbed, this.#maintenances, signal);
    } finally {
      unsubscribe();
    }
    this.#metrics = { silentSeconds: silence.longestMs / 1_000 };
  }

  async settle(signal: AbortSignal): Promise<void> {
    const probe = async () => {
      await sleep(pollMs);
      const lists = await Promise.all(this.#requests.map((one) => this.#testbed.kube.list(one)));
      const left = lists.reduce((sum, { items }) => sum + items.length, 0);
      return left === 0 ? undefined : `${left} remain`;
    };
    await until(`the ${this.#requests[0]?.plural} to be removed`, probe, {
      timeoutMs: settleTimeoutMs,
      signal,
    });
    const ownRequests = (await this.#worker.requests()) - this.#requestsBefore;
    this.#metrics = { ...this.#metrics, ownRequests };
  }

  async end(): Promise<TargetMetrics> {
    try {
      if (!this.#isCreated || this.#testbed.signal.aborted) return this.#metrics;
      await forEachBounded(maxInFlight, this.#names, (name) => complete(this.#testbed, name));
      const { startSeconds } = this.#worker;
      const history = await historyOf(this.#testbed.temporal, this.#names);
      return { ...this.#metrics, ...history, startSeconds, residentMb: this.#worker.peakMemoryMb() };
    } finally {
      await this.#worker.stop();
      await unregister(this.#testbed);
    }
  }

  get #names(): string[] {
    return this.#maintenances.map(({ metadata }) => metadata.name);
  }
}

/** Creates the maintenances, before the first await, and returns when all are drained. */
async function drained(
  { kube, maintenances }: Testbed,
  created: readonly NodeMaintenance[],
  signal: AbortSignal,
): Promise<void> {
  await Promise.all(
    created.map((maintenance) =>
      kube.create(resources.nodeMaintenances, maintenance, { fieldManager: 'bench' }),
    ),
  );
  const isDrained = ({ metadata: { name } }: NodeMaintenance) =>
    isTrue(maintenances.get(name)?.status?.conditions, 'Drained');
  while (!created.every(isDrained)) await maintenances.changed(signal);
}

async function drainAndComplete(testbed: Testbed, node: string): Promise<void> {
  const maintenance = maintenanceOf([node]);
  await drained(testbed, [maintenance], testbed.signal);
  await complete(testbed, maintenance.metadata.name);
}

/** Returns the size of the histories of the maintenances, of all runs that continue each other. */
async function historyOf(
  { workflow }: Client,
  names: readonly string[],
): Promise<{ historyEvents: number; historyBytes: number }> {
  const total = { historyEvents: 0, historyBytes: 0 };
  await forEachBounded(maxInFlight, names, async (name) => {
    const workflowId = temporalNames(undefined).maintenanceId(name);
    await workflow.getHandle(workflowId).result();
    let runId: string | undefined;
    do {
      const run = workflow.getHandle(workflowId, runId);
      const { historyLength, historySize = 0 } = await run.describe();
      total.historyEvents += historyLength;
      total.historyBytes += historySize;
      const [started] = (await run.fetchHistory()).events ?? [];
      runId = started?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId || undefined;
    } while (runId !== undefined);
  });
  return total;
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
