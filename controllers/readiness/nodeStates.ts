import { isDeepStrictEqual } from 'node:util';
import type { Node } from '../../api/core.ts';
import type {
  NodeReadiness,
  NodeReadinessGate,
  NodeReadinessStatus,
  ObservedNodeReadiness,
} from '../../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../../api/nodeReadinessPolicy.ts';
import { gatesOf } from '../../domain/readiness/gates.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import { resources } from '../../kube/resources.ts';
import { isOfPreviousNode } from './nodeOwner.ts';
import type { PolicyAuthority } from './policyAuthority.ts';

/** The state that the reconcilers of a node share. Times are `performance.now()`. */
export interface NodeState {
  readonly uid: string;
  gates: readonly NodeReadinessGate[];
  /** The status that was decided last; undefined before the first decision. */
  status: NodeReadinessStatus | undefined;
  /** The informers have shown the gates that the apiserver has, at least once since the node was created. */
  areGatesConfirmed: boolean;
  statusWrittenAtMs: number;
  /** Time since which the status is deferred in favour of taints. */
  deferredSinceMs?: number | undefined;
}

/** Caches the state of each node; it is lost with the process, except for the status. */
export class NodeStates {
  readonly #cluster: FencedCluster;
  readonly #authority: PolicyAuthority;
  readonly #states = new Map<string, NodeState>();
  /** The newest list of policies, and the one that starts when it has ended. */
  #listing: Promise<unknown> = Promise.resolve();
  #nextListing: Promise<NodeReadinessPolicy[]> | undefined;

  constructor(cluster: FencedCluster, authority: PolicyAuthority) {
    this.#cluster = cluster;
    this.#authority = authority;
  }

  get(name: string): NodeState | undefined {
    return this.#states.get(name);
  }

  delete(name: string): void {
    this.#states.delete(name);
  }

  /** Returns the state of this Node object, starting from the stored status. */
  of({ metadata: { name, uid = '' } }: Node, readiness: ObservedNodeReadiness | undefined): NodeState {
    const known = this.#states.get(name);
    if (known?.uid === uid) return known;
    const state: NodeState = {
      uid,
      gates: [],
      status: readiness?.status,
      areGatesConfirmed: false,
      statusWrittenAtMs: -Infinity,
    };
    this.#states.set(name, state);
    return state;
  }

  /**
   * Reads the gates from the apiserver, unless the informers have shown them before: the informers may not know yet a gate that was
   * written before the node was created. `found` is the NodeReadiness of the node if it was just read.
   */
  async confirmGates(node: Node, state: NodeState, found?: NodeReadiness): Promise<boolean> {
    if (state.areGatesConfirmed) return true;
    state.areGatesConfirmed = isDeepStrictEqual(await this.#storedGates(node, found), state.gates);
    return state.areGatesConfirmed;
  }

  /** Resolves with undefined while the NodeReadiness of a previous Node object exists: gates reserved for this node may follow. */
  async #storedGates(node: Node, found?: NodeReadiness): Promise<NodeReadinessGate[] | undefined> {
    const { kube } = this.#cluster;
    const [readiness, policies] = await Promise.all([
      found ?? kube.get(resources.nodeReadinesses, { name: node.metadata.name }),
      this.#storedPolicies(),
    ]);
    if (isOfPreviousNode(readiness, node)) return undefined;
    const counting = await this.#authority.policiesFor(node, policies);
    return gatesOf(node, readiness?.spec.readinessGates ?? [], counting);
  }

  /** Lists the policies. One request serves all callers that arrive while another one is in progress. */
  #storedPolicies(): Promise<NodeReadinessPolicy[]> {
    const start = async () => {
      this.#nextListing = undefined;
      const list = this.#cluster.kube.list(resources.nodeReadinessPolicies);
      this.#listing = list;
      return (await list).items;
    };
    this.#nextListing ??= this.#listing.then(start, start);
    return this.#nextListing;
  }
}
