/** Response of the endpoint; `retryAfter` is the header. */
export interface EndpointResponse {
  status: number;
  retryAfter?: string | undefined;
}

export type DeliveryResult =
  | { kind: 'Delivered' }
  /** The same request may succeed later; not before `afterMs` if the endpoint asks for that. */
  | { kind: 'Retry'; reason: string; afterMs?: number }
  /** The same request would be rejected again. */
  | { kind: 'Rejected'; reason: string };

/** Client errors that are temporary: Request Timeout, Too Early, Too Many Requests. */
const temporaryClientErrors = new Set([408, 425, 429]);
/** Longer values of Retry-After are cut to the maximum interval of the retry policy. */
const maxRetryAfterMs = 300_000;

/** Classifies a response according to the CloudEvents HTTP webhook specification. */
export function deliveryResultOf({ status, retryAfter }: EndpointResponse, nowMs: number): DeliveryResult {
  if (status >= 200 && status < 300) return { kind: 'Delivered' };
  if (status >= 300 && status < 400)
    return { kind: 'Rejected', reason: `HTTP ${status}: redirects are not followed, set the final URL` };
  if (status < 500 && !temporaryClientErrors.has(status))
    return { kind: 'Rejected', reason: `HTTP ${status}` };
  const afterMs = retryAfterMs(retryAfter, nowMs);
  return { kind: 'Retry', reason: `HTTP ${status}`, ...(afterMs !== undefined && { afterMs }) };
}

/** Parses seconds or a date (RFC 9110 > Retry-After). Returns undefined for a date in the past and any other text. */
function retryAfterMs(retryAfter: string | undefined, nowMs: number): number | undefined {
  if (retryAfter === undefined) return undefined;
  const ms = /^\d+$/.test(retryAfter) ? Number(retryAfter) * 1_000 : Date.parse(retryAfter) - nowMs;
  return ms > 0 ? Math.min(ms, maxRetryAfterMs) : undefined;
}
