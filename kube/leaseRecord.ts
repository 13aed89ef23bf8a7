import type { Lease } from '../api/core.ts';

export type LeaseSpec = Lease['spec'];

/**
 * The last observed state of a Lease. `changedAtMs` is the local monotonic clock: the timestamps of the holder are never
 * compared with local time, so clocks may differ.
 */
export interface Observation {
  readonly spec: LeaseSpec;
  readonly resourceVersion: string | undefined;
  readonly changedAtMs: number;
}

export interface Candidate {
  readonly identity: string;
  readonly leaseDurationSeconds: number;
}

export type LeaseAction = { readonly kind: 'Write'; readonly spec: LeaseSpec } | Wait;

/** Another candidate leads and has not renewed for `silentForMs`; without a renewal the Lease expires in `forMs`. */
export interface Wait {
  readonly kind: 'Wait';
  readonly holder: string;
  readonly silentForMs: number;
  readonly forMs: number;
}

/** Returns the observation of a Lease after reading it. An unchanged Lease keeps its observation time. */
export function observe(known: Observation | undefined, lease: Lease, nowMs: number): Observation {
  const { resourceVersion } = lease.metadata;
  if (known !== undefined && known.resourceVersion === resourceVersion) return known;
  return { spec: lease.spec, resourceVersion, changedAtMs: nowMs };
}

/** Decides whether to acquire, renew or wait. `now` is the timestamp in the Lease; the decision uses `nowMs` only. */
export function nextLeaseAction(
  current: Observation | undefined,
  candidate: Candidate,
  { now, nowMs }: { now: Date; nowMs: number },
): LeaseAction {
  const holder = current?.spec.holderIdentity ?? '';
  const isHeldByOther = current !== undefined && holder !== '' && holder !== candidate.identity;
  const silentForMs = isHeldByOther ? nowMs - current.changedAtMs : 0;
  const forMs = isHeldByOther ? (current.spec.leaseDurationSeconds ?? 0) * 1000 - silentForMs : 0;
  if (forMs > 0) return { kind: 'Wait', holder, silentForMs, forMs };
  return { kind: 'Write', spec: heldSpec(current?.spec, candidate, now) };
}

/** Returns the spec that the holder writes: a renewal of its own Lease, or a transition from the previous holder. */
export function heldSpec(spec: LeaseSpec | undefined, candidate: Candidate, now: Date): LeaseSpec {
  const { identity, leaseDurationSeconds } = candidate;
  const renewTime = microTime(now);
  const { holderIdentity, acquireTime = renewTime, leaseTransitions = 0 } = spec ?? {};
  const renewal = { holderIdentity: identity, leaseDurationSeconds, renewTime };
  if (holderIdentity === identity) return { ...renewal, acquireTime, leaseTransitions };
  const transitions = spec === undefined ? 0 : leaseTransitions + 1;
  return { ...renewal, acquireTime: renewTime, leaseTransitions: transitions };
}

/** Returns the spec of a releasedSpec Lease, which another candidate can acquire immediately. */
export function releasedSpec(spec: LeaseSpec, now: Date): LeaseSpec {
  const time = microTime(now);
  return { ...spec, holderIdentity: '', leaseDurationSeconds: 1, acquireTime: time, renewTime: time };
}

/** Formats a metav1.MicroTime, which has exactly six fractional digits. */
export function microTime(time: Date): string {
  return time.toISOString().replace('Z', '000Z');
}
