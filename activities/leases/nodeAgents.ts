import { mayHaveAgent } from '../../domain/common/names.ts';
import { type NodeAgent, noAgent, nodeAgentOf } from '../../domain/leases/nodeAgent.ts';
import { readAgentLease } from '../../kube/agentLease.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import type { Kube } from '../../kube/client.ts';
import { isRejection } from '../../kube/errors.ts';

/** Interval for nodes without static pods, whose Leases only the status shows. */
const readOthersEveryMs = 60_000;
/** A drain of many nodes reads 20 Leases a second at most. */
const perNodeMs = 50;
const concurrentReads = 16;
/** Leases that only the status shows delay a pass by this at most; the next pass continues. */
const maxOthersMs = 50;
/** Delay before the next pass if it has Leases to read that this one has left. */
const minDueMs = 1_000;
/** A timer may end this much early. */
const timerErrorMs = 2;

/** A node of a drain. */
export interface AgentNode {
  readonly name: string;
  readonly hasStaticPods: boolean;
}

/**
 * The agents of the nodes that this process drains, by their Leases. These are read one by one, because a watch would report every renewal in the
 * cluster. Its state only saves requests.
 */
export class NodeAgents {
  readonly #kube: Kube;
  readonly #readEveryMs: number;
  /** `atMs` is by performance.now(). */
  readonly #known = new Map<string, { agent: NodeAgent; atMs: number }>();
  readonly #reading = new Map<string, Promise<void>>();

  /** `readEveryMs`: interval in which a Lease is read on which static pods depend. */
  constructor(kube: Kube, readEveryMs: number) {
    this.#kube = kube;
    this.#readEveryMs = readEveryMs;
  }

  /** Returns the agent of the node when its Lease was read last. */
  of(node: string): NodeAgent {
    return this.#known.get(node)?.agent ?? noAgent;
  }

  /**
   * Reads the Leases that are due: all on which static pods depend, and as many of the others as there is time for; none of these with
   * `needed`.
   */
  async refresh(nodes: readonly AgentNode[], which: 'all' | 'needed' = 'all'): Promise<void> {
    const isDue = (node: AgentNode) => this.#dueInMs(node, nodes.length) <= timerErrorMs;
    const due = nodes.filter((node) => mayHaveAgent(node.name) && isDue(node));
    const read = ({ name }: AgentNode) => this.#read(name);
    const needed = due.filter((node) => node.hasStaticPods);
    const others = due.filter((node) => !node.hasStaticPods);
    await forEachBounded(concurrentReads, needed, read);
    if (which === 'needed') return;
    await forEachBounded(concurrentReads, others, read, { endsAt: performance.now() + maxOthersMs });
  }

  /** Returns the time until the next Lease is to be read. */
  dueInMs(nodes: readonly AgentNode[]): number {
    const due = nodes
      .filter(({ name }) => mayHaveAgent(name))
      .map((node) => this.#dueInMs(node, nodes.length));
    return Math.max(minDueMs, Math.min(Number.POSITIVE_INFINITY, ...due));
  }

  forget(node: string): void {
    this.#known.delete(node);
  }

  #dueInMs({ name, hasStaticPods }: AgentNode, count: number): number {
    const known = this.#known.get(name);
    if (known === undefined) return 0;
    const intervalMs = Math.max(hasStaticPods ? this.#readEveryMs : readOthersEveryMs, count * perNodeMs);
    return known.atMs + intervalMs - performance.now();
  }

  /** Drains that share the node share the request. */
  async #read(node: string): Promise<void> {
    const reading = this.#reading.get(node) ?? this.#request(node);
    this.#reading.set(node, reading);
    try {
      await reading;
    } finally {
      this.#reading.delete(node);
    }
  }

  async #request(node: string): Promise<void> {
    const agent = await this.#agentOf(node);
    this.#known.set(node, { agent, atMs: performance.now() });
  }

  async #agentOf(node: string): Promise<NodeAgent> {
    try {
      return nodeAgentOf(await readAgentLease(this.#kube, node), this.#kube.now());
    } catch (error) {
      if (!isRejection(error)) throw error;
      return { kind: 'Unknown', because: error.apiMessage };
    }
  }
}
