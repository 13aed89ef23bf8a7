import { types } from 'node:util';
import { oneLine as oneLineOf } from '../domain/common/text.ts';

/** The kinds of errors that callers handle differently. */
export const KubeErrorKind = {
  NotFound: 'NotFound',
  AlreadyExists: 'AlreadyExists',
  /** The object was changed since it was read: read it again and decide again. */
  Conflict: 'Conflict',
  /** The apiserver still throttles (priority and fairness) after the retries of the client. */
  Throttled: 'Throttled',
  /** A PodDisruptionBudget does not allow the eviction now. */
  DisruptionRejected: 'DisruptionRejected',
  /** The resourceVersion or continue token is too old: list again. */
  Expired: 'Expired',
  Unauthorized: 'Unauthorized',
  Forbidden: 'Forbidden',
  Invalid: 'Invalid',
  /** The namespace is being deleted and accepts no new objects. */
  NamespaceTerminating: 'NamespaceTerminating',
  /** A status of 5xx, or no response; see `cause`. */
  Unavailable: 'Unavailable',
  /** The guard of the client rejected the request: it was not sent. */
  NotSent: 'NotSent',
} as const;
export type KubeErrorKind = (typeof KubeErrorKind)[keyof typeof KubeErrorKind];

/** metav1.Status, the body of most error responses. */
export interface StatusBody {
  kind?: string;
  message?: string;
  reason?: string;
  code?: number;
  details?: {
    name?: string;
    kind?: string;
    causes?: { reason?: string; message?: string; field?: string }[];
    retryAfterSeconds?: number;
  };
}

/** Identifies a request in error messages: `evict pods default/web-1`. */
export interface RequestName {
  readonly verb: string;
  /** Plural with group, as kubectl writes it, or the path of a request without a resource. */
  readonly resource: string;
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
}

interface KubeErrorDetails {
  readonly kind: KubeErrorKind;
  readonly request: RequestName;
  readonly apiMessage: string;
  readonly status?: number | undefined;
  readonly body?: StatusBody | undefined;
  readonly retryAfterSeconds?: number | undefined;
  readonly cause?: unknown;
}

/** The error of a failed request; `message` is one line: verb, resource, namespace/name and the message of the apiserver. */
export class KubeError extends Error {
  override readonly name = 'KubeError';
  readonly kind: KubeErrorKind;
  readonly request: RequestName;
  /** HTTP status; undefined without a response. */
  readonly status: number | undefined;
  /** The apiserver's machine-readable reason, e.g. `Invalid`. */
  readonly reason: string | undefined;
  /** The message of the apiserver only. */
  readonly apiMessage: string;
  /** The details of the Status, including its causes. */
  readonly details: StatusBody['details'];
  readonly retryAfterSeconds: number | undefined;

  constructor(details: KubeErrorDetails) {
    super(`${describe(details.request)}: ${details.apiMessage}`, { cause: details.cause });
    this.kind = details.kind;
    this.request = details.request;
    this.status = details.status;
    this.reason = details.body?.reason;
    this.apiMessage = details.apiMessage;
    this.details = details.body?.details;
    this.retryAfterSeconds = details.retryAfterSeconds;
  }
}

export function isKubeError(error: unknown, ...kinds: KubeErrorKind[]): error is KubeError {
  return error instanceof KubeError && (kinds.length === 0 || kinds.includes(error.kind));
}

/** Rethrows every error except NotFound: the object is gone. */
export function ignoreNotFound(error: unknown): undefined {
  if (!isKubeError(error, 'NotFound')) throw error;
}

/** Rethrows every error except Conflict and NotFound. For writes that are repeated anyway: a watch event need not follow a conflict. */
export function ignoreConflict(error: unknown): undefined {
  if (!isKubeError(error, 'NotFound', 'Conflict')) throw error;
}

/** Returns true for an error that an immediate retry would not change: a rejection by admission, validation or authorization. */
export function isRejection(error: unknown): error is KubeError {
  if (!(error instanceof KubeError)) return false;
  // The apiserver reports a webhook that does not respond as InternalError.
  const isWebhookFailure = error.reason === 'InternalError';
  return isWebhookFailure || isKubeError(error, 'Forbidden', 'Invalid', 'NamespaceTerminating');
}

/** Reports whether authorization, such as RBAC, has denied a request. Policies and webhooks that deny it may answer 403, too: only the message differs. */
export function isMissingPermission(error: unknown): error is KubeError {
  return isKubeError(error, 'Forbidden') && error.apiMessage.includes(' is forbidden: User ');
}

/**
 * Reports whether a test of a JSON patch has failed: the object is not as it was read. The apiserver answers 422, as policies do, and never says which test
 * it was.
 */
export function isFailedTest(error: unknown): error is KubeError {
  return isKubeError(error, 'Invalid') && error.apiMessage === failedTestMessage;
}

const failedTestMessage = 'the server rejected our request due to an error in our request';

