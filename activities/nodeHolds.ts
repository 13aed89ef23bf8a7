import type { Lease, Node } from '../api/core.ts';
import { NODE_LEASE_NAMESPACE } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { isHeldBy, leaseStateOf } from '../domain/lease.ts';
import { compareNames, listed } from '../domain/names.ts';
import { heldByAnother, type WithheldNode } from '../domain/nodeHold.ts';
import { holdsNodes } from '../domain/stage.ts';
import { forEachBounded } from '../kube/bounded.ts';
import { isKubeError, wordsOf } from '../kube/errors.ts';
import { resources, versionOf } from '../kube/resources.ts';
import type { MaintenanceRef } from './contract.ts';
import type { Deps } from './deps.ts';
import { namesOf, nodesOf, stageOf, type View } from './view.ts';

const leasesAtOnce = 16;
/** A Lease that cannot be written is tried again after so long. Milliseconds. */
const refusalRetry = 10_000;

/** Which nodes of a maintenance may be touched, and why not the others. */
export interface Hold {
  held: ReadonlySet<string>;
  /** In order of their names. */
  withheld: readonly WithheldNode[];
}

/** A view, divided into what may be touched and what not. */
export interface HeldView extends View {
  /** The nodes whose maintenance Leases are ours. */
  held: readonly Node[];
  withheld: readonly WithheldNode[];
}

type HoldDeps = Pick<Deps, 'cluster' | 'events' | 'leases'>;

/**
 * Takes and renews the Leases of the nodes of a maintenance that is in Cordon or Drain. "The Lease ... [is] renewed by a durable
 * workflow timer": a third of its duration leaves two more attempts before it runs out.
 */
export async function renewNodeLeases(
  deps: Deps,
  ref: MaintenanceRef,
): Promise<{ renewAfterSeconds: number }> {
  const { cluster, leases, holds } = deps;
  const maintenance =
    cluster.maintenances.get(ref.name) ??
    (await cluster.kube.get(resources.nodeMaintenances, { name: ref.name }));
  if (maintenance?.metadata.uid === ref.uid && holdsNodes(stageOf(maintenance)))
    await holds.of(ref.uid).renew(maintenance, nodesOf(maintenance, cluster.nodes.list()));
  return { renewAfterSeconds: leases.leaseDurationSeconds / 3 };
}

/** Takes the Leases of the nodes of a view, those that it has ceased to select included: they are given back in the end. */
export async function holdNodes({ holds }: Pick<Deps, 'holds'>, view: View): Promise<HeldView> {
  const { maintenance, nodes, existing } = view;
  const hold = holds.of(maintenance.metadata.uid ?? '');
  const { held, withheld } = await hold.take(maintenance, nodesOf(maintenance, existing));
  const selected = namesOf(nodes);
  return {
    ...view,
    held: nodes.filter((node) => held.has(node.metadata.name)),
    withheld: withheld.filter(({ name }) => selected.has(name)),
  };
}

/** The node Leases of all maintenances of this process; what it remembers only spares requests and Events. */
export class NodeHolds {
  readonly #deps: HoldDeps;
  readonly #byMaintenance = new Map<string, NodeHold>();
  /** Node -> its Lease as we wrote it, until the informer has it. */
  readonly #written = new Map<string, Lease>();
  /** Node -> why its Lease could not be written, and when. */
  readonly #refused = new Map<string, { because: string; at: number }>();

  constructor(deps: HoldDeps) {
    this.#deps = deps;
    deps.cluster.leases.subscribe(({ type, object }) => {
      if (type === 'Deleted') this.#written.delete(object.metadata.name);
    });
  }

  of(uid: string): NodeHold {
    const known = this.#byMaintenance.get(uid) ?? new NodeHold(this, this.#deps);
    this.#byMaintenance.set(uid, known);
    return known;
  }

  forget(uid: string): void {
    this.#byMaintenance.delete(uid);
  }

