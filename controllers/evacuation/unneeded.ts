import type { Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { maintenancesTargeting } from '../../domain/drain/drainingMaintenances.ts';
import { finalizersOfOthers, isInstigated, isOursAlone } from '../../domain/evacuation/evacuation.ts';
import { unneededAfterMs } from '../../domain/evacuation/requestCleanup.ts';
import type { FencedKube } from '../../kube/client.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import { ignoreConflict } from '../../kube/errors.ts';
import { setFinalizers } from '../../kube/evacuationFinalizers.ts';
import { resources } from '../../kube/resources.ts';
import type { Requeue } from '../../kube/workQueue.ts';

/**
 * Withdraws Evacuations of node maintenance that no drain needs any more: those of a maintenance that was deleted by force, or that a worker created after
 * another one had completed it. What it remembers are times, which begin again in another process.
 */
export class UnneededEvacuations {
  readonly #cluster: Pick<FencedCluster, 'kube' | 'nodes' | 'maintenances'>;
  readonly #afterMs: number;
  /** Key of an Evacuation that no drain needs -> since when. */
  readonly #since = new Map<string, number>();
  #list: Promise<readonly NodeMaintenance[]> | undefined;

  constructor(cluster: Pick<FencedCluster, 'kube' | 'nodes' | 'maintenances'>, afterMs = unneededAfterMs) {
    this.#cluster = cluster;
    this.#afterMs = afterMs;
  }

  /**
   * Withdraws the Evacuation when it is due (`isDue`), and returns when it is to be reconciled again; undefined if a drain, or another instigator, needs
   * it.
   */
  async reconcile(
    key: string,
    evacuation: Evacuation,
    pod: Pod,
  ): Promise<(Requeue & { isDue: boolean }) | undefined> {
    if (!isOursAlone(evacuation) || this.#isNeeded(pod, this.#cluster.maintenances.list())) {
      this.#since.delete(key);
      return undefined;
    }
    const since = this.#since.get(key) ?? performance.now();
    this.#since.set(key, since);
    const leftMs = since + this.#afterMs - performance.now();
    if (leftMs > 0) return { requeueAfterMs: leftMs, isDue: false };
    // The informer may not show yet that a maintenance drains the node. One that was deleted is only released.
    const isDeleted = evacuation.metadata.deletionTimestamp !== undefined;
    const isDue = isDeleted || !this.#isNeeded(pod, await this.#maintenances());
    if (isDue) await withdrawEvacuation(this.#cluster.kube, evacuation);
    // If it had changed since it was read, it is decided again.
    return { requeueAfterMs: 1_000, isDue };
  }

  forget(key: string): void {
    this.#since.delete(key);
  }

  #isNeeded(pod: Pod, maintenances: readonly NodeMaintenance[]): boolean {
    const node = this.#cluster.nodes.get(pod.spec.nodeName ?? '');
    // The pods of a node that is gone are deleted soon.
    return node === undefined || maintenancesTargeting(pod, node, maintenances).length > 0;
  }

  /** Lists them in the apiserver, once for all Evacuations that are due now. */
  #maintenances(): Promise<readonly NodeMaintenance[]> {
    this.#list ??= this.#cluster.kube
      .list(resources.nodeMaintenances)
      .then(({ items }) => items)
      .finally(() => {
        this.#list = undefined;
      });
    return this.#list;
  }
}

/** Deletes the Evacuation, or removes our finalizer from one that was deleted. If it has changed since it was read, it stays as it is. */
export async function withdrawEvacuation(kube: FencedKube, evacuation: Evacuation): Promise<void> {
  const { name, namespace, uid = '', resourceVersion, deletionTimestamp } = evacuation.metadata;
  if (deletionTimestamp === undefined)
    await kube
      .delete(resources.evacuations, { namespace, name }, { uid, resourceVersion })
      .catch(ignoreConflict);
  else if (isInstigated(evacuation))
    await setFinalizers(kube, evacuation, finalizersOfOthers(evacuation.metadata)).catch(ignoreConflict);
}