/** An error response of the apiserver. `retryAfter` is the header, in seconds. */
export interface ErrorResponse {
  readonly status: number;
  readonly text: string;
  readonly retryAfter?: string | undefined;
}

/** Creates the error for a response with a status of 400 and above. */
export function errorOf(request: RequestName, response: ErrorResponse): KubeError {
  const body = parseStatus(response.text);
  const headerSeconds = Number.parseInt(response.retryAfter ?? '', 10);
  return new KubeError({
    kind:
      isRemoval(request) && isWebhookRejection(body)
        ? KubeErrorKind.Forbidden
        : kindOf(response.status, body),
    request,
    status: response.status,
    body,
    apiMessage: apiMessageOf(response, body),
    retryAfterSeconds: body?.details?.retryAfterSeconds ?? (headerSeconds >= 0 ? headerSeconds : undefined),
  });
}

/** Creates the error for a request without a response: connection refused or reset, timeout, or broken response. */
export function unavailable(request: RequestName, cause: unknown): KubeError {
  return new KubeError({
    kind: KubeErrorKind.Unavailable,
    request,
    apiMessage: `no answer from the apiserver: ${errorMessage(cause)}`,
    cause,
  });
}

/**
 * Returns a one-line message for anything that was thrown; connection errors of Node.js may have no message.
 * `instanceof` does not recognize errors of another realm, such as those of Node.js within a test runner.
 */
export function errorMessage(error: unknown): string {
  if (!types.isNativeError(error)) return oneLine(String(error));
  if (error.message !== '') return oneLine(error.message);
  const { errors } = error as Partial<AggregateError>;
  return Array.isArray(errors) ? errors.map(errorMessage).join('; ') : error.name;
}

function kindOf(status: number, body: StatusBody | undefined): KubeErrorKind {
  const hasCause = (reason: string) =>
    body?.details?.causes?.some((cause) => cause.reason === reason) === true;
  switch (status) {
    case 401:
      return KubeErrorKind.Unauthorized;
    case 403:
      return hasCause('NamespaceTerminating') ? KubeErrorKind.NamespaceTerminating : KubeErrorKind.Forbidden;
    case 404:
      return KubeErrorKind.NotFound;
    case 409:
      return body?.reason === 'AlreadyExists' ? KubeErrorKind.AlreadyExists : KubeErrorKind.Conflict;
    case 410:
      return KubeErrorKind.Expired;
    case 429:
      if (hasCause('DisruptionBudget')) return KubeErrorKind.DisruptionRejected;
      return isWebhookRejection(body) ? KubeErrorKind.Forbidden : KubeErrorKind.Throttled;
    case 422:
      return isUidMismatch(body) ? KubeErrorKind.Conflict : KubeErrorKind.Invalid;
    default:
      return status >= 500 ? KubeErrorKind.Unavailable : KubeErrorKind.Invalid;
  }
}

/** Reports whether the request removes a pod. Webhooks use any code to say that it leaves in another way, such as Strimzi's Drain Cleaner 500. */
function isRemoval({ verb, resource }: RequestName): boolean {
  return resource === 'pods' && (verb === 'evict' || verb === 'delete');
}

/** Webhooks, including ours, reject with 429 if a pod is evacuated in another way than by eviction. Only the message identifies them. */
function isWebhookRejection(body: StatusBody | undefined): boolean {
  const { message = '' } = body ?? {};
  return message.startsWith('admission webhook ') && message.includes(' denied the request');
}

/** The apiserver reports a patch with the UID of a previous object of the same name as a change of the UID. */
function isUidMismatch(body: StatusBody | undefined): boolean {
  return body?.details?.causes?.some(({ field }) => field === 'metadata.uid') === true;
}

/** Returns undefined if the body is not a Status: priority and fairness, proxies and unknown paths respond in plain text. */
function parseStatus(text: string): StatusBody | undefined {
  if (!text.startsWith('{')) return undefined;
  try {
    const body = JSON.parse(text) as StatusBody;
    return body.kind === 'Status' ? body : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the message of the apiserver, followed by the causes that it does not contain. */
function apiMessageOf({ status, text }: ErrorResponse, body: StatusBody | undefined): string {
  if (status === 404 && body === undefined) {
    return 'the apiserver does not serve this API: install its CustomResourceDefinition, or enable it';
  }
  const message = oneLine(body?.message ?? text) || `HTTP ${status}`;
  const causes = (body?.details?.causes ?? [])
    .map((cause) => oneLine(cause.message ?? ''))
    .filter((cause) => cause !== '' && !message.includes(cause));
  return oneLine([message, ...causes].join(' '));
}

function describe({ verb, resource, namespace, name }: RequestName): string {
  const key = [namespace, name].filter((part) => part !== undefined).join('/');
  return key === '' ? `${verb} ${resource}` : `${verb} ${resource} ${key}`;
}

const maxMessageLength = 2000;

function oneLine(text: string): string {
  return oneLineOf(text, maxMessageLength);
}
