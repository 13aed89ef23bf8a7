import type { Pod } from '../api/core.ts';
import { forEachBounded } from '../kube/bounded.ts';
import { connectKube, type Kube } from '../kube/client.ts';
import { byNode } from '../kube/cluster.ts';
import { Informer } from '../kube/informer.ts';
import { type RawPod, resources } from '../kube/resources.ts';
import { slimPod } from '../kube/slim.ts';
import type { Account, Attempt, Contender } from './contender.ts';

/** Evictions under way at once. */
const inFlight = 64;

/**
 * The fastest that evictions can be had here: all nodes at once, nothing but evictions, a watch in place of polls. It
 * keeps no promise that a drain has to keep: no object to see or to stop it by, no budget waited for, lost when it dies.
 */
export const floor: Contender = {
  name: 'floor',
  async prepare({ kubeconfigs, log }, targets) {
    const kube = connectKube({
      kubeconfig: kubeconfigs.floor,
      maxInFlight: inFlight,
      userAgent: 'floor',
      log,
    });
    const indexes = { [byNode]: (pod: Pod) => (pod.spec.nodeName === undefined ? [] : [pod.spec.nodeName]) };
    const pods = new Informer({ kube, resource: resources.pods, transform: slimPod, indexes, log });
    const ending = new AbortController();
    pods.start(ending.signal);
    await pods.synced();
    return new FloorDrain(kube, pods, targets, ending);
  },
};

class FloorDrain implements Attempt {
  readonly #kube: Kube;
  readonly #pods: Informer<Pod, RawPod>;
  readonly #targets: readonly string[];
  readonly #ending: AbortController;

  constructor(kube: Kube, pods: Informer<Pod, RawPod>, targets: readonly string[], ending: AbortController) {
    this.#kube = kube;
    this.#pods = pods;
    this.#targets = targets;
    this.#ending = ending;
  }

  async drain(signal: AbortSignal): Promise<void> {
    const cordon = { spec: { unschedulable: true } };
    await Promise.all(this.#targets.map((name) => this.#kube.mergePatch(resources.nodes, { name }, cordon)));
    await forEachBounded(inFlight, this.#left(), (pod) => this.#evict(pod, signal));
    while (this.#left().length > 0) await this.#pods.changed(signal);
  }

  async settle(): Promise<void> {}

  async end(): Promise<Account> {
    this.#ending.abort();
    await this.#kube.close();
    return {};
  }

  #left(): Readonly<Pod>[] {
    return this.#targets.flatMap((node) => this.#pods.byIndex(byNode, node));
  }

  async #evict({ metadata }: Readonly<Pod>, signal: AbortSignal): Promise<void> {
    const { namespace = '', name, uid = '' } = metadata;
    const outcome = await this.#kube.evict({ namespace, name, uid }, { signal });
    if (outcome.kind === 'Refused' || outcome.kind === 'Misconfigured') throw new Error(outcome.message);
  }
}
