import type { Lease } from '../api/core.ts';

export type LeaseSpec = Lease['spec'];

/**
 * A Lease as it was last seen to change. `changedAtMs` is our monotonic clock: the holder's timestamps are never
 * compared with our time, so clocks may differ.
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

export type LeaseMove = { readonly kind: 'Write'; readonly spec: LeaseSpec } | Wait;

/** Another one leads, and did not renew for `silentForMs`; unless it does, the Lease is free in `forMs`. */
export interface Wait {
  readonly kind: 'Wait';
  readonly holder: string;
  readonly silentForMs: number;
  readonly forMs: number;
}

/** What we know of a Lease after reading it: one that did not change since keeps its age. */
export function observe(known: Observation | undefined, lease: Lease, nowMs: number): Observation {
  const { resourceVersion } = lease.metadata;
  if (known !== undefined && known.resourceVersion === resourceVersion) return known;
  return { spec: lease.spec, resourceVersion, changedAtMs: nowMs };
}

/** Take, renew or wait. `now` is written into the Lease for people; `nowMs` is what decides. */
export function nextMove(
  seen: Observation | undefined,
  candidate: Candidate,
  { now, nowMs }: { now: Date; nowMs: number },
): LeaseMove {
  const holder = seen?.spec.holderIdentity ?? '';
  const isForeign = seen !== undefined && holder !== '' && holder !== candidate.identity;
  const silentForMs = isForeign ? nowMs - seen.changedAtMs : 0;
  const forMs = isForeign ? (seen.spec.leaseDurationSeconds ?? 0) * 1000 - silentForMs : 0;
  if (forMs > 0) return { kind: 'Wait', holder, silentForMs, forMs };
  return { kind: 'Write', spec: held(seen?.spec, candidate, now) };
}

/** What the holder writes: a renewal of what is its own, else whatever it takes that from. */
export function held(spec: LeaseSpec | undefined, candidate: Candidate, now: Date): LeaseSpec {
  const { identity, leaseDurationSeconds } = candidate;
  const renewTime = microTime(now);
  const { holderIdentity, acquireTime = renewTime, leaseTransitions = 0 } = spec ?? {};
  const renewal = { holderIdentity: identity, leaseDurationSeconds, renewTime };
  if (holderIdentity === identity) return { ...renewal, acquireTime, leaseTransitions };
  const transitions = spec === undefined ? 0 : leaseTransitions + 1;
  return { ...renewal, acquireTime: renewTime, leaseTransitions: transitions };
}

/** What the holder writes when it stops: nobody holds it, and whoever looks may take it at once. */
export function released(spec: LeaseSpec, now: Date): LeaseSpec {
  const time = microTime(now);
  return { ...spec, holderIdentity: '', leaseDurationSeconds: 1, acquireTime: time, renewTime: time };
}

/** MicroTime wants exactly six digits after the second. */
export function microTime(time: Date): string {
  return time.toISOString().replace('Z', '000Z');
}
