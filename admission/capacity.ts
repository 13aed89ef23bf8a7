import type { Node, Pod } from '../api/core.ts';
import type { NodeMaintenanceSpec } from '../api/nodeMaintenance.ts';
import { capacityWarning } from '../domain/capacity/forecast.ts';
import { isLeftRunning } from '../domain/common/pod.ts';
import { selectsNode } from '../domain/common/nodeSelector.ts';
import type { Kube } from '../kube/client.ts';
import { listPodsWithScheduling } from '../kube/podScheduling.ts';
import { inSlices } from '../kube/slices.ts';

/** A request waits this long for the pods of the cluster; the webhook has three seconds. */
const maxWaitMs = 1_000;
/** A warning that takes longer is given up. */
const maxComputationMs = 1_000;
/** A list that takes longer is given up. */
const maxReadMs = 20_000;
/** A larger cluster gets no warning: `kubectl maintenance plan` reads more. */
const maxPods = 50_000;
/** A list is used for this long, and no other begins within as many times as long as it took. */
const defaultMaxAgeMs = 10_000;
const agePerRead = 10;

interface Read {
  readonly pods: Promise<Pod[] | undefined>;
  usedUntil: number;
}

/**
 * Warns about drains whose pods would be Pending. Requests share one list of pods, however many they are: a request that would wait too long for it
 * gets no warning, and the next one finds it. Volumes are not compared.
 */
export class CapacityWarnings {
  readonly #kube: Kube;
  readonly #namespace: string;
  readonly #maxAgeMs: number;
  #read: Read | undefined;
  #isComputing = false;

  /** `namespace` is that of the installation. */
  constructor(kube: Kube, namespace: string, maxAgeMs = defaultMaxAgeMs) {
    this.#kube = kube;
    this.#namespace = namespace;
    this.#maxAgeMs = maxAgeMs;
  }

  async of(spec: NodeMaintenanceSpec, nodes: readonly Node[]): Promise<string | undefined> {
    if (spec.stage !== 'Drain') return undefined;
    const selected = nodes.filter((node) => selectsNode(spec.nodeSelector, node));
    const drained = new Set(selected.map(({ metadata }) => metadata.name));
    if (drained.size === 0) return undefined;
    const pods = await this.#pods();
    if (pods === undefined) return undefined;
    const leaves = (pod: Pod) => !isLeftRunning(pod, this.#namespace);
    const nowMs = this.#kube.now().getTime();
    const input = { nodes, drained, pods, volumes: new Map(), leaves, nowMs };
    return this.#computed(capacityWarning(input, spec.requireCapacity === true));
  }

  /** Everyone who may create a NodeMaintenance may ask for it: one is computed at a time, and not for long. */
  async #computed(steps: ReturnType<typeof capacityWarning>): Promise<string | undefined> {
    if (this.#isComputing) return undefined;
    this.#isComputing = true;
    try {
      return (await inSlices(steps, maxComputationMs))?.result;
    } finally {
      this.#isComputing = false;
    }
  }

  async #pods(): Promise<Pod[] | undefined> {
    if (this.#read === undefined || performance.now() >= this.#read.usedUntil) this.#read = this.#start();
    const { pods } = this.#read;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), maxWaitMs);
    });
    return Promise.race([pods, late]).finally(() => clearTimeout(timer));
  }

  #start(): Read {
    const startedAt = performance.now();
    const signal = AbortSignal.timeout(maxReadMs);
    // A warning must not fail the request.
    const pods = listPodsWithScheduling(this.#kube, { maxPods, signal }).catch(() => undefined);
    const read: Read = { pods, usedUntil: Infinity };
    void pods.then(() => {
      const tookMs = performance.now() - startedAt;
      read.usedUntil = performance.now() + Math.max(this.#maxAgeMs, agePerRead * tookMs);
    });
    return read;
  }
}
