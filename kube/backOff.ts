/** How long to wait: the first time `firstMs`, then doubling, never more than `capMs`. */
export interface BackOff {
  readonly firstMs: number;
  readonly capMs: number;
}

/** Milliseconds before try number `failures` + 1, up to a half less at random, so that many do not return at once. */
export function backOffMs(failures: number, { firstMs, capMs }: BackOff): number {
  const fullMs = Math.min(firstMs * 2 ** Math.min(failures, 30), capMs);
  return fullMs * (1 - Math.random() / 2);
}
