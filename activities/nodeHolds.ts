import type { Lease, Node } from '../api/core.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { isCordoned } from '../domain/cordon.ts';
import { isHeldBy, leaseStateOf } from '../domain/lease.ts';
import { type Glance, glanceAt } from '../domain/glance.ts';
import { compareNames, listed } from '../domain/names.ts';
import { heldByAnother, leasesRefused, type WaitingNode } from '../domain/nodeHold.ts';
import { holdsNodes, stageOf } from '../domain/stage.ts';
import { isTouched } from '../domain/status.ts';
import { forEachBounded } from '../kube/bounded.ts';
import { leaseOf } from '../kube/cluster.ts';
import { isKubeError, wordsOf } from '../kube/errors.ts';
import { resources, versionOf } from '../kube/resources.ts';
import type { MaintenanceRef } from './contract.ts';
import type { Deps } from './deps.ts';
import { LookAgain } from './reconcile.ts';
import { namesOf, nodeStatusOf, selectedNodes, type View } from './view.ts';

const leasesAtOnce = 16;
/** What was refused is tried again after so long. Milliseconds. */
const refusalRetry = 10_000;
/** A Lease of which less than this part of its duration is left is renewed by whoever sees it, without waiting for the timer. */
const lastPart = 1 / 4;

/** Which nodes of a maintenance may be touched, and why not the others. */
interface Hold {
  held: ReadonlySet<string>;
  /** In order of their names. */
  waiting: readonly WaitingNode[];
  /** Whether anything was written to know that. */
  isNew: boolean;
}

/** A view, divided into what may be touched and what not. */
export interface HeldView extends View {
  /** The nodes whose maintenance Leases are ours. */
  held: readonly Node[];
  waiting: readonly WaitingNode[];
}

type HoldDeps = Pick<Deps, 'cluster' | 'events' | 'leases'>;

/**
 * Takes and renews the Leases of the nodes of a maintenance that is in Cordon or Drain; asked for by the workflow's durable
 * timer. A third of the duration leaves two more attempts before they run out. The page of the run is told what there is, as it
 * costs no further event.
 */
export async function renewNodeLeases(
  deps: Deps,
  ref: MaintenanceRef,
): Promise<{ renewAfterSeconds: number; glance?: Glance }> {
  const { cluster, leases, holds } = deps;
  try {
    const maintenance =
      cluster.maintenances.get(ref.name) ??
      (await cluster.kube.get(resources.nodeMaintenances, { name: ref.name }));
    if (maintenance?.metadata.uid === ref.uid && holdsNodes(stageOf(maintenance)))
      await holds.of(ref.uid).renew(maintenance, nodesToHold(maintenance, cluster.nodes.list()));
  } catch (error) {
    // Another stage: whatever works for it takes the Leases itself.
    if (!(error instanceof LookAgain)) throw error;
  }
  const seen = cluster.maintenances.get(ref.name);
  return {
    renewAfterSeconds: leases.leaseDurationSeconds / 3,
    ...(seen?.metadata.uid === ref.uid && { glance: glanceAt(seen, cluster.kube.now().toISOString()) }),
  };
}

/** Takes the Leases of the nodes of a view. */
export async function holdNodes({ holds }: Pick<Deps, 'holds'>, view: View): Promise<HeldView> {
  const { maintenance, nodes, existing } = view;
  const hold = holds.of(maintenance.metadata.uid ?? '');
  const { held, waiting } = await hold.take(maintenance, nodesToHold(maintenance, existing));
  const selected = namesOf(nodes);
  return {
    ...view,
    held: nodes.filter((node) => held.has(node.metadata.name)),
    waiting: waiting.filter(({ name }) => selected.has(name)),
  };
}

/** Those that are selected, and those that have ceased to be and are still cordoned for the maintenance. */
function nodesToHold(maintenance: NodeMaintenance, existing: readonly Node[]): Node[] {
  const selected = namesOf(selectedNodes(maintenance, existing));
  return existing.filter(
    (node) =>
      selected.has(node.metadata.name) || (isCordoned(node) && isTouched(nodeStatusOf(maintenance, node))),
  );
}

/** The node Leases of all maintenances of this process; what it remembers only spares requests and Events. */
export class NodeHolds {
  readonly #deps: HoldDeps;
  readonly #byMaintenance = new Map<string, NodeHold>();
  /** Node -> its Lease as we wrote it, until the informer has it. */
  readonly #written = new Map<string, Lease>();
  /** Node, or '' for all of them -> why Leases could not be written, and when. */
  readonly #refusals = new Map<string, { because: string; at: number }>();

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

