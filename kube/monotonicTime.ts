/** A point in time on both clocks of this machine. */
export interface Instant {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

export function currentInstant(): Instant {
  return { monotonicMs: performance.now(), wallMs: Date.now() };
}

/**
 * Returns the time since the instant by the clock that advanced further. The monotonic clock advances while the process is
 * stopped but not while the machine is suspended; the wall clock advances then, but can be set.
 */
export function elapsedMs({ monotonicMs, wallMs }: Instant): number {
  return Math.max(performance.now() - monotonicMs, Date.now() - wallMs);
}
