/** What a receiver answered; `retryAfter` is the header. */
export interface ReceiverAnswer {
  status: number;
  retryAfter?: string | undefined;
}

export type Delivery =
  | { kind: 'Delivered' }
  /** Tried again, not before `afterMs` if the receiver says so. */
  | { kind: 'TryAgain'; because: string; afterMs?: number }
  /** The same would be answered to the same again. */
  | { kind: 'Refused'; because: string };

/** Of 4xx these are about the moment: Request Timeout, Too Early, Too Many Requests. */
const passing = new Set([408, 425, 429]);
/** A receiver that asks for more does not get it: Temporal waits no longer than its retry policy has it. Milliseconds. */
const longestPause = 300_000;

/** As the CloudEvents HTTP webhook specification has it; `now` in milliseconds. */
export function judgeAnswer({ status, retryAfter }: ReceiverAnswer, now: number): Delivery {
  if (status >= 200 && status < 300) return { kind: 'Delivered' };
  if (status >= 300 && status < 400)
    return { kind: 'Refused', because: `HTTP ${status}: give the URL that it redirects to` };
  if (status < 500 && !passing.has(status)) return { kind: 'Refused', because: `HTTP ${status}` };
  const afterMs = pauseOf(retryAfter, now);
  return { kind: 'TryAgain', because: `HTTP ${status}`, ...(afterMs !== undefined && { afterMs }) };
}

/** Seconds, or a date (RFC 9110 > Retry-After); whatever else it says is not heeded. */
function pauseOf(retryAfter: string | undefined, now: number): number | undefined {
  if (retryAfter === undefined) return undefined;
  const ms = /^\d+$/.test(retryAfter) ? Number(retryAfter) * 1_000 : Date.parse(retryAfter) - now;
  return ms > 0 ? Math.min(ms, longestPause) : undefined;
}
