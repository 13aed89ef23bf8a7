import { nodeAgentOf, type RebootAbility, rebootAbilityOf } from '../../domain/leases/nodeAgent.ts';
import { listAgentLeases } from '../../kube/agentLease.ts';
import { currentInstant, elapsedMs } from '../../kube/monotonicTime.ts';
import type { Deps } from '../deps.ts';

/** An agent that has stopped is noticed only when its Lease expires, which takes longer. */
const maxAgeMs = 5_000;

/** Abilities of the agents of nodes to reboot them when asked. Reads the Leases at intervals: a pass over a window may follow another one immediately. */
export class RunningAgents {
  readonly #deps: Pick<Deps, 'cluster'>;
  #known:
    | { abilities: ReadonlyMap<string, RebootAbility>; at: ReturnType<typeof currentInstant> }
    | undefined;

  constructor(deps: Pick<Deps, 'cluster'>) {
    this.#deps = deps;
  }

  /** Returns them by the names of the nodes. A node without a Lease is missing: no agent runs on it. */
  async rebootAbilities(): Promise<ReadonlyMap<string, RebootAbility>> {
    if (this.#known !== undefined && elapsedMs(this.#known.at) < maxAgeMs) return this.#known.abilities;
    const { kube } = this.#deps.cluster;
    const at = currentInstant();
    const leases = await listAgentLeases(kube);
    const abilities = leases.map(
      (lease) => [lease.metadata.name, rebootAbilityOf(nodeAgentOf(lease, kube.now()))] as const,
    );
    this.#known = { abilities: new Map(abilities), at };
    return this.#known.abilities;
  }
}
