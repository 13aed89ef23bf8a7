import type { KubeObject, Lease, Node, Pod, PodDisruptionBudget } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import type { EvictionRequest, LifecycleEviction } from '../../api/lifecycle.ts';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { AGENT_LEASE_NAMESPACE, FIELD_MANAGER, NODE_LEASE_NAMESPACE } from '../../api/names.ts';
import type { NodeDisruptionBudget } from '../../api/nodeDisruptionBudget.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { NodeReadiness } from '../../api/nodeReadiness.ts';
import { ownEvacuators, registeredEvacuators } from '../../domain/evacuation/evacuatorSelection.ts';
import { leaderOf } from '../../domain/leases/processSummary.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { isManagedBy, type Managed } from '../../domain/common/managedFields.ts';
import type { Kube } from '../../kube/client.ts';
import { isKubeError } from '../../kube/errors.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import { listIfServed } from '../../kube/served.ts';
import { trimNode, trimPod, trimPodDisruptionBudget } from '../../kube/transform.ts';

const maxConcurrentRequests = 8;
/** Users can name any number of classes. */
const maxClasses = 100;

/** The objects that several checks read. Each kind is listed at most once, when the first check asks for it. */
export class ClusterObjects {
  readonly #kube: Kube;
  readonly #signal: AbortSignal;
  readonly #lists = new Map<string, Promise<unknown>>();

  constructor(kube: Kube, signal: AbortSignal) {
    this.#kube = kube;
    this.#signal = signal;
  }

  maintenances(): Promise<NodeMaintenance[]> {
    return this.#once('maintenances', () => this.#list(resources.nodeMaintenances));
  }

  windows(): Promise<MaintenanceWindow[]> {
    return this.#once('windows', () => this.#list(resources.maintenanceWindows));
  }

  evacuations(): Promise<Evacuation[]> {
    return this.#once('evacuations', () => this.#list(resources.evacuations));
  }

  /** None if the apiserver does not serve them, or the user may not read them. */
  evictionRequests(): Promise<EvictionRequest[]> {
    return this.#once('evictionRequests', () => this.#listOptional(resources.evictionRequests));
  }

  evictions(): Promise<LifecycleEviction[]> {
    return this.#once('evictions', () => this.#listOptional(resources.evictions));
  }

  readinesses(): Promise<NodeReadiness[]> {
    return this.#once('readinesses', () => this.#list(resources.nodeReadinesses));
  }

  pods(): Promise<Pod[]> {
    return this.#once('pods', async () => {
      const { items } = await this.#kube.listReduced(resources.pods, { signal: this.#signal }, trimPod);
      return items;
    });
  }

  budgets(): Promise<PodDisruptionBudget[]> {
    return this.#once('budgets', async () =>
      (await this.#list(resources.podDisruptionBudgets)).map(trimPodDisruptionBudget),
    );
  }

  nodeDisruptionBudgets(): Promise<NodeDisruptionBudget[]> {
    return this.#once('nodeDisruptionBudgets', () => this.#list(resources.nodeDisruptionBudgets));
  }

  nodeLeases(): Promise<Lease[]> {
    return this.#once('nodeLeases', () => this.#list(resources.leases, NODE_LEASE_NAMESPACE));
  }

  agentLeases(): Promise<Lease[]> {
    return this.#once('agentLeases', () => this.#list(resources.leases, AGENT_LEASE_NAMESPACE));
  }

  nodes(): Promise<{ nodes: Node[]; cordonedByUs: ReadonlySet<string> }> {
    return this.#once('nodes', async () => {
      const raw: readonly (Node & Managed)[] = await this.#list(resources.nodes);
      const cordonedByUs = new Set(
        raw
          .filter((node) => isManagedBy(node, FIELD_MANAGER, ['f:spec', 'f:unschedulable']))
          .map(({ metadata }) => metadata.name),
      );
      return { nodes: raw.map(trimNode), cordonedByUs };
    });
  }

  /** Returns the classes that pods name and for which a program of evacuator-kit leads. */
  async leadingEvacuators(signal: AbortSignal): Promise<ReadonlySet<string>> {
    const named = (await this.pods()).flatMap((pod) =>
      registeredEvacuators(pod).evacuators.map(({ evacuatorClass }) => evacuatorClass),
    );
    const classes = [...new Set(named)].filter((one) => !ownEvacuators.includes(one)).toSorted();
    const leading = new Set<string>();
    await forEachBounded(maxConcurrentRequests, classes.slice(0, maxClasses), async (evacuatorClass) => {
      const fieldSelector = `metadata.name=evacuator-${evacuatorClass}`;
      const { items } = await this.#kube.list(resources.leases, { fieldSelector, signal });
      const now = this.#kube.now();
      if (items.some((lease) => leaderOf(lease, now) !== undefined)) leading.add(evacuatorClass);
    });
    return leading;
  }

  async #listOptional<T extends KubeObject>(resource: Resource<T>): Promise<T[]> {
    return listIfServed(this.#kube, resource, { signal: this.#signal }).catch((reason: unknown) => {
      if (!isKubeError(reason, 'Forbidden')) throw reason;
      return [];
    });
  }

  async #list<T extends { metadata: { name: string } }>(
    resource: Parameters<Kube['list']>[0] & { object?: T },
    namespace?: string,
  ): Promise<T[]> {
    const { items } = await this.#kube.list(resource, { namespace, signal: this.#signal });
    return items as T[];
  }

  #once<T>(name: string, read: () => Promise<T>): Promise<T> {
    const known = this.#lists.get(name) ?? read();
    this.#lists.set(name, known);
    return known as Promise<T>;
  }
}
