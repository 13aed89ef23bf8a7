import type { Lease, Node } from '../api/core.ts';
import { NODE_LEASE_NAMESPACE } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { type GiveBack, giveBack } from '../domain/cordon.ts';
import { isHeldBy, isReleasable } from '../domain/lease.ts';
import type { WithheldNode } from '../domain/nodeHold.ts';
import { withWithheld } from '../domain/status.ts';
import { forEachBounded } from '../kube/bounded.ts';
import type { Kube } from '../kube/client.ts';
import { isKubeError } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import type { MaintenanceRef } from './contract.ts';
import { setUnschedulable } from './cordon.ts';
import type { Deps } from './deps.ts';
import { reconcile } from './reconcile.ts';
import { StatusWriter } from './statusWriter.ts';
import { nodeStatusOf, nodesOf, otherHolders } from './view.ts';

/** Nodes that are given back at the same time. */
const nodesAtOnce = 16;

/**
 * Sets "`.spec.unschedulable` back to false on all nodes ... unless there is [another] maintenance in progress"
 * (KEP-4212 > Uncordon (Complete)), and releases their Leases. A node that was cordoned for the maintenance and whose Lease
 * another has taken meanwhile stays as it is until that one lets go.
 */
export async function giveBackNodes(deps: Deps, ref: MaintenanceRef): Promise<void> {
  const { cluster, holds } = deps;
  let waiting: readonly WithheldNode[] | undefined;
  let writer: StatusWriter | undefined;
  const isWorthAnAttempt = ({ name }: WithheldNode) =>
    holds.whyNot(name) === undefined || cluster.nodes.get(name) === undefined;
  try {
    await reconcile<true>(
      cluster,
      () => false,
      async () => {
        if (waiting !== undefined && !waiting.some(isWorthAnAttempt)) return undefined;
        const turn = await giveBackOnce(deps, ref);
        if (turn === undefined || turn.waiting.length === 0) return true;
        ({ waiting } = turn);
        writer ??= new StatusWriter(cluster.kube, turn.maintenance, deps.lastWrites);
        const now = cluster.kube.now().toISOString();
        writer.publish((status) => withWithheld(status, turn.waiting, now));
        return undefined;
      },
    );
  } finally {
    await writer?.stop();
  }
}

/** What the apiserver has, not an informer: a node that was cordoned a moment ago must be seen as that. */
interface Sight {
  maintenance: NodeMaintenance;
  all: readonly NodeMaintenance[];
  nodes: readonly Node[];
  leases: ReadonlyMap<string, Lease>;
}

interface GivenBack {
  maintenance: NodeMaintenance;
  /** Nodes that are still to be given back. */
  waiting: WithheldNode[];
}

/** Gives back what can be given back now; undefined when the maintenance is no more. */
async function giveBackOnce(deps: Deps, ref: MaintenanceRef): Promise<GivenBack | undefined> {
  for (;;) {
    const before = await see(deps, ref);
    if (before === undefined) return undefined;
    const cordoned = before.nodes.filter((node) => decide(before, node).kind === 'Uncordon');
    const { withheld } = await deps.holds.of(ref.uid).take(before.maintenance, cordoned);
    const sight = await see(deps, ref);
    if (sight === undefined) return undefined;
    const untouchable = new Map(withheld.map((node) => [node.name, node] as const));
    const again: Node[] = [];
    await forEachBounded(nodesAtOnce, sight.nodes, async (node) => {
      if (untouchable.has(node.metadata.name)) return;
      if ((await giveBackNode(deps, sight, node)) === 'Again') again.push(node);
    });
    if (again.length > 0) continue;
    const isOurs = ({ name }: WithheldNode) => isTouched(sight, name);
    for (const node of withheld) if (!isOurs(node)) announceLeftAlone(deps, sight.maintenance, node);
    return { maintenance: sight.maintenance, waiting: withheld.filter(isOurs) };
  }
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

async function listLeases(kube: Kube): Promise<Map<string, Lease>> {
  try {
    const { items } = await kube.list(resources.leases, { namespace: NODE_LEASE_NAMESPACE });
    return new Map(items.map((lease) => [lease.metadata.name, lease] as const));
  } catch (error) {
    // Whoever may not see Leases has none, and nothing to release; that the nodes wait, their status says.
    if (isKubeError(error, 'Forbidden')) return new Map();
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

/** Whether the node was cordoned for the maintenance: what it was before is on record first. */
function isTouched({ maintenance }: Sight, name: string): boolean {
  const record = maintenance.status?.nodeStatuses.find(({ nodeRef }) => nodeRef.name === name);
  return record?.unschedulableBefore !== undefined;
}

/** `Again`: what was seen is not true any more. */
async function giveBackNode(deps: Deps, sight: Sight, node: Node): Promise<'Done' | 'Again'> {
  const decision = decide(sight, node);
  const lease = sight.leases.get(node.metadata.name);
  const { holder } = deps.leases;
  if (decision.kind === 'HeldBy' || decision.kind === 'CordonedBefore')
    announceLeftUnschedulable(deps, sight.maintenance, node, decision);
  if (decision.kind === 'HeldBy') return 'Done';
  if (decision.kind === 'Uncordon') {
    if (!isHeldBy(lease, holder, deps.cluster.kube.now().getTime())) return 'Again';
    await setUnschedulable(deps, node, false);
  }
  if (lease === undefined || !isReleasable(lease, holder)) return 'Done';
  const isNeeded = otherHolders(sight.all, sight.maintenance.metadata.uid ?? '', node).length > 0;
  if (isNeeded) return 'Done';
  return (await deps.leases.releaseAsSeen(lease)) === 'Released' ? 'Done' : 'Again';
}

function announceLeftUnschedulable(
  { events }: Deps,
  maintenance: NodeMaintenance,
  node: Node,
  decision: Extract<GiveBack, { kind: 'HeldBy' | 'CordonedBefore' }>,
): void {
  const { name } = node.metadata;
  events.record(
    maintenance,
    decision.kind === 'HeldBy'
      ? {
          type: 'Normal',
          reason: 'NodeStillHeld',
          message: `Node ${name} stays unschedulable: ${decision.maintenances.join(', ')} still holds it.`,
        }
      : {
          type: 'Normal',
          reason: 'NodeLeftUnschedulable',
          message: `Node ${name} stays unschedulable: it was so before this maintenance. kubectl uncordon ${name} when it may take pods.`,
        },
  );
}

function announceLeftAlone(
  { events }: Deps,
  maintenance: NodeMaintenance,
  { name, because }: WithheldNode,
): void {
  const message = `Node ${name} stays as it is: this maintenance has not touched it, and its maintenance Lease is ${because}.`;
  events.record(maintenance, { type: 'Normal', reason: 'NodeLeftAlone', message });
}
