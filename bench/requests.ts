import { type ApiServer, ask } from '../sandbox/apiserver.ts';
import type { ContenderName } from './contender.ts';

/**
 * What a drain costs the apiserver, by the apiserver's own counters.
 *
 * Who made a request is not in `apiserver_request_total`, and kube-controller-manager, kube-scheduler and kwok are busy
 * with the replacements of every evicted pod meanwhile. So each contender has a user and a FlowSchema of its own (see
 * identities.ts), and its requests are what `apiserver_flowcontrol_dispatched_requests_total` says of that FlowSchema:
 * all of them, watches, leader election and Events included, and nobody else's. `apiserver_request_total` then splits
 * off the kinds that nobody but a contender makes; what is left (reads and cordons of nodes, reads of pods, Events,
 * Leases, watches) is `other`. The worker's own counter is reported beside it, as a cross-check.
 *
 * The second reading is taken when the drain has settled: for ours, when the last Evacuation has been removed. The
 * requests of the clean-up are therefore in.
 */
export interface Reading {
  dispatched: Record<ContenderName, number>;
  /** `VERB resource/subresource` -> count, of what only contenders ask for. */
  byKind: Record<string, number>;
  /** Evictions that the apiserver answered with 429: a PodDisruptionBudget forbade them. */
  refused: number;
}

export interface Requests {
  total: number;
  byKind: Record<string, number>;
  refused: number;
}

/** The name of a contender's FlowSchema. */
export function flowSchemaOf(name: ContenderName): string {
  return `bench-${name}`;
}

export async function readRequests(server: ApiServer): Promise<Reading> {
  const { status, body } = await ask(server, 'GET', '/metrics');
  if (status !== 200)
    throw new Error(`GET /metrics of the apiserver answered ${status}: ${body.slice(0, 200)}`);
  const reading: Reading = { dispatched: { ours: 0, kubectl: 0, floor: 0 }, byKind: {}, refused: 0 };
  for (const sample of parseSamples(body)) take(reading, sample);
  return reading;
}

export function requestsBetween(before: Reading, after: Reading, name: ContenderName): Requests {
  const total = after.dispatched[name] - before.dispatched[name];
  const known = Object.entries(after.byKind)
    .map(([kind, count]): [string, number] => [kind, count - (before.byKind[kind] ?? 0)])
    .filter(([, count]) => count > 0);
  const other = known.reduce((rest, [, count]) => rest - count, total);
  return {
    total,
    byKind: Object.fromEntries([...known.toSorted((a, b) => b[1] - a[1]), ['other', other]]),
    refused: after.refused - before.refused,
  };
}

function take(reading: Reading, { name, labels, value }: Sample): void {
  if (name === 'apiserver_flowcontrol_dispatched_requests_total') {
    const contender = /^bench-(ours|kubectl|floor)$/.exec(labels['flow_schema'] ?? '')?.[1];
    if (contender !== undefined) reading.dispatched[contender as ContenderName] += value;
  }
  if (name !== 'apiserver_request_total' || !isOfContendersOnly(labels)) return;
  const { verb, resource, subresource, code } = labels;
  const kind = `${verb} ${[resource, subresource].filter(Boolean).join('/')}`;
  reading.byKind[kind] = (reading.byKind[kind] ?? 0) + value;
  if (subresource === 'eviction' && code === '429') reading.refused += value;
}

/** The bench itself creates, watches and completes NodeMaintenances, and lists Evacuations. */
function isOfContendersOnly({ verb = '', resource, subresource }: Sample['labels']): boolean {
  if (resource === 'pods') return subresource === 'eviction';
  if (resource === 'evacuations') return !['LIST', 'WATCH'].includes(verb);
  return resource === 'nodemaintenances' && ['GET', 'PATCH'].includes(verb);
}

export interface Sample {
  name: string;
  labels: Record<string, string | undefined>;
  value: number;
}

/** The samples of a page in Prometheus' text format. */
export function* parseSamples(page: string): Generator<Sample> {
  for (const line of page.split('\n')) {
    const [, name, labels = '', value] = /^([a-z_:][\w:]*)(?:\{(.*)\})? (\S+)/i.exec(line) ?? [];
    if (name === undefined) continue;
    const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, text]) => [key, text]);
    yield { name, labels: Object.fromEntries(pairs), value: Number(value) };
  }
}
