import type { Pod } from '../../api/core.ts';
import { oneLine } from '../common/text.ts';
import { type ClusterState, type NodeState, schedulingOf } from './clusterState.ts';
import { type NodeCheck, schedulingRules } from './rules.ts';

/** Why no node fits a pod. */
export interface Misfit {
  /** Number of nodes in the cluster. */
  readonly nodes: number;
  /** Reason -> number of nodes. */
  readonly reasons: ReadonlyMap<string, number>;
}

export type Placement =
  | { readonly kind: 'Placed'; readonly node: NodeState }
  | { readonly kind: 'Unplaced'; readonly misfit: Misfit };

/**
 * Finds nodes for pods one after another: each on the first node, by name, that all rules allow. The scheduler chooses among the same nodes
 * by preference, so where the space is tight, it may place more pods or fewer.
 */
export class Placer {
  readonly #cluster: ClusterState;
  /** Results for pods with the same requirements, until there may be more room. */
  readonly #known = new Map<object, Map<string, { version: number; from: number; misfit?: Misfit }>>();

  constructor(cluster: ClusterState) {
    this.#cluster = cluster;
  }

  /** Moves the pod from its node to one that fits, or only removes it if none does. */
  move(pod: Pod): Placement {
    this.#cluster.remove(pod);
    return this.place(pod);
  }

  /** Adds the pod to the first node that fits. */
  place(pod: Pod): Placement {
    const known = this.#knownOf(pod);
    if (known?.misfit !== undefined) return { kind: 'Unplaced', misfit: known.misfit };
    const { nodes } = this.#cluster;
    const checks = preparedChecks(pod, this.#cluster);
    for (let index = known?.from ?? 0; index < nodes.length; index += 1) {
      const node = nodes[index] as NodeState;
      if (rejection(checks, node) !== undefined) continue;
      if (known !== undefined) known.from = index;
      this.#cluster.add(pod, node);
      return { kind: 'Placed', node };
    }
    const misfit = misfitOf(checks, nodes);
    if (known !== undefined) known.misfit = misfit;
    return { kind: 'Unplaced', misfit };
  }

  /** Returns the state of equal pods; undefined for pods whose nodes depend on pods that were placed since. */
  #knownOf(pod: Pod) {
    const scheduling = schedulingOf(pod);
    const { podAffinity, podAntiAffinity, topologySpread } = scheduling;
    if (podAffinity ?? podAntiAffinity ?? topologySpread ?? pod.spec.claims) return undefined;
    const { namespace, labels } = pod.metadata;
    const key = this.#cluster.hasRepulsions ? JSON.stringify([namespace, labels]) : '';
    const byLabels = this.#known.get(scheduling) ?? new Map();
    this.#known.set(scheduling, byLabels);
    const { version } = this.#cluster;
    const current = byLabels.get(key);
    if (current?.version === version) return current;
    const fresh = { version, from: 0 };
    byLabels.set(key, fresh);
    return fresh;
  }
}

/** Returns the nodes that all rules allow for the pod at present. */
export function fittingNodes(pod: Pod, cluster: ClusterState): NodeState[] {
  const checks = preparedChecks(pod, cluster);
  return cluster.nodes.filter((node) => rejection(checks, node) === undefined);
}

/** Formats the misfit as the scheduler does: `0/5 nodes are available: 2 Insufficient cpu, 3 node(s) were unschedulable`. */
export function misfitText({ nodes, reasons }: Misfit): string {
  const counted = [...reasons].map(([reason, number]) => `${number} ${reason}`).toSorted();
  return oneLine(`0/${nodes} nodes are available: ${counted.join(', ') || 'there is no node'}`, maxLength);
}

const maxLength = 400;

function preparedChecks(pod: Pod, cluster: ClusterState): NodeCheck[] {
  return schedulingRules.flatMap((rule) => rule(pod, cluster) ?? []);
}

/** Returns the reasons of the first rule that rejects the node; undefined if none does. */
function rejection(checks: readonly NodeCheck[], node: NodeState): readonly string[] | undefined {
  for (const check of checks) {
    const reasons = check(node);
    if (reasons.length > 0) return reasons;
  }
  return undefined;
}

function misfitOf(checks: readonly NodeCheck[], nodes: readonly NodeState[]): Misfit {
  const reasons = new Map<string, number>();
  for (const node of nodes)
    for (const reason of rejection(checks, node) ?? []) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
  return { nodes: nodes.length, reasons };
}
