/** A point in time by both of this machine's clocks, in milliseconds. */
export interface Moment {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

export function moment(): Moment {
  return { monotonicMs: performance.now(), wallMs: Date.now() };
}

/**
 * Milliseconds since then, by the clock that says more: the monotonic one goes on while the process is stopped, but stands
 * still while the machine is suspended; the other one goes on then, but may be set.
 */
export function elapsedMs({ monotonicMs, wallMs }: Moment): number {
  return Math.max(performance.now() - monotonicMs, Date.now() - wallMs);
}
