import type { Pod } from '../api/core.ts';
import { forEachBounded } from '../kube/bounded.ts';
import { connectKube, type Kube } from '../kube/client.ts';
import { byNode } from '../kube/cluster.ts';
import { Informer } from '../kube/informer.ts';
import { type RawPod, resources } from '../kube/resources.ts';
import { trimPod } from '../kube/transform.ts';
import type { Attempt, Target, TargetMetrics } from './target.ts';

/** Evictions in progress at once. */
const inFlight = 64;

/**
 * The fastest way to evict all pods: all nodes at once, only evictions, a watch in place of polling. It lacks what a drain
 * needs: there is no object to observe or stop it, it does not wait for a PodDisruptionBudget, and a crash loses it.
 */
export const floor: Target = {
  name: 'floor',
  async prepare({ kubeconfigs, log }, { nodes: nodeNames }) {
    const kube = connectKube({
      kubeconfig: kubeconfigs.floor,
      maxInFlight: inFlight,
      userAgent: 'floor',
      log,
    });
    const indexes = { [byNode]: (pod: Pod) => (pod.spec.nodeName === undefined ? [] : [pod.spec.nodeName]) };
    const pods = new Informer({ kube, resource: resources.pods, transform: trimPod, indexes, log });
    const stop = new AbortController();
    pods.start(stop.signal);
    await pods.synced();
    return new FloorDrain(kube, pods, nodeNames, stop);
  },
};

class FloorDrain implements Attempt {
  readonly #kube: Kube;
  readonly #pods: Informer<Pod, RawPod>;
  readonly #nodeNames: readonly string[];
  readonly #stop: AbortController;

  constructor(kube: Kube, pods: Informer<Pod, RawPod>, nodeNames: readonly string[], stop: AbortController) {
    this.#kube = kube;
    this.#pods = pods;
    this.#nodeNames = nodeNames;
    this.#stop = stop;
  }

  async drain(signal: AbortSignal): Promise<void> {
    const cordon = { spec: { unschedulable: true } };
    await Promise.all(
      this.#nodeNames.map((name) => this.#kube.mergePatch(resources.nodes, { name }, cordon)),
    );
    await forEachBounded(inFlight, this.#remaining(), (pod) => this.#evict(pod, signal));
    while (this.#remaining().length > 0) await this.#pods.changed(signal);
  }

  async settle(): Promise<void> {}

  async end(): Promise<TargetMetrics> {
    this.#stop.abort();
    await this.#kube.close();
    return {};
  }

  #remaining(): Readonly<Pod>[] {
    return this.#nodeNames.flatMap((node) => this.#pods.byIndex(byNode, node));
  }

  async #evict({ metadata }: Readonly<Pod>, signal: AbortSignal): Promise<void> {
    const { namespace = '', name, uid = '' } = metadata;
    const outcome = await this.#kube.evict({ namespace, name, uid }, { signal });
    if (outcome.kind === 'Rejected' || outcome.kind === 'Misconfigured') throw new Error(outcome.message);
  }
}
