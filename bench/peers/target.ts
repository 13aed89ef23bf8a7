import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import type { KubeObject } from '../../api/core.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { Informer } from '../../kube/informer.ts';
import { resources } from '../../kube/resources.ts';
import { until } from '../../sandbox/until.ts';
import type { Attempt, DrainRequest, Target, TargetMetrics } from '../target.ts';
import type { OperatorName } from '../targetNames.ts';
import type { Testbed } from '../testbed.ts';
import { warmUp } from '../warmUp.ts';
import type { BuiltOperator } from './build.ts';
import type { Operator } from './operator.ts';
import { operators } from './operators.ts';
import { OperatorProcess } from './process.ts';

const timeoutMs = 120_000;
const maxInFlight = 16;

/** Returns an operator as a target: the process runs, and its own objects request the drain. */
export function operatorTarget(name: OperatorName, { command, source }: BuiltOperator): Target {
  const operator = operators[name];
  return {
    name,
    async prepare(testbed, request) {
      await applyDefinitions(testbed, operator, source);
      const operatorProcess = await OperatorProcess.start(testbed, operator, command);
      const drain = new OperatorDrain(testbed, operator, operatorProcess, request);
      try {
        await drain.watch();
        if (request.isWarm) await warmUp(testbed, (node) => drain.drainOther(node));
        return drain;
      } catch (error) {
        await drain.end().catch(() => undefined);
        throw error;
      }
    },
  };
}

/** Applies the CRDs of an operator's sources. */
async function applyDefinitions(
  { kube, signal }: Testbed,
  { resource }: Operator,
  source: string,
): Promise<void> {
  const dir = join(source, 'config', 'crd', 'bases');
  for (const file of readdirSync(dir).filter((name) => name.endsWith('.yaml'))) {
    const definition = parse(readFileSync(join(dir, file), 'utf8')) as KubeObject;
    await kube.apply(resources.customResourceDefinitions, definition, {
      fieldManager: 'bench',
      force: true,
    });
  }
  const unserved = async () => ((await kube.serves(resource)) ? undefined : `${resource.plural} is unknown`);
  await until('the CRD to be served', unserved, { timeoutMs, signal });
}

class OperatorDrain implements Attempt {
  readonly #testbed: Testbed;
  readonly #operator: Operator;
  readonly #process: OperatorProcess;
  readonly #request: DrainRequest;
  readonly #objects: Informer<KubeObject>;
  readonly #closing = new AbortController();
  readonly #prefix = `bench-${crypto.randomUUID().slice(0, 8)}`;

  constructor(testbed: Testbed, operator: Operator, operatorProcess: OperatorProcess, request: DrainRequest) {
    this.#testbed = testbed;
    this.#operator = operator;
    this.#process = operatorProcess;
    this.#request = request;
    const { kube, log } = testbed;
    this.#objects = new Informer({ kube, resource: operator.resource, log });
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  async watch(): Promise<void> {
    this.#objects.start(this.#closing.signal);
    await this.#objects.synced(this.#testbed.signal);
  }

  async drain(signal: AbortSignal): Promise<void> {
    await this.#drain(this.#request, signal);
  }

  /** Drains another node, and gives it back. */
  async drainOther(node: string): Promise<void> {
    await this.#drain({ nodes: [node], maintenances: [[node]] }, this.#testbed.signal);
    await this.#removeObjects();
  }

  async settle(): Promise<void> {}

  async end(): Promise<TargetMetrics> {
    const { peakMemoryMb, startSeconds } = this.#process;
    try {
      if (!this.#testbed.signal.aborted) await this.#removeObjects();
    } finally {
      this.#closing.abort();
      await this.#process.stop();
      if (!this.#testbed.signal.aborted) await this.#restore();
    }
    return { startSeconds, ...(peakMemoryMb === undefined ? {} : { residentMb: peakMemoryMb }) };
  }

  /** Requests the drain before the first await. */
  async #drain(request: Pick<DrainRequest, 'nodes' | 'maintenances'>, signal: AbortSignal): Promise<void> {
    const { kube } = this.#testbed;
    const { resource } = this.#operator;
    await Promise.all(
      this.#operator.objectsOf(request, this.#prefix).map((object) => kube.create(resource, object)),
    );
    const running = AbortSignal.any([signal, this.#process.exited]);
    while (!this.#operator.isDone(this.#objects.list(), request.nodes)) await this.#objects.changed(running);
  }

  /** Deletes the objects, for which the operator uncordons the nodes. */
  async #removeObjects(): Promise<void> {
    const { kube, signal } = this.#testbed;
    const { resource } = this.#operator;
    const { items } = await kube.list(resource);
    await forEachBounded(maxInFlight, items, ({ metadata: { name, uid = '' } }) =>
      kube.delete(resource, { name }, { uid }),
    );
    const remaining = async () => {
      this.#process.exited.throwIfAborted();
      const { length } = (await kube.list(resource)).items;
      return length === 0 ? undefined : `${length} remain`;
    };
    await until(`the ${resource.plural} to be removed`, remaining, { timeoutMs, signal });
  }

  /** Removes what an operator that failed has left: objects with a finalizer, and taints. */
  async #restore(): Promise<void> {
    const { kube } = this.#testbed;
    const { resource } = this.#operator;
    const { items } = await kube.list(resource);
    if (items.length === 0) return;
    await forEachBounded(maxInFlight, items, ({ metadata: { name } }) =>
      kube.mergePatch(resource, { name }, { metadata: { finalizers: null } }),
    );
    await forEachBounded(maxInFlight, this.#request.nodes, (name) =>
      kube.mergePatch(resources.nodes, { name }, { spec: { unschedulable: false, taints: null } }),
    );
  }
}
