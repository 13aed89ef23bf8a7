import type { KubeObject, Node, NodeSelector } from '../../api/core.ts';
import { NODE_READINESS_POLICY, READINESS_TAINT } from '../../api/names.ts';
import type { NodeReadinessPolicy } from '../../api/nodeReadinessPolicy.ts';
import { defaultReviewTiming, type ReviewTiming, reviewsDue } from '../../domain/common/permissionReviews.ts';
import { mayGateNode } from '../../kube/authorization.ts';
import type { Kube } from '../../kube/client.ts';
import { NodePermissions } from '../../kube/nodePermissions.ts';
import { resources } from '../../kube/resources.ts';
import { eventuallyHolds } from './eventually.ts';

export interface GateDiffers {
  name: string;
  namespace: string;
  /** The name, unless given. */
  app?: string;
  blocksReadiness?: boolean;
}

/** Returns a gate for the pods with label `app`. */
export function gate({ app, ...differs }: GateDiffers): object {
  return { selector: { matchLabels: { app: app ?? differs.name } }, ...differs };
}

/** Selects the nodes with label `pool: <pool>`. */
export function ofPool(pool: string): NodeSelector {
  return { nodeSelectorTerms: [{ matchExpressions: [{ key: 'pool', operator: 'In', values: [pool] }] }] };
}

export function readinessPolicy(
  name: string,
  nodeSelector: NodeSelector,
  gates: readonly object[],
): KubeObject {
  const { apiVersion, kind } = NODE_READINESS_POLICY;
  return {
    apiVersion,
    kind,
    metadata: { name },
    spec: { nodeSelector, readinessGates: gates },
  } as KubeObject;
}

/** The permissions of users to gate nodes, as the worker asks for them. */
export function gatePermissions(kube: Kube, timing: ReviewTiming = defaultReviewTiming): NodePermissions {
  return new NodePermissions(kube, {
    may: mayGateNode,
    validMs: timing.validMs,
    isDue: (nodes, answers, now) => reviewsDue(nodes, answers, timing, now),
  });
}

/** The NodeReadinessPolicies of one test file, and the taints that the apiserver gives nodes because of them. */
export class ReadinessPolicies {
  readonly #admin: Kube;
  readonly #names = new Set<string>();

  constructor(admin: Kube) {
    this.#admin = admin;
  }

  /** Deletes the policy with the others. */
  dropLater(name: string): void {
    this.#names.add(name);
  }

  /** Stores a policy. */
  stored(policy: KubeObject): Promise<NodeReadinessPolicy> {
    this.#names.add(policy.metadata.name);
    const options = { fieldManager: 'kubectl', force: true };
    return this.#admin.apply(resources.nodeReadinessPolicies, policy, options);
  }

  /** Stores a policy, and waits until the apiserver taints new nodes; `probe` has the labels of one that it selects. */
  async applied(policy: KubeObject, probe: Record<string, string>): Promise<NodeReadinessPolicy> {
    const stored = await this.stored(policy);
    await this.inEffect(probe);
    return stored;
  }

  /** Waits until the apiserver taints new nodes with these labels. */
  async inEffect(labels: Record<string, string>): Promise<void> {
    const observe = () => this.taintedOf([{ metadata: { name: 'probe', labels } }]);
    await eventuallyHolds('a new node to be tainted', observe, ([isTainted]) => isTainted === true);
  }

  /** Returns which of these nodes would have the readiness taint if they were created now. Stores nothing. */
  async taintedOf(nodes: readonly KubeObject[]): Promise<boolean[]> {
    const taints = await this.taintsOf(nodes);
    return taints.map((keys) => keys.includes(READINESS_TAINT.key));
  }

  /** Returns the keys of the taints that these nodes would have. */
  async taintsOf(nodes: readonly KubeObject[]): Promise<string[][]> {
    const created = await Promise.all(
      nodes.map((node) => this.#admin.create(resources.nodes, node as Node, { dryRun: true })),
    );
    return created.map(({ spec }) => (spec.taints ?? []).map(({ key }) => key));
  }

  async dropped(name: string): Promise<void> {
    this.#names.delete(name);
    const found = await this.#admin.get(resources.nodeReadinessPolicies, { name });
    if (found === undefined) return;
    await this.#admin.delete(resources.nodeReadinessPolicies, { name }, { uid: found.metadata.uid ?? '' });
  }

  async allDropped(): Promise<void> {
    for (const name of this.#names) await this.dropped(name);
  }
}
