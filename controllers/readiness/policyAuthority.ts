import type { Node } from '../../api/core.ts';
import { READINESS_POLICY_MANAGER, REQUESTER_ANNOTATION } from '../../api/names.ts';
import type { ObservedNodeReadiness } from '../../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../../api/nodeReadinessPolicy.ts';
import { authorityOf, decideNode, gateDenialOf, NodeDecision } from '../../domain/common/requester.ts';
import { policiesOf } from '../../domain/readiness/gates.ts';
import { policiesIn } from '../../domain/readiness/policyGates.ts';
import { heldBack } from '../../domain/readiness/policyStatus.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import type { NodePermissions } from '../../kube/nodePermissions.ts';

/** Decides on which nodes a policy counts, from the permissions of the user who changed it last (ADR 28). */
export class PolicyAuthority {
  readonly #cluster: FencedCluster;
  readonly #permissions: NodePermissions;

  constructor(cluster: FencedCluster, permissions: NodePermissions) {
    this.#cluster = cluster;
    this.#permissions = permissions;
  }

  /** Resolves with the policies whose gates a node gets. */
  async policiesFor(node: Node, policies: readonly NodeReadinessPolicy[]): Promise<NodeReadinessPolicy[]> {
    const decided = await this.#decide(node, policies);
    return decided.filter(({ decision }) => decision === NodeDecision.Proceed).map(({ policy }) => policy);
  }

  /** Resolves with these policies and, as if they were not evaluated yet, those whose gates stay on the node as they are. */
  async policiesWriting(
    node: Node,
    policies: readonly NodeReadinessPolicy[],
  ): Promise<NodeReadinessPolicy[]> {
    const decided = await this.#decide(node, policies);
    return decided.flatMap(({ policy, decision }) => writing(policy, decision));
  }

  /**
   * Resolves with a function that returns what `policiesWriting` resolves with for one of these nodes. The permissions of a policy are read together:
   * one by one, those of thousands of nodes would be reviewed too often.
   */
  async writersOn(
    nodes: readonly Node[],
    policies: readonly NodeReadinessPolicy[],
  ): Promise<(node: Node) => NodeReadinessPolicy[]> {
    const permitted = new Map<NodeReadinessPolicy, (node: string) => boolean>();
    for (const policy of policies) {
      const selected = nodes.filter((node) => policiesOf(node, [policy]).length > 0);
      permitted.set(policy, await this.#permitted(policy, selected));
    }
    return (node) => {
      const { name } = node.metadata;
      const readiness = this.#cluster.readinesses.get(name);
      return policiesOf(node, policies).flatMap((policy) => {
        const isPermitted = permitted.get(policy)?.(name) === true;
        return writing(policy, decideNode(isPermitted, hasGatesOf(policy, readiness)));
      });
    };
  }

  /** Resolves with the nodes on which the policy does not count, or sets no further gates, and why. */
  async deniedNodes(
    policy: NodeReadinessPolicy,
    nodes: readonly Node[],
  ): Promise<{ nodes: ReadonlySet<string>; because: string }> {
    const permitted = await this.#permitted(policy, nodes);
    const names = nodes.map(({ metadata }) => metadata.name).filter((name) => !permitted(name));
    return { nodes: new Set(names), because: gateDenialOf(authorityOf(recordOf(policy))) };
  }

  async #decide(
    node: Node,
    policies: readonly NodeReadinessPolicy[],
  ): Promise<{ policy: NodeReadinessPolicy; decision: NodeDecision }[]> {
    const { name } = node.metadata;
    const readiness = this.#cluster.readinesses.get(name);
    const decided: { policy: NodeReadinessPolicy; decision: NodeDecision }[] = [];
    for (const policy of policiesOf(node, policies)) {
      const permitted = await this.#permitted(policy, [node]);
      decided.push({ policy, decision: decideNode(permitted(name), hasGatesOf(policy, readiness)) });
    }
    return decided;
  }

  /** A policy from before the record existed counts as it did: otherwise nodes would accept pods too early after an upgrade. */
  async #permitted(policy: NodeReadinessPolicy, nodes: readonly Node[]): Promise<(node: string) => boolean> {
    const record = recordOf(policy);
    if (record === undefined) return () => true;
    const authority = authorityOf(record);
    if (authority.kind !== 'User') return () => false;
    const reviewed = nodes.map(({ metadata: { name } }) => ({
      name,
      isStarted: hasGatesOf(policy, this.#cluster.readinesses.get(name)),
    }));
    const permitted = await this.#permissions.permitted(authority.requester, reviewed);
    return (node) => permitted.has(node);
  }
}

function writing(policy: NodeReadinessPolicy, decision: NodeDecision): NodeReadinessPolicy[] {
  if (decision === NodeDecision.Skip) return [];
  return [decision === NodeDecision.Proceed ? policy : heldBack(policy)];
}

function recordOf({ metadata }: NodeReadinessPolicy): string | undefined {
  return metadata.annotations?.[REQUESTER_ANNOTATION];
}

function hasGatesOf(
  { metadata }: NodeReadinessPolicy,
  readiness: ObservedNodeReadiness | undefined,
): boolean {
  return readiness !== undefined && policiesIn(readiness, READINESS_POLICY_MANAGER).includes(metadata.name);
}
