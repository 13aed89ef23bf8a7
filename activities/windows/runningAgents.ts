import { nodeAgentOf } from '../../domain/leases/nodeAgent.ts';
import { listAgentLeases } from '../../kube/agentLease.ts';
import { currentInstant, elapsedMs } from '../../kube/monotonicTime.ts';
import type { Deps } from '../deps.ts';

/** An agent that has stopped is noticed only when its Lease expires, which takes longer. */
const maxAgeMs = 5_000;

/** The nodes whose agents run. Reads the Leases at intervals: a pass over a window may follow another one immediately. */
export class RunningAgents {
  readonly #deps: Pick<Deps, 'cluster'>;
  #known: { nodes: ReadonlySet<string>; at: ReturnType<typeof currentInstant> } | undefined;

  constructor(deps: Pick<Deps, 'cluster'>) {
    this.#deps = deps;
  }

  async nodes(): Promise<ReadonlySet<string>> {
    if (this.#known !== undefined && elapsedMs(this.#known.at) < maxAgeMs) return this.#known.nodes;
    const { kube } = this.#deps.cluster;
    const at = currentInstant();
    const leases = await listAgentLeases(kube);
    const running = leases.filter((lease) => nodeAgentOf(lease, kube.now()).kind === 'Live');
    this.#known = { nodes: new Set(running.map(({ metadata }) => metadata.name)), at };
    return this.#known.nodes;
  }
}
