import type { Pod } from '../../api/core.ts';
import type { EvictionRequest, LifecycleEviction } from '../../api/lifecycle.ts';
import { compareNames, listed } from '../common/names.ts';
import { numbered } from '../common/text.ts';
import { activeResponderOf, isFinal, isLive, isObserved, isOurs } from '../evacuation/evictionRequest.ts';
import { durationText, error, type Finding, listedFindings, warning } from './finding.ts';
import type { StuckTiming } from './maintenances.ts';

/** A controller answers within seconds, and a responder reports soon after it became active. */
const silentAfterMs = 60_000;

export interface EvictionRequestFacts {
  /** All of the cluster. */
  readonly requests: readonly EvictionRequest[];
  readonly evictions: readonly LifecycleEviction[];
  readonly pods: readonly Pod[];
}

/** Checks the EvictionRequests of node maintenance: does a controller serve them, and do they end? None: there is nothing to say. */
export function evictionRequestFindings(
  { requests, evictions, pods }: EvictionRequestFacts,
  timing: StuckTiming,
): Finding[] {
  const own = requests.filter((one) => isOurs(one));
  if (own.length === 0) return [];
  const served = new Set(evictions.map(({ spec }) => spec.target.pod.uid));
  const waitMs = Math.min(silentAfterMs, timing.stuckAfterMs);
  const unanswered = own.filter(
    (one) =>
      isLive(one) && !isObserved(one) && !served.has(one.spec.target.pod.uid) && ageOf(one, timing) > waitMs,
  );
  const uids = new Set(pods.map(({ metadata }) => metadata.uid));
  const left = own.filter(
    (one) => !uids.has(one.spec.target.pod.uid) && ageOf(one, timing) > timing.stuckAfterMs,
  );
  const findings = [
    ...(unanswered.length === 0 ? [] : [unansweredFinding(unanswered)]),
    ...left.map((one) =>
      warning(
        'its pod is gone',
        'check that a worker is the leader; finalizers of others are removed by their owners',
        objectOf(one),
      ),
    ),
  ];
  return listedFindings(findings, `${numbered(own.length, 'EvictionRequest')}: none is stuck`);
}

function unansweredFinding(requests: readonly EvictionRequest[]): Finding {
  const names = requests.map(({ metadata, spec }) => `${metadata.namespace}/${spec.target.pod.name}`);
  return error(
    `no controller has answered ${numbered(requests.length, 'EvictionRequest')} of node maintenance (pods ${listed(names.toSorted(compareNames))})`,
    'run a controller of EvictionRequests, or start the workers with --eviction-api auto or evacuation',
  );
}

/** Examines the responders that are active in Evictions, no matter who requests these: does a program serve them? */
export function responderFindings(
  evictions: readonly LifecycleEviction[],
  { now, stuckAfterMs }: StuckTiming,
): Finding[] {
  const waitMs = Math.min(silentAfterMs, stuckAfterMs);
  const silent = evictions.flatMap((eviction) => {
    const responder = isFinal(eviction) ? undefined : activeResponderOf(eviction);
    if (responder === undefined || (responder.heartbeatTime ?? responder.message) !== undefined) return [];
    const silentMs = now - Date.parse(responder.startTime ?? '');
    return silentMs > waitMs ? [{ eviction, name: responder.name, silentMs }] : [];
  });
  const findings = [...Map.groupBy(silent, ({ name }) => name)]
    .toSorted(([a], [b]) => compareNames(a, b))
    .map(([name, all]) => {
      const names = all.map(({ eviction: { metadata } }) => `${metadata.namespace}/${metadata.name}`);
      const longest = Math.max(...all.map(({ silentMs }) => silentMs));
      return error(
        `responder ${name} is active in ${numbered(all.length, 'Eviction')} (${listed(names.toSorted(compareNames))}), and has not reported for ${durationText(longest)}`,
        'start a program that serves the responder: until then the eviction of each pod waits for it',
        `responder/${name}`,
      );
    });
  return findings.length === 0 ? [] : listedFindings(findings, '');
}

function ageOf({ metadata }: EvictionRequest, { now }: StuckTiming): number {
  return now - Date.parse(metadata.creationTimestamp ?? '');
}

function objectOf({ metadata }: EvictionRequest): string {
  return `evictionrequest/${metadata.namespace}/${metadata.name}`;
}
