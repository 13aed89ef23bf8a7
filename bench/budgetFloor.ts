import type { Pod, PodDisruptionBudget } from '../api/core.ts';
import { connectKube, type Kube } from '../kube/client.ts';
import { byNode } from '../kube/cluster.ts';
import { Informer } from '../kube/informer.ts';
import { type RawPod, resources } from '../kube/resources.ts';
import { trimPod } from '../kube/transform.ts';
import type { Attempt, Target, TargetMetrics } from './target.ts';
import { namespace } from './testbed.ts';

/**
 * Starts the next eviction when the current one has no answer by then: it met another write to the budget's status, and
 * the apiserver retries it after half a second.
 */
const evictionTimeoutMs = 100;

/**
 * The fastest way to evict the pods of one PodDisruptionBudget: only evictions, each as soon as the watched status allows
 * it, one after the other except for those that the apiserver retries. More evictions at a time were not faster.
 */
export const budgetFloor: Target = {
  name: 'floor',
  async prepare({ kubeconfigs, log }, { nodes: nodeNames }) {
    const kube = connectKube({ kubeconfig: kubeconfigs.floor, userAgent: 'floor', log });
    const indexes = { [byNode]: (pod: Pod) => (pod.spec.nodeName === undefined ? [] : [pod.spec.nodeName]) };
    const pods = new Informer({
      kube,
      resource: resources.pods,
      namespace,
      transform: trimPod,
      indexes,
      log,
    });
    const budgets = new Informer({ kube, resource: resources.podDisruptionBudgets, namespace, log });
    const stop = new AbortController();
    pods.start(stop.signal);
    budgets.start(stop.signal);
    await Promise.all([pods.synced(), budgets.synced()]);
    return new BudgetFloorDrain({ kube, pods, budgets, nodeNames, stop });
  },
};

interface Parts {
  kube: Kube;
  pods: Informer<Pod, RawPod>;
  budgets: Informer<PodDisruptionBudget>;
  nodeNames: readonly string[];
  stop: AbortController;
}

class BudgetFloorDrain implements Attempt {
  readonly #parts: Parts;
  #waiting: Readonly<Pod>[] = [];
  /** Names of pods whose eviction was requested and that the budget's status does not list yet. */
  readonly #pending = new Set<string>();
  /** The eviction that delays the next one. */
  #current: Promise<void> | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async drain(signal: AbortSignal): Promise<void> {
    const { kube, nodeNames, budgets, pods } = this.#parts;
    const cordon = { spec: { unschedulable: true } };
    await Promise.all(nodeNames.map((name) => kube.mergePatch(resources.nodes, { name }, cordon)));
    this.#waiting = this.#remaining();
    const unsubscribe = budgets.subscribe(({ object }) => {
      for (const name of Object.keys(object.status?.disruptedPods ?? {})) this.#pending.delete(name);
      this.#next(signal);
    });
    while (this.#remaining().length > 0) await pods.changed(signal);
    unsubscribe();
  }

  async settle(): Promise<void> {}

  async end(): Promise<TargetMetrics> {
    this.#parts.stop.abort();
    await this.#parts.kube.close();
    return {};
  }

  #remaining(): Readonly<Pod>[] {
    return this.#parts.nodeNames.flatMap((node) => this.#parts.pods.byIndex(byNode, node));
  }

  #next(signal: AbortSignal): void {
    const [budget] = this.#parts.budgets.list();
    const isAllowed = (budget?.status?.disruptionsAllowed ?? 0) > this.#pending.size;
    const pod = this.#current === undefined && isAllowed ? this.#waiting.shift() : undefined;
    if (pod === undefined) return;
    const eviction = this.#evict(pod, signal);
    this.#current = eviction;
    const proceed = () => {
      if (this.#current === eviction) this.#current = undefined;
      this.#next(signal);
    };
    const timeout = setTimeout(proceed, evictionTimeoutMs);
    void eviction.then(() => clearTimeout(timeout)).then(proceed);
  }

  async #evict(pod: Readonly<Pod>, signal: AbortSignal): Promise<void> {
    const { name, uid = '' } = pod.metadata;
    this.#pending.add(name);
    const kind = await this.#parts.kube.evict({ namespace, name, uid }, { signal }).then(
      (outcome) => outcome.kind,
      () => 'Failed' as const,
    );
    if (kind === 'Evicted') return;
    this.#pending.delete(name);
    if (kind !== 'Gone' && !signal.aborted) this.#waiting.unshift(pod);
  }
}
