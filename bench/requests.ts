import { type ApiServer, ask } from '../sandbox/apiserver.ts';
import type { TargetName } from './target.ts';

/**
 * The apiserver's own counters of what a drain costs it.
 *
 * `apiserver_request_total` does not tell users apart, and kube-controller-manager, kube-scheduler and kwok handle the
 * replacements of every evicted pod at the same time. Each target therefore has a user and a FlowSchema of its own
 * (identities.ts), and `apiserver_flowcontrol_dispatched_requests_total` of that FlowSchema counts all its requests:
 * watches, leader election and Events included. `apiserver_request_total` then gives the kinds of request that only a
 * target makes; the remainder (reads and cordons of nodes, reads of pods, Events, Leases, watches) is `other`. The
 * worker's own counter is reported next to it as a cross-check.
 *
 * The second reading is taken when the drain has settled: for ours, when the last Evacuation is removed. It therefore
 * includes the requests of the clean-up.
 */
export interface Reading {
  dispatched: Record<TargetName, number>;
  /** `VERB resource/subresource` -> count, for requests that only targets make. */
  byKind: Record<string, number>;
  /** Evictions that the apiserver answered with 429, because of a PodDisruptionBudget. */
  rejected: number;
}

export interface Requests {
  total: number;
  byKind: Record<string, number>;
  rejected: number;
}

/** Returns the name of a target's FlowSchema. */
export function flowSchemaOf(name: TargetName): string {
  return `bench-${name}`;
}

export async function readRequests(server: ApiServer): Promise<Reading> {
  const { status, body } = await ask(server, 'GET', '/metrics');
  if (status !== 200)
    throw new Error(`GET /metrics of the apiserver answered ${status}: ${body.slice(0, 200)}`);
  const reading: Reading = { dispatched: { ours: 0, kubectl: 0, floor: 0 }, byKind: {}, rejected: 0 };
  for (const sample of parseSamples(body)) addSample(reading, sample);
  return reading;
}

export function requestsBetween(before: Reading, after: Reading, name: TargetName): Requests {
  const total = after.dispatched[name] - before.dispatched[name];
  const known = Object.entries(after.byKind)
    .map(([kind, count]): [string, number] => [kind, count - (before.byKind[kind] ?? 0)])
    .filter(([, count]) => count > 0);
  const other = known.reduce((rest, [, count]) => rest - count, total);
  return {
    total,
    byKind: Object.fromEntries([...known.toSorted((a, b) => b[1] - a[1]), ['other', other]]),
    rejected: after.rejected - before.rejected,
  };
}

function addSample(reading: Reading, { name, labels, value }: Sample): void {
  if (name === 'apiserver_flowcontrol_dispatched_requests_total') {
    const target = /^bench-(ours|kubectl|floor)$/.exec(labels['flow_schema'] ?? '')?.[1];
    if (target !== undefined) reading.dispatched[target as TargetName] += value;
  }
  if (name !== 'apiserver_request_total' || !isOfTargetsOnly(labels)) return;
  const { verb, resource, subresource, code } = labels;
  const kind = `${verb} ${[resource, subresource].filter(Boolean).join('/')}`;
  reading.byKind[kind] = (reading.byKind[kind] ?? 0) + value;
  if (subresource === 'eviction' && code === '429') reading.rejected += value;
}

/** Excludes requests of the benchmark itself: it creates, watches and completes NodeMaintenances and lists Evacuations. */
function isOfTargetsOnly({ verb = '', resource, subresource }: Sample['labels']): boolean {
  if (resource === 'pods') return subresource === 'eviction';
  if (resource === 'evacuations') return !['LIST', 'WATCH'].includes(verb);
  return resource === 'nodemaintenances' && ['GET', 'PATCH'].includes(verb);
}

export interface Sample {
  name: string;
  labels: Record<string, string | undefined>;
  value: number;
}

/** Parses the samples of a page in Prometheus' text format. */
export function* parseSamples(page: string): Generator<Sample> {
  for (const line of page.split('\n')) {
    const [, name, labels = '', value] = /^([a-z_:][\w:]*)(?:\{(.*)\})? (\S+)/i.exec(line) ?? [];
    if (name === undefined) continue;
    const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, text]) => [key, text]);
    yield { name, labels: Object.fromEntries(pairs), value: Number(value) };
  }
}
