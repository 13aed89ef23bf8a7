/** The identifiers of the span that contains a whole maintenance. */
export interface TraceIds {
  readonly traceId: string;
  readonly spanId: string;
}

/**
 * Returns the identifiers of the trace of a maintenance, which its UID determines: every process that works for the maintenance adds to the same
 * trace, whatever happened to the process before it. Undefined for a UID that is none.
 */
export function traceIdsOf(uid: string): TraceIds | undefined {
  const traceId = uid.replaceAll('-', '').toLowerCase();
  // The second half contains the variant of the UUID, so that it is never 0, which is not valid.
  const spanId = traceId.slice(16);
  const isValid = /^[0-9a-f]{32}$/.test(traceId) && !/^0+$/.test(spanId);
  return isValid ? { traceId, spanId } : undefined;
}
