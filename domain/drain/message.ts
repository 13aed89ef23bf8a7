import { compareNames, listed, shortened } from '../common/names.ts';
import { podName } from '../common/pod.ts';
import { type Contention, type NodeContention, nodeContentionsOf } from './contention.ts';
import { type DrainTargets, exceeds, join } from './targets.ts';

/** Returns the drain message of each node of a maintenance, as in KEP-4212 > Pod Selection and DrainTargets Example. */
export function drainMessages(contention: Contention, maintenance: string): Map<string, string> {
  const awaited = awaitedNodes(contention, maintenance);
  const waiting =
    awaited.length === 0 ? undefined : `Waiting for ${groupedByMaintenance(awaited, maintenance)}.`;
  return new Map(
    nodeContentionsOf(contention, maintenance).map((own) => [own.node.name, messageOf(own, waiting)]),
  );
}

function messageOf(own: NodeContention, waiting: string | undefined): string {
  const { node, limitedBy } = own;
  if (node.targetedPods === 0 && waiting !== undefined) return waiting;
  if (limitedBy.length > 0) return `Evacuating (limited by ${listed(limitedBy.map(shortened))})`;
  if (node.targetedPods > 0 && isFastForwarded(own)) return `Evacuating (${fastForwardedBy(own)})`;
  if (node.evacuable.length > 0) return 'Evacuating';
  return node.remaining.length > 0
    ? `Drained, left running: ${listed(node.remaining.map(({ pod }) => shortened(podName(pod))))}.`
    : 'Drained';
}

/** Returns true if the targets of the node exceed those that the maintenance has at its position. */
export function isFastForwarded({ node, desired }: NodeContention): boolean {
  return exceeds(node.targets, desired);
}

/**
 * Returns `fast-forwarded by older maintenance-b`. Names the maintenances that desire the reached targets and nothing beyond them, or all
 * maintenances that desire the reached targets if each of them desires more.
 */
export function fastForwardedBy({ node, maintenance, desired }: NodeContention): string {
  const others = [...node.demands.values()].filter((other) => other.maintenance.name !== maintenance.name);
  const ahead = others.filter((other) => !exceeds(beyond(node.targets, desired), other.desired));
  const exact = ahead.filter((other) => !exceeds(other.desired, join([node.targets, desired])));
  const names = (exact.length > 0 ? exact : ahead).map((other) => other.maintenance).toSorted(byName);
  if (names.length === 0) return 'fast-forwarded';
  const areOlder = names.every(({ createdAt }) => compareNames(createdAt, maintenance.createdAt) <= 0);
  return `fast-forwarded by ${areOlder ? 'older ' : ''}${listed(names.map(({ name }) => shortened(name)))}`;
}

function beyond(targets: DrainTargets, bound: DrainTargets): DrainTargets {
  return targets.filter((entry) => exceeds([entry], bound));
}

function byName(a: { name: string }, b: { name: string }): number {
  return compareNames(a.name, b.name);
}

interface AwaitedNode {
  node: string;
  maintenance: string;
}

/**
 * Returns the nodes with targeted pods that a maintenance waits for: its own nodes and, where other maintenances hold its pods back, the
 * nodes that these wait for. Visits every maintenance once.
 */
function awaitedNodes(contention: Contention, maintenance: string): AwaitedNode[] {
  const visited = new Set([maintenance]);
  const awaited: AwaitedNode[] = [];
  for (const name of visited) {
    const unfinished = nodeContentionsOf(contention, name).filter(({ desiredPods }) => desiredPods > 0);
    const evacuating = unfinished.filter(({ node }) => node.targetedPods > 0);
    const heldBack = unfinished.filter(({ node }) => node.targetedPods === 0);
    awaited.push(...evacuating.map(({ node }) => ({ node: node.name, maintenance: name })));
    for (const other of heldBack.flatMap(({ limitedBy }) => limitedBy)) visited.add(other);
  }
  return awaited;
}

/** Maximum number of nodes that a message names. */
const maxNodes = 3;

/**
 * Formats `node one`, `nodes one, two`, `node two (maintenance-a)`, `nodes one, two, three and 7 more`. The maintenance's own nodes come first,
 * without its name.
 */
function groupedByMaintenance(awaited: readonly AwaitedNode[], own: string): string {
  const byKey = new Map(awaited.map((one) => [`${one.maintenance} ${one.node}`, one] as const));
  const sorted = [...byKey.values()].toSorted(
    (a, b) =>
      Number(a.maintenance !== own) - Number(b.maintenance !== own) ||
      compareNames(a.maintenance, b.maintenance) ||
      compareNames(a.node, b.node),
  );
  const shown = Map.groupBy(sorted.slice(0, maxNodes), ({ maintenance }) => maintenance);
  const groups = [...shown].map(([maintenance, nodes]) => {
    const names = nodes.map(({ node }) => shortened(node)).join(', ');
    const list = `${nodes.length > 1 ? 'nodes' : 'node'} ${names}`;
    return maintenance === own ? list : `${list} (${shortened(maintenance)})`;
  });
  const more = sorted.length - maxNodes;
  return more > 0 ? `${groups.join(', ')} and ${more} more` : groups.join(', ');
}
