import type { IncomingHttpHeaders } from 'node:http';

/** The pages of other origins that may call a server from a browser. */
export interface Cors {
  /** Exact origins, such as `https://cloud.temporal.io`. */
  readonly origins: readonly string[];
  /** Names of request headers that such a page may send. */
  readonly headers: readonly string[];
}

const maxAgeSeconds = 600;

/** Returns the headers of every response: without them, the browser does not show the response to the page. */
export function corsHeaders({ origins }: Cors, { origin }: IncomingHttpHeaders): Record<string, string> {
  const isAllowed = origin !== undefined && origins.includes(origin);
  return { vary: 'origin', ...(isAllowed && { 'access-control-allow-origin': origin }) };
}

/** Returns the further headers of the response to a preflight request. */
export function preflightHeaders({ headers }: Cors, method: string): Record<string, string> {
  return {
    'access-control-allow-methods': method,
    'access-control-allow-headers': headers.join(', '),
    'access-control-max-age': String(maxAgeSeconds),
  };
}
