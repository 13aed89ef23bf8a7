import type { Pod, PodDisruptionBudget } from '../api/core.ts';
import { connectKube, type Kube } from '../kube/client.ts';
import { byNode } from '../kube/cluster.ts';
import { Informer } from '../kube/informer.ts';
import { type RawPod, resources } from '../kube/resources.ts';
import { slimPod } from '../kube/slim.ts';
import type { Account, Attempt, Contender } from './contender.ts';
import { namespace } from './scene.ts';

/**
 * An eviction that is not answered by then met another write to the budget's status, and sleeps in the apiserver for half
 * a second: the next one starts. Milliseconds.
 */
const answersWithin = 100;

/**
 * The fastest that the pods of one budget can leave here: nothing but evictions, each as soon as the watched status allows
 * it. One after the other, but for those that sleep in the apiserver: of one to ten, or any number, at a time none was faster.
 */
export const budgetFloor: Contender = {
  name: 'floor',
  async prepare({ kubeconfigs, log }, targets) {
    const kube = connectKube({ kubeconfig: kubeconfigs.floor, userAgent: 'floor', log });
    const indexes = { [byNode]: (pod: Pod) => (pod.spec.nodeName === undefined ? [] : [pod.spec.nodeName]) };
    const pods = new Informer({
      kube,
      resource: resources.pods,
      namespace,
      transform: slimPod,
      indexes,
      log,
    });
    const budgets = new Informer({ kube, resource: resources.podDisruptionBudgets, namespace, log });
    const ending = new AbortController();
    pods.start(ending.signal);
    budgets.start(ending.signal);
    await Promise.all([pods.synced(), budgets.synced()]);
    return new BudgetFloorDrain({ kube, pods, budgets, targets, ending });
  },
};

interface Parts {
  kube: Kube;
  pods: Informer<Pod, RawPod>;
  budgets: Informer<PodDisruptionBudget>;
  targets: readonly string[];
  ending: AbortController;
}

class BudgetFloorDrain implements Attempt {
  readonly #parts: Parts;
  #waiting: Readonly<Pod>[] = [];
  /** Names of pods whose eviction was asked for, until the budget's status shows it. */
  readonly #unseen = new Set<string>();
  /** The eviction that keeps the next one from starting. */
  #current: Promise<void> | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async drain(signal: AbortSignal): Promise<void> {
    const { kube, targets, budgets, pods } = this.#parts;
    const cordon = { spec: { unschedulable: true } };
    await Promise.all(targets.map((name) => kube.mergePatch(resources.nodes, { name }, cordon)));
    this.#waiting = this.#left();
    const unsubscribe = budgets.subscribe(({ object }) => {
      for (const name of Object.keys(object.status?.disruptedPods ?? {})) this.#unseen.delete(name);
      this.#next(signal);
    });
    while (this.#left().length > 0) await pods.changed(signal);
    unsubscribe();
  }

  async settle(): Promise<void> {}

  async end(): Promise<Account> {
    this.#parts.ending.abort();
    await this.#parts.kube.close();
    return {};
  }

  #left(): Readonly<Pod>[] {
    return this.#parts.targets.flatMap((node) => this.#parts.pods.byIndex(byNode, node));
  }

  #next(signal: AbortSignal): void {
    const [budget] = this.#parts.budgets.list();
    const isAllowed = (budget?.status?.disruptionsAllowed ?? 0) > this.#unseen.size;
    const pod = this.#current === undefined && isAllowed ? this.#waiting.shift() : undefined;
    if (pod === undefined) return;
    const eviction = this.#evict(pod, signal);
    this.#current = eviction;
    const goOn = () => {
      if (this.#current === eviction) this.#current = undefined;
      this.#next(signal);
    };
    const patience = setTimeout(goOn, answersWithin);
    void eviction.then(() => clearTimeout(patience)).then(goOn);
  }

  async #evict(pod: Readonly<Pod>, signal: AbortSignal): Promise<void> {
    const { name, uid = '' } = pod.metadata;
    this.#unseen.add(name);
    const target = { namespace, name, uid };
    const kind = await this.#parts.kube.evict(target, { signal }).then(
      (outcome) => outcome.kind,
      () => 'Failed' as const,
    );
    if (kind === 'Evicted') return;
    this.#unseen.delete(name);
    if (kind !== 'Gone' && !signal.aborted) this.#waiting.unshift(pod);
  }
}
