import { type Contention, type StandingOnNode, standingsOf } from './contention.ts';
import { type DrainTargets, exceeds, join } from './drainTargets.ts';
import { compareNames, listed } from './names.ts';
import { podName } from './pod.ts';

/** A status has one message for each node, of which there may be a thousand. Characters. */
const longestMessage = 512;

/**
 * The state of the drain on each node of a maintenance, in the words of KEP-4212 > Pod Selection and DrainTargets Example.
 */
export function drainMessages(contention: Contention, maintenance: string): Map<string, string> {
  const awaited = awaitedNodes(contention, maintenance);
  const waiting =
    awaited.length === 0 ? undefined : `Waiting for ${groupedByMaintenance(awaited, maintenance)}.`;
  return new Map(
    standingsOf(contention, maintenance).map((standing) => {
      const message = messageOf(standing, waiting);
      const isLong = message.length > longestMessage;
      return [standing.node.name, isLong ? `${message.slice(0, longestMessage - 3)}...` : message];
    }),
  );
}

function messageOf(standing: StandingOnNode, waiting: string | undefined): string {
  const { node, limitedBy } = standing;
  if (node.leaving === 0 && waiting !== undefined) return waiting;
  if (limitedBy.length > 0) return `Evacuating (limited by ${listed(limitedBy)})`;
  if (node.leaving > 0 && isFastForwarded(standing)) return `Evacuating (${fastForwardedBy(standing)})`;
  if (node.evacuable.length > 0) return 'Evacuating';
  return node.remaining.length > 0
    ? `Drained, left running: ${listed(node.remaining.map(({ pod }) => podName(pod)))}.`
    : 'Drained';
}

/** Whether the node is beyond what the maintenance asks for at its position. */
export function isFastForwarded({ node, wish }: StandingOnNode): boolean {
  return exceeds(node.targets, wish);
}

/**
 * `fast-forwarded by older maintenance-b`: among the maintenances that want the node as far as it is, those that want
 * it no further, or all of them when each wants it further.
 */
export function fastForwardedBy({ node, maintenance, wish }: StandingOnNode): string {
  const others = [...node.standings.values()].filter((other) => other.maintenance.name !== maintenance.name);
  const ahead = others.filter((other) => !exceeds(beyond(node.targets, wish), other.wish));
  const exact = ahead.filter((other) => !exceeds(other.wish, join([node.targets, wish])));
  const names = (exact.length > 0 ? exact : ahead).map((other) => other.maintenance).toSorted(byName);
  if (names.length === 0) return 'fast-forwarded';
  const areOlder = names.every(({ createdAt }) => compareNames(createdAt, maintenance.createdAt) <= 0);
  return `fast-forwarded by ${areOlder ? 'older ' : ''}${listed(names.map(({ name }) => name))}`;
}

function beyond(targets: DrainTargets, wish: DrainTargets): DrainTargets {
  return targets.filter((entry) => exceeds([entry], wish));
}

function byName(a: { name: string }, b: { name: string }): number {
  return compareNames(a.name, b.name);
}

interface AwaitedNode {
  node: string;
  maintenance: string;
}

/**
 * The nodes on which pods are leaving for which a maintenance waits: its own, and where others hold its pods back, the
 * ones for which these others wait. Every maintenance is asked once.
 */
function awaitedNodes(contention: Contention, maintenance: string): AwaitedNode[] {
  const asked = new Set([maintenance]);
  const awaited: AwaitedNode[] = [];
  for (const name of asked) {
    const unfinished = standingsOf(contention, name).filter(({ wanted }) => wanted > 0);
    const leaving = unfinished.filter(({ node }) => node.leaving > 0);
    const heldBack = unfinished.filter(({ node }) => node.leaving === 0);
    awaited.push(...leaving.map(({ node }) => ({ node: node.name, maintenance: name })));
    for (const other of heldBack.flatMap(({ limitedBy }) => limitedBy)) asked.add(other);
  }
  return awaited;
}

/** `node one`, `nodes one, two`, `node two (maintenance-a)`; the maintenance's own nodes come first, without its name. */
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
