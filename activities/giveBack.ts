import type { Lease, Node } from '../api/core.ts';
import { NODE_LEASE_NAMESPACE } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { type GiveBack, giveBack, isCordoned } from '../domain/cordon.ts';
import { isHeldBy, isReleasable } from '../domain/lease.ts';
import { leasesRefused, type WaitingNode } from '../domain/nodeHold.ts';
import { withGivingBack } from '../domain/status.ts';
import { forEachBounded } from '../kube/bounded.ts';
import type { Kube } from '../kube/client.ts';
import { isKubeError } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import type { MaintenanceRef } from './contract.ts';
import { setUnschedulable } from './cordon.ts';
import type { Deps } from './deps.ts';
import { keepClosed } from './readinessTaint.ts';
import { reconcile } from './reconcile.ts';
import { StatusWriter } from './statusWriter.ts';
import { nodeStatusOf, nodesOf, otherHolders } from './view.ts';

/** Nodes that are given back at the same time. */
const nodesAtOnce = 16;
/** Without the right to see Leases it is tried again after so long. Milliseconds. */
const blindRetry = 10_000;

/**
 * Sets "`.spec.unschedulable` back to false on all nodes ... unless there is [another] maintenance in progress"
 * (KEP-4212 > Uncordon (Complete)), and releases their Leases. A node that was cordoned for the maintenance and whose Lease
 * another has taken meanwhile stays as it is until that one lets go.
 */
export async function giveBackNodes(deps: Deps, ref: MaintenanceRef): Promise<void> {
  const { cluster } = deps;
  const announcer = new Announcer(deps);
  let turn: GivenBack | undefined;
  let writer: StatusWriter | undefined;
  try {
    await reconcile<true>(
      cluster,
      () => false,
      async () => {
        if (turn !== undefined && !isDue(deps, turn)) return undefined;
        turn = await giveBackOnce(deps, ref, announcer);
        if (turn === undefined) return true;
        const { maintenance, waiting } = turn;
        writer ??= new StatusWriter(cluster.kube, maintenance, deps.lastWrites);
        writer.see(maintenance);
        const now = cluster.kube.now().toISOString();
        writer.publish((status) => withGivingBack(status, waiting, now));
        if (waiting.length > 0) return undefined;
        await writer.flush();
        return true;
      },
    );
  } finally {
    await writer?.stop();
  }
}

/** Whether there may be something to do about a node that is waited for: its Lease may be had, or nothing is left to undo. */
function isDue({ cluster, holds }: Deps, { waiting, isBlind, at }: GivenBack): boolean {
  if (isBlind && Date.now() - at < blindRetry) return false;
  return waiting.some(({ name }) => {
    const node = cluster.nodes.get(name);
    return node === undefined || !isCordoned(node) || holds.isWorthAnAttempt(name);
  });
}

/** What the apiserver has, not an informer: a node that was cordoned a moment ago must be seen as that. */
interface Sight {
  maintenance: NodeMaintenance;
  all: readonly NodeMaintenance[];
  nodes: readonly Node[];
  /** Undefined for whoever may not see Leases. */
  leases: ReadonlyMap<string, Lease> | undefined;
}

interface GivenBack {
  maintenance: NodeMaintenance;
  /** Nodes that are still to be given back. */
  waiting: readonly WaitingNode[];
  /** Leases could not be seen. */
  isBlind: boolean;
  /** Date.now() */
  at: number;
}

/** Gives back what can be given back now; undefined when the maintenance is no more. */
async function giveBackOnce(
  deps: Deps,
  ref: MaintenanceRef,
  announcer: Announcer,
): Promise<GivenBack | undefined> {
  const hold = deps.holds.of(ref.uid);
  const before = await see(deps, ref);
  if (before === undefined) return undefined;
  const cordoned = before.nodes.filter((node) => decide(before, node).kind === 'Uncordon');
  const { waiting, isNew } = await hold.take(before.maintenance, cordoned);
  const sight = isNew ? await see(deps, ref) : before;
  if (sight === undefined) return undefined;
  const untouchable = new Set(waiting.map(({ name }) => name));
  const again: WaitingNode[] = [];
  await forEachBounded(nodesAtOnce, sight.nodes, async (node) => {
    const { name } = node.metadata;
    if (untouchable.has(name)) return;
    const because = await giveBackNode(deps, sight, node, announcer);
    if (because !== undefined) again.push({ name, because });
  });
  const isBlind = sight.leases === undefined;
  return { maintenance: sight.maintenance, waiting: [...waiting, ...again], isBlind, at: Date.now() };
}

