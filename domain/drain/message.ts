import { compareNames, listed } from '../common/names.ts';
import { podName } from '../common/pod.ts';
import { type Contention, type NodeContention, nodeContentionsOf } from './contention.ts';
import { type DrainTargets, exceeds, join } from './targets.ts';

/** Limits the size of the status, which has one message for each of up to thousands of nodes. */
const maxMessageLength = 512;

/** Returns the drain message of each node of a maintenance, as in KEP-4212 > Pod Selection and DrainTargets Example. */
export function drainMessages(contention: Contention, maintenance: string): Map<string, string> {
  const awaited = awaitedNodes(contention, maintenance);
  const waiting =
    awaited.length === 0 ? undefined : `Waiting for ${groupedByMaintenance(awaited, maintenance)}.`;
  return new Map(
    nodeContentionsOf(contention, maintenance).map((own) => {
      const message = messageOf(own, waiting);
      const isLong = message.length > maxMessageLength;
      return [own.node.name, isLong ? `${message.slice(0, maxMessageLength - 3)}...` : message];
    }),
  );
}

function messageOf(own: NodeContention, waiting: string | undefined): string {
  const { node, limitedBy } = own;
  if (node.targetedPods === 0 && waiting !== undefined) return waiting;
  if (limitedBy.length > 0) return `Evacuating (limited by ${listed(limitedBy)})`;
  if (node.targetedPods > 0 && isFastForwarded(own)) return `Evacuating (${fastForwardedBy(own)})`;
  if (node.evacuable.length > 0) return 'Evacuating';
  return node.remaining.length > 0
    ? `Drained, left running: ${listed(node.remaining.map(({ pod }) => podName(pod)))}.`
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
  return `fast-forwarded by ${areOlder ? 'older ' : ''}${listed(names.map(({ name }) => name))}`;
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

/** Formats `node one`, `nodes one, two`, `node two (maintenance-a)`. The maintenance's own nodes come first, without its name. */
function groupedByMaintenance(awaited: readonly AwaitedNode[], own: string): string {
  const names = [...new Set(awaited.map(({ maintenance }) => maintenance))].toSorted(
    (a, b) => Number(a !== own) - Number(b !== own) || compareNames(a, b),
  );
  const groups = names.map((name) => {
    const nodes = new Set(awaited.filter(({ maintenance }) => maintenance === name).map(({ node }) => node));
    const list = `${nodes.size > 1 ? 'nodes' : 'node'} ${listed([...nodes].toSorted(compareNames))}`;
    return name === own ? list : `${list} (${name})`;
  });
  return groups.join(', ');
}
