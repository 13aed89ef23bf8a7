import type { Node } from '../api/core.ts';
import { leaseHolderOf, SYSTEM_NAMESPACE } from '../api/names.ts';
import type { NodeChange, Recording } from './recording.ts';
import type { Row } from './table.ts';

/** What every story proves, from what the API showed. */

/** Most facts are a text that has to be the expected one. */
export function same(fact: string, expected: string, seen: string): Row {
  return { fact, expected, seen, holds: seen === expected };
}

/** Two groups of workloads, by name. */
export interface Order {
  first: readonly string[];
  second: readonly string[];
}

/** By etcd's own clock: no pod of the second group was asked to leave before the last of the first was gone. */
export function orderRow(fact: string, { first, second }: Order, recording: Recording): Row {
  const { departures, evacuations } = recording;
  const gone = departures
    .filter(({ app }) => first.includes(app))
    .map(({ revision }) => revision)
    .reduce((a, b) => (a > b ? a : b), 0n);
  const uids = new Set(departures.filter(({ app }) => second.includes(app)).map(({ podUid }) => podUid));
  const begun = evacuations
    .filter(({ podUid }) => uids.has(podUid))
    .map(({ revision }) => revision)
    .reduce<bigint | undefined>((a, b) => (a === undefined || b < a ? b : a), undefined);
  return {
    fact,
    expected: `after revision ${gone}`,
    seen: begun === undefined ? 'never' : `revision ${begun}`,
    holds: gone > 0n && begun !== undefined && begun > gone,
  };
}

export function evacuationsRow({ departures, evacuations }: Recording, leaving: number): Row {
  const evacuated = new Set(evacuations.map(({ podUid }) => podUid));
  const left = departures.filter(({ podUid }) => evacuated.has(podUid)).length;
  return same(
    'Each pod that left had one Evacuation',
    `${leaving} pods, ${leaving} Evacuations`,
    `${left} pods, ${evacuations.length} Evacuations`,
  );
}

/** The apiserver's own count of requests to the eviction API since it started. */
export interface Evictions {
  accepted: number;
  /** By a PodDisruptionBudget. */
  refused: number;
  /** The asker was gone before the answer: the pod may have been evicted, or not. */
  cutOff: number;
}

/** Reads the apiserver's metrics (Prometheus' text format). */
export function countEvictions(metrics: string): Evictions {
  const lines = metrics.split('\n').filter((line) => line.startsWith('apiserver_request_total{'));
  const evictions = lines.filter((line) => line.includes('subresource="eviction"'));
  const withCode = (code: number) =>
    evictions
      .filter((line) => line.includes(`code="${code}"`))
      .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(' '))), 0);
  // The apiserver counts a request whose client went away as a timeout, even if it was carried out.
  return { accepted: withCode(201), refused: withCode(429), cutOff: withCode(504) };
}

/** More accepted evictions than pods would be a second one for some pod. */
export function evictionsRow({ accepted, refused, cutOff }: Evictions, leaving: number): Row {
  const others = [
    refused > 0 ? `${refused} refused` : undefined,
    cutOff > 0 ? `${cutOff} cut off by the kill` : undefined,
  ].filter((text) => text !== undefined);
  return {
    fact: 'No pod was evicted twice: evictions by the count of the apiserver',
    expected: `${leaving} accepted`,
    seen: [`${accepted} accepted`, ...others].join(', '),
    holds: accepted <= leaving && accepted + cutOff >= leaving,
  };
}

export function arrivalsRow({ arrivals }: Recording): Row {
  return same('No new pod came to the nodes', '0 pods', `${arrivals.length} pods`);
}

/** By etcd's own clock: from before the node was touched until after it was touched for the last time. */
export function holdsRow({ nodeChanges }: Recording): Row {
  const told = [...nodeChanges].map(([name, changes]) => {
    const inOrder = changes.toSorted((a, b) => (a.revision < b.revision ? -1 : 1));
    return `${name} ${inOrder.map(({ what }) => wordOf(what)).join(', ')}`;
  });
  return same(
    "Each node's Lease was held from before its cordon until it was given back",
    [...nodeChanges.keys()].map((name) => `${name} held, off, on, released`).join('; '),
    told.join('; '),
  );
}

function wordOf(what: NodeChange['what']): string {
  if ('cordoned' in what) return what.cordoned ? 'off' : 'on';
  if (what.holder === '') return 'released';
  return what.holder === leaseHolderOf(SYSTEM_NAMESPACE) ? 'held' : `held by ${what.holder}`;
}

/** Names of the nodes that take no new pods. */
export function unschedulable(nodes: readonly Node[]): string {
  const names = nodes
    .filter(({ spec }) => spec.unschedulable === true)
    .map(({ metadata }) => metadata.name)
    .toSorted();
  return names.join(', ') || 'none';
}