/**
 * Leases are read before the maintenances: one that has joined since has written its Lease since, so that ours can no longer
 * be released as seen; one that joined before is seen. Of two that complete together, the later one sees that the other holds
 * the node no longer.
 */
async function see({ cluster: { kube } }: Deps, ref: MaintenanceRef): Promise<Sight | undefined> {
  const [leases, { items: existing }] = await Promise.all([listLeases(kube), kube.list(resources.nodes)]);
  const { items: all } = await kube.list(resources.nodeMaintenances);
  const maintenance = all.find((one) => one.metadata.uid === ref.uid);
  return maintenance && { maintenance, all, leases, nodes: nodesOf(maintenance, existing) };
}

async function listLeases(kube: Kube): Promise<ReadonlyMap<string, Lease> | undefined> {
  try {
    const { items } = await kube.list(resources.leases, { namespace: NODE_LEASE_NAMESPACE });
    return new Map(items.map((lease) => [lease.metadata.name, lease] as const));
  } catch (error) {
    if (isKubeError(error, 'Forbidden')) return undefined;
    throw error;
  }
}

function decide({ maintenance, all }: Sight, node: Node): GiveBack {
  const others = otherHolders(all, maintenance.metadata.uid ?? '', node);
  return giveBack(
    node,
    nodeStatusOf(maintenance, node),
    others.map((other) => other.metadata.name),
  );
}

/** Resolves with the reason when the node has still to be given back: what was seen of its Lease is not, or not any more, so. */
async function giveBackNode(
  deps: Deps,
  sight: Sight,
  node: Node,
  announcer: Announcer,
): Promise<string | undefined> {
  const { name } = node.metadata;
  const { uid = '' } = sight.maintenance.metadata;
  const decision = decide(sight, node);
  const lease = sight.leases?.get(name);
  announcer.announce(sight.maintenance, node, decision);
  if (decision.kind === 'Uncordon') {
    if (sight.leases === undefined) return leasesRefused;
    const isOurs = isHeldBy(lease, deps.leases.holder, deps.cluster.kube.now().getTime());
    if (!isOurs || !deps.holds.of(uid).isHeld(name)) return 'it was lost a moment ago';
    await keepClosed(deps, node);
    await setUnschedulable(deps, node, false);
  }
  const isNeeded = otherHolders(sight.all, uid, node).length > 0;
  if (isNeeded || lease === undefined || !isReleasable(lease, deps.leases.holder)) return undefined;
  const released = await deps.leases.releaseAsSeen(lease);
  return released === 'Released' ? undefined : 'it was written a moment ago, and is still to be released';
}

/** Tells which nodes are left as they are, each once. */
class Announcer {
  readonly #events: Deps['events'];
  readonly #said = new Set<string>();

  constructor({ events }: Pick<Deps, 'events'>) {
    this.#events = events;
  }

  announce(maintenance: NodeMaintenance, { metadata: { name } }: Node, decision: GiveBack): void {
    const news = newsOf(name, decision);
    if (news === undefined || this.#said.has(news.message)) return;
    this.#said.add(news.message);
    this.#events.record(maintenance, { type: 'Normal', ...news });
  }
}

function newsOf(name: string, decision: GiveBack): { reason: string; message: string } | undefined {
  const stays = `Node ${name} stays unschedulable:`;
  switch (decision.kind) {
    case 'HeldBy':
      return {
        reason: 'NodeStillHeld',
        message: `${stays} ${decision.maintenances.join(', ')} still holds it.`,
      };
    case 'CordonedBefore':
      return {
        reason: 'NodeLeftUnschedulable',
        message: `${stays} it was so before this maintenance. kubectl uncordon ${name} when it may take pods.`,
      };
    case 'NeverTouched':
      return {
        reason: 'NodeLeftAlone',
        message: `${stays} this maintenance has waited for it, and never touched it.`,
      };
    default:
      return undefined;
  }
}
