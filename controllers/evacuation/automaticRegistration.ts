import type { Pod } from '../../api/core.ts';
import { budgetsOf, neverAllowsDisruption } from '../../domain/evacuation/budgets.ts';
import { registrationMessage, registrationReason } from '../../domain/evacuation/deploymentRegistration.ts';
import { appsController } from '../../domain/evacuation/podRelease.ts';
import { byNamespace, type Cluster } from '../../kube/cluster.ts';
import { resources } from '../../kube/resources.ts';

/** A pod that is left to the eviction API is checked again after this: the status of its budget may have been late. */
const recheckMs = 30_000;

/** Registers the evacuator of Deployments for pods without evacuators, where the installation has chosen that (`--deployment-registration`). */
export class AutomaticRegistration {
  readonly #cluster: Pick<Cluster, 'kube' | 'budgets'>;
  /** UID of a pod for which the evacuator was not registered -> when that was decided. */
  readonly #leftAtMs = new Map<string, number>();

  constructor(cluster: Pick<Cluster, 'kube' | 'budgets'>) {
    this.#cluster = cluster;
  }

  /** Returns why the evacuator is registered for the pod, as a sentence; undefined if it is not. */
  async reasonFor(pod: Pod): Promise<string | undefined> {
    const { uid = '' } = pod.metadata;
    if (Date.now() - (this.#leftAtMs.get(uid) ?? 0) < recheckMs) return undefined;
    const reason = await this.#decide(pod);
    if (reason === undefined) this.#leftAtMs.set(uid, Date.now());
    return reason;
  }

  forget(podUid: string): void {
    this.#leftAtMs.delete(podUid);
  }

  /** Reads one object for most pods, and two for those that qualify. */
  async #decide(pod: Pod): Promise<string | undefined> {
    const { kube, budgets } = this.#cluster;
    const { namespace = '' } = pod.metadata;
    const owner = appsController(pod.metadata, 'ReplicaSet');
    if (owner === undefined) return undefined;
    const replicaSet = await kube.get(resources.replicaSets, { namespace, name: owner.name });
    if (replicaSet === undefined || replicaSet.metadata.uid !== owner.uid) return undefined;
    const inNamespace = budgets.byIndex(byNamespace, namespace);
    const isCandidate =
      (replicaSet.spec.replicas ?? 1) <= 1 || budgetsOf(pod, inNamespace).some(neverAllowsDisruption);
    const controller = appsController(replicaSet.metadata, 'Deployment');
    if (!isCandidate || controller === undefined) return undefined;
    const deployment = await kube.get(resources.deployments, { namespace, name: controller.name });
    if (deployment === undefined || deployment.metadata.uid !== controller.uid) return undefined;
    const reason = registrationReason({ pod, deployment, budgets: inNamespace });
    return reason && registrationMessage(reason, deployment);
  }
}
