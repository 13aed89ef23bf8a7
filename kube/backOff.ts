/** An exponential back-off: `firstMs`, then doubled for each failure, at most `capMs`. */
export interface BackOff {
  readonly firstMs: number;
  readonly capMs: number;
}

/** Returns the delay before attempt `failures` + 1, reduced by up to half at random to spread retries. */
export function backOffMs(failures: number, { firstMs, capMs }: BackOff): number {
  const fullMs = Math.min(firstMs * 2 ** Math.min(failures, 30), capMs);
  return fullMs * (1 - Math.random() / 2);
}
