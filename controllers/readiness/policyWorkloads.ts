import type { NodeReadinessPolicy } from '../../api/nodeReadinessPolicy.ts';
import { isEvaluated } from '../../domain/readiness/gates.ts';
import type { PolicyStatusInput, Workload } from '../../domain/readiness/policyStatus.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import { resources } from '../../kube/resources.ts';
import { workloadOf, listWorkloads } from '../../kube/workloads.ts';

/** Time for which the cached content of a namespace is used for all policies. */
const cacheMs = 10_000;

interface NamespaceContent {
  /** Time of the read, by `performance.now()`. */
  readAtMs: number;
  exists: boolean;
  /** Deployments and StatefulSets. */
  workloads: Workload[];
}

/** Reads the workloads in the namespaces of readiness gates. Deployments and StatefulSets are listed, not watched. */
export class PolicyWorkloads {
  readonly #cluster: FencedCluster;
  readonly #namespaces = new Map<string, NamespaceContent>();

  constructor(cluster: FencedCluster) {
    this.#cluster = cluster;
  }

  /** Returns the workloads in the namespaces of the policy's gates. A policy that was not checked yet gets fresh ones. */
  async workloadsOf(
    policy: NodeReadinessPolicy,
  ): Promise<Pick<PolicyStatusInput, 'workloads' | 'missingNamespaces'>> {
    const namespaces = [...new Set(policy.spec.readinessGates.map(({ namespace }) => namespace))];
    const notBeforeMs = performance.now() - (isEvaluated(policy) ? cacheMs : 0);
    const workloads = this.#cluster.daemonSets
      .list()
      .filter(({ metadata }) => namespaces.includes(metadata.namespace ?? ''))
      .map((one) => workloadOf('DaemonSet', one, one.spec.template ?? {}));
    const missingNamespaces: string[] = [];
    for (const namespace of namespaces) {
      const cached = this.#namespaces.get(namespace);
      const content =
        cached !== undefined && cached.readAtMs > notBeforeMs ? cached : await this.#read(namespace);
      workloads.push(...content.workloads);
      if (!content.exists) missingNamespaces.push(namespace);
    }
    return { workloads, missingNamespaces };
  }

  async #read(namespace: string): Promise<NamespaceContent> {
    const { kube } = this.#cluster;
    const exists = (await kube.get(resources.namespaces, { name: namespace })) !== undefined;
    const workloads = await listWorkloads(kube, namespace, [resources.deployments, resources.statefulSets]);
    const content = { readAtMs: performance.now(), exists, workloads };
    for (const [name, { readAtMs }] of this.#namespaces)
      if (readAtMs < content.readAtMs - cacheMs) this.#namespaces.delete(name);
    this.#namespaces.set(namespace, content);
    return content;
  }
}
