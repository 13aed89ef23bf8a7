import type { Node } from '../api/core.ts';
import { leaseHolderOf, SYSTEM_NAMESPACE } from '../api/names.ts';
import type { NodeChange, Recording } from './recording.ts';
import type { Row } from './table.ts';

/** Facts that all scenarios verify, from observations of the API. */

/** Builds a fact that holds when two texts are equal. */
export function same(fact: string, expected: string, actual: string): Row {
  return { fact, expected, actual, holds: actual === expected };
}

/** Two groups of workloads, by name. */
export interface Order {
  first: readonly string[];
  second: readonly string[];
}

/** Builds the fact, by etcd revisions, that no pod of the second group was evacuated before the last one of the first was gone. */
export function orderRow(fact: string, { first, second }: Order, recording: Recording): Row {
  const { deletedPods, evacuations } = recording;
  const gone = deletedPods
    .filter(({ app }) => first.includes(app))
    .map(({ revision }) => revision)
    .reduce((a, b) => (a > b ? a : b), 0n);
  const uids = new Set(deletedPods.filter(({ app }) => second.includes(app)).map(({ podUid }) => podUid));
  const firstEvacuation = evacuations
    .filter(({ podUid }) => uids.has(podUid))
    .map(({ revision }) => revision)
    .reduce<bigint | undefined>((a, b) => (a === undefined || b < a ? b : a), undefined);
  return {
    fact,
    expected: `after revision ${gone}`,
    actual: firstEvacuation === undefined ? 'never' : `revision ${firstEvacuation}`,
    holds: gone > 0n && firstEvacuation !== undefined && firstEvacuation > gone,
  };
}

export function evacuationsRow({ deletedPods, evacuations }: Recording, leaving: number): Row {
  const evacuated = new Set(evacuations.map(({ podUid }) => podUid));
  const left = deletedPods.filter(({ podUid }) => evacuated.has(podUid)).length;
  return same(
    'Each evacuated pod had one Evacuation',
    `${leaving} pods, ${leaving} Evacuations`,
    `${left} pods, ${evacuations.length} Evacuations`,
  );
}

/** Requests to the eviction API since the start of the apiserver, from its metrics. */
export interface Evictions {
  accepted: number;
  /** Rejected by a PodDisruptionBudget. */
  rejected: number;
  /** The client was gone before the response: the pod may or may not have been evicted. */
  interrupted: number;
}

/** Parses the metrics of the apiserver (Prometheus text format). */
export function countEvictions(metrics: string): Evictions {
  const lines = metrics.split('\n').filter((line) => line.startsWith('apiserver_request_total{'));
  const evictions = lines.filter((line) => line.includes('subresource="eviction"'));
  const withCode = (code: number) =>
    evictions
      .filter((line) => line.includes(`code="${code}"`))
      .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(' '))), 0);
  // The apiserver counts a request whose client disconnected as a timeout, even if it was processed.
  return { accepted: withCode(201), rejected: withCode(429), interrupted: withCode(504) };
}

/** Builds the fact that no pod was evicted twice: there are no more accepted evictions than pods. */
export function evictionsRow({ accepted, rejected, interrupted }: Evictions, leaving: number): Row {
  const others = [
    rejected > 0 ? `${rejected} rejected` : undefined,
    interrupted > 0 ? `${interrupted} interrupted by the kill` : undefined,
  ].filter((text) => text !== undefined);
  return {
    fact: 'No pod was evicted twice: evictions counted by the apiserver',
    expected: `${leaving} accepted`,
    actual: [`${accepted} accepted`, ...others].join(', '),
    holds: accepted <= leaving && accepted + interrupted >= leaving,
  };
}

export function arrivalsRow({ arrivals }: Recording): Row {
  return same('No new pod was scheduled to the nodes', '0 pods', `${arrivals.length} pods`);
}

/** Builds the fact, by etcd revisions, that the Lease of each node was held for as long as the node was cordoned. */
export function holdsRow({ nodeChanges }: Recording): Row {
  const texts = [...nodeChanges].map(([name, changes]) => {
    const inOrder = changes.toSorted((a, b) => (a.revision < b.revision ? -1 : 1));
    return `${name} ${inOrder.map(({ what }) => changeText(what)).join(', ')}`;
  });
  return same(
    'The Lease of each node was held from before its cordon until after its uncordon',
    [...nodeChanges.keys()].map((name) => `${name} held, cordoned, uncordoned, released`).join('; '),
    texts.join('; '),
  );
}

function changeText(what: NodeChange['what']): string {
  if ('cordoned' in what) return what.cordoned ? 'cordoned' : 'uncordoned';
  if (what.holder === '') return 'released';
  return what.holder === leaseHolderOf(SYSTEM_NAMESPACE) ? 'held' : `held by ${what.holder}`;
}

/** Returns the names of the unschedulable nodes. */
export function unschedulable(nodes: readonly Node[]): string {
  const names = nodes
    .filter(({ spec }) => spec.unschedulable === true)
    .map(({ metadata }) => metadata.name)
    .toSorted();
  return names.join(', ') || 'none';
}