  /** Whether a node may be touched at this moment. */
  isHeld(node: string): boolean {
    return isHeldBy(this.#newest(node), this.#deps.leases.holder, this.#now());
  }

  /** Who else has it, as far as is known without asking; undefined when it is worth an attempt. */
  whyNot(node: string): string | undefined {
    const refused = this.#refused.get(node);
    if (refused !== undefined && Date.now() - refused.at < refusalRetry && !this.isHeld(node))
      return refused.because;
    const state = leaseStateOf(this.#newest(node), this.#now());
    const isForeign = state.kind === 'Held' && state.holder !== this.#deps.leases.holder;
    return isForeign || state.kind === 'HeldByAdministrator' ? heldByAnother(state.holder) : undefined;
  }

  /** Takes or renews the Lease of one node; resolves with the reason when it is not to be had. */
  async acquire(node: string): Promise<string | undefined> {
    try {
      const acquisition = await this.#deps.leases.acquire(node);
      this.#refused.delete(node);
      if (acquisition.kind === 'Held') this.#written.set(node, acquisition.lease);
      else this.#written.delete(node);
      return acquisition.kind === 'Held' ? undefined : heldByAnother(acquisition.holder);
    } catch (error) {
      // Whoever does not answer at all is waited out; what is refused concerns this node alone.
      if (isKubeError(error, 'Unavailable', 'Throttled')) throw error;
      const because = `it cannot be written, ${wordsOf(error)}`;
      this.#refused.set(node, { because, at: Date.now() });
      // What could not be renewed is ours until it runs out.
      return this.isHeld(node) ? undefined : because;
    }
  }

  #newest(node: string): Readonly<Lease> | undefined {
    const seen = this.#deps.cluster.leases.get(`${NODE_LEASE_NAMESPACE}/${node}`);
    const written = this.#written.get(node);
    if (written === undefined) return seen;
    if (seen === undefined || versionOf(seen) < versionOf(written)) return written;
    this.#written.delete(node);
    return seen;
  }

  #now(): number {
    return this.#deps.cluster.kube.now().getTime();
  }
}

/** The Leases of the nodes of one maintenance. */
class NodeHold {
  readonly #all: NodeHolds;
  readonly #deps: HoldDeps;
  /**
   * Nodes whose Lease was written for this maintenance. That it is ours through another one is not enough: that one may be
   * releasing it at this moment, which our write prevents.
   */
  readonly #joined = new Set<string>();
  /** Node -> why it is withheld, as it was told last. */
  readonly #told = new Map<string, string>();

  constructor(all: NodeHolds, deps: HoldDeps) {
    this.#all = all;
    this.#deps = deps;
  }

  /** Whether this maintenance may touch the node at this moment. */
  isHeld(name: string): boolean {
    return this.#joined.has(name) && this.#all.isHeld(name);
  }

  /** Takes the Leases that nobody else holds. Writes nothing for those that are ours already. */
  take(maintenance: NodeMaintenance, nodes: readonly Node[]): Promise<Hold> {
    return this.#hold(maintenance, nodes, (name) => this.isHeld(name));
  }

  /** Takes the Leases that nobody else holds, and renews those that are ours. */
  renew(maintenance: NodeMaintenance, nodes: readonly Node[]): Promise<Hold> {
    return this.#hold(maintenance, nodes, () => false);
  }

  async #hold(
    maintenance: NodeMaintenance,
    nodes: readonly Node[],
    isEnough: (name: string) => boolean,
  ): Promise<Hold> {
    const held = new Set<string>();
    const withheld: WithheldNode[] = [];
    const names = nodes.map((node) => node.metadata.name);
    await forEachBounded(leasesAtOnce, names, async (name) => {
      if (isEnough(name)) return held.add(name);
      const because = this.#all.whyNot(name) ?? (await this.#all.acquire(name));
      return because === undefined ? held.add(name) : withheld.push({ name, because });
    });
    withheld.sort((a, b) => compareNames(a.name, b.name));
    this.#tell(maintenance, withheld);
    this.#joined.clear();
    for (const name of held) this.#joined.add(name);
    return { held, withheld };
  }

  /** Each thing once: who has what, and what was lost to whom. */
  #tell(maintenance: NodeMaintenance, withheld: readonly WithheldNode[]): void {
    const news = withheld.filter(({ name, because }) => this.#told.get(name) !== because);
    for (const isLost of [true, false]) {
      const concerned = news.filter(({ name }) => this.#joined.has(name) === isLost);
      for (const because of new Set(concerned.map((node) => node.because))) {
        const names = concerned.filter((node) => node.because === because).map(({ name }) => name);
        this.#deps.events.record(
          maintenance,
          isLost ? leaseLost(names, because) : leaseAwaited(names, because),
        );
      }
    }
    this.#told.clear();
    for (const { name, because } of withheld) this.#told.set(name, because);
  }
}

function leaseAwaited(names: readonly string[], because: string) {
  const message = `The maintenance Lease of ${listed(names)} is waited for: ${because}. Nothing is done there meanwhile.`;
  return { type: 'Normal', reason: 'WaitingForNodeLease', message } as const;
}

function leaseLost(names: readonly string[], because: string) {
  const message = `The maintenance Lease of ${listed(names)} was lost: ${because}. Nothing new begins there until it is ours again.`;
  return { type: 'Warning', reason: 'NodeLeaseLost', message } as const;
}