  /** Whether a node may be touched at this moment, and for so many seconds more. */
  isHeld(node: string, seconds = 0): boolean {
    return isHeldBy(this.#newest(node), this.#deps.leases.holder, this.#now() + seconds * 1_000);
  }

  /** Whether the Lease of a node may be had, as far as is known without asking. */
  isWorthAnAttempt(node: string): boolean {
    return this.#refusalOf(node) === undefined && this.#foreignHolder(node) === undefined;
  }

  /** Takes or renews the Lease of one node, if that is worth an attempt; resolves with the reason when it is not ours then. */
  async obtain(node: string): Promise<string | undefined> {
    const refusal = this.#refusalOf(node);
    // What cannot be renewed is ours until it runs out.
    if (refusal !== undefined) return this.isHeld(node) ? undefined : refusal;
    const foreign = this.#foreignHolder(node);
    return foreign === undefined ? this.#acquire(node) : heldByAnother(foreign);
  }

  async #acquire(node: string): Promise<string | undefined> {
    try {
      const acquisition = await this.#deps.leases.acquire(node);
      this.#refusals.clear();
      if (acquisition.kind === 'Held') this.#written.set(node, acquisition.lease);
      else this.#written.delete(node);
      return acquisition.kind === 'Held' ? undefined : heldByAnother(acquisition.holder);
    } catch (error) {
      // Whoever does not answer at all is waited out.
      if (isKubeError(error, 'Unavailable', 'Throttled')) throw error;
      this.#noteRefusal(node, error);
      return this.isHeld(node) ? undefined : this.#refusalOf(node);
    }
  }

  /** What concerns the namespace concerns all nodes: neither attempts nor Events are made for each. */
  #noteRefusal(node: string, error: unknown): void {
    const concernsAll = isKubeError(error, 'Forbidden', 'NotFound', 'NamespaceTerminating');
    const because = concernsAll ? leasesRefused : `it cannot be written, ${wordsOf(error)}`;
    this.#refusals.set(concernsAll ? '' : node, { because, at: Date.now() });
  }

  #refusalOf(node: string): string | undefined {
    const refusal = this.#refusals.get('') ?? this.#refusals.get(node);
    return refusal !== undefined && Date.now() - refusal.at < refusalRetry ? refusal.because : undefined;
  }

  #foreignHolder(node: string): string | undefined {
    const state = leaseStateOf(this.#newest(node), this.#now());
    const isForeign = state.kind === 'Held' && state.holder !== this.#deps.leases.holder;
    return isForeign || state.kind === 'HeldByAdministrator' ? state.holder : undefined;
  }

  #newest(node: string): Readonly<Lease> | undefined {
    const seen = leaseOf(this.#deps.cluster, node);
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
  /** Node -> why it is waited for, as it was told last. */
  readonly #told = new Map<string, string>();

  constructor(all: NodeHolds, deps: HoldDeps) {
    this.#all = all;
    this.#deps = deps;
  }

  /** Whether this maintenance may touch the node at this moment. */
  isHeld(name: string): boolean {
    return this.#joined.has(name) && this.#all.isHeld(name);
  }

  /** Takes the Leases that nobody else holds. Writes nothing for those that are ours for a while. */
  take(maintenance: NodeMaintenance, nodes: readonly Node[]): Promise<Hold> {
    const enough = this.#deps.leases.leaseDurationSeconds * lastPart;
    return this.#hold(maintenance, nodes, (name) => this.#joined.has(name) && this.#all.isHeld(name, enough));
  }

  /** Takes the Leases that nobody else holds, and renews those that are ours. */
  renew(maintenance: NodeMaintenance, nodes: readonly Node[]): Promise<Hold> {
    return this.#hold(maintenance, nodes, () => false);
  }

  /**
   * Rejects with LookAgain when the maintenance has gone on to another stage, or is gone: a process that was stopped for a while knows only
   * what its informers had, and what it takes or cordons now nobody would give back.
   */
  async requireCurrent(seen: NodeMaintenance): Promise<void> {
    const { name, uid } = seen.metadata;
    const now = await this.#deps.cluster.kube.get(resources.nodeMaintenances, { name });
    const stages = [seen, ...(now === undefined ? [] : [now])].map(stageOf);
    const isSameStage = new Set(stages).size === 1 || stages.every(holdsNodes);
    if (now?.metadata.uid !== uid || !isSameStage)
      throw new LookAgain(`NodeMaintenance ${name} is not in stage ${stages[0]} any more`);
  }

  async #hold(
    maintenance: NodeMaintenance,
    nodes: readonly Node[],
    isEnough: (name: string) => boolean,
  ): Promise<Hold> {
    const names = nodes.map((node) => node.metadata.name);
    const held = new Set(names.filter(isEnough));
    const open = names.filter((name) => !held.has(name));
    const isNew = open.some((name) => this.#all.isWorthAnAttempt(name));
    if (isNew) await this.requireCurrent(maintenance);
    const waiting: WaitingNode[] = [];
    await forEachBounded(leasesAtOnce, open, async (name) => {
      const because = await this.#all.obtain(name);
      return because === undefined ? held.add(name) : waiting.push({ name, because });
    });
    waiting.sort((a, b) => compareNames(a.name, b.name));
    this.#tell(maintenance, waiting);
    this.#joined.clear();
    for (const name of held) this.#joined.add(name);
    return { held, waiting, isNew };
  }

  /** Each thing once: who has what, and what was lost to whom. */
  #tell(maintenance: NodeMaintenance, waiting: readonly WaitingNode[]): void {
    const news = waiting.filter(({ name, because }) => this.#told.get(name) !== because);
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
    for (const { name, because } of waiting) this.#told.set(name, because);
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
