import type { Server } from 'node:https';
import {
  type AcceptedClients,
  type Answer,
  createHttpsServer,
  defaultLimits,
  type Limits,
  Rejection,
  type ServerOptions,
} from '../http/server.ts';
import { errorMessage } from '../kube/errors.ts';
import type { Webhook } from './review.ts';

const mebibyte = 1024 * 1024;

const webhookLimits: Limits = {
  ...defaultLimits,
  // An apiserver handles 600 requests at once (--max-requests-inflight, --max-mutating-requests-inflight), few of which are reviewed.
  maxConnections: 1_000,
  maxRequests: 500,
  // Two objects of the maximum size that the apiserver accepts, plus the review itself.
  maxBodyBytes: 8 * mebibyte,
  // Parsed, a body of the allowed depth needs up to 15 times its size.
  maxBufferedBytes: 24 * mebibyte,
  // The apiserver closes an idle connection after 90 s. It must be the first to do so, or it may send a request to a closed one.
  idleTimeoutMs: 100_000,
};

const name = 'webhook';

export interface AdmissionServerOptions extends Pick<ServerOptions, 'log' | 'onRejection'> {
  readonly limits?: Limits;
  /** Undefined: every client is answered. */
  readonly clients?: AcceptedClients | undefined;
}

/**
 * Creates a server that responds to AdmissionReviews, with one webhook for each path. The caller sets the certificate (`setSecureContext`):
 * until then every connection fails. With `clients` it also sets `ca`.
 */
export function createAdmissionServer(
  webhooks: Readonly<Record<string, Webhook>>,
  { limits = webhookLimits, clients, ...options }: AdmissionServerOptions,
): Server {
  const routes = Object.fromEntries(
    Object.entries(webhooks).map(([path, webhook]) => {
      const respond = (body: string, signal: AbortSignal) =>
        review(webhook, body, signal).catch((error: unknown) => failure(error, signal, options));
      return [path, { method: 'POST' as const, respond }];
    }),
  );
  return createHttpsServer({ ...options, name, routes, limits }, clients);
}

async function review(webhook: Webhook, body: string, signal: AbortSignal): Promise<Answer> {
  const result = await webhook(body, signal);
  return result.ok
    ? { status: 200, type: 'application/json', body: JSON.stringify(result.review) }
    : { status: 400, type: 'text/plain', body: `${result.problem}\n` };
}

/** Returns the error itself: the apiserver shows it to the user whose request it could not review. */
function failure(
  error: unknown,
  signal: AbortSignal,
  { log, onRejection }: Pick<ServerOptions, 'log' | 'onRejection'>,
): Answer {
  if (!signal.aborted) {
    onRejection(name, Rejection.Failed);
    log.error('Admission request failed', { error: errorMessage(error) });
  }
  return { status: 500, type: 'text/plain', body: `${errorMessage(error)}\n` };
}
