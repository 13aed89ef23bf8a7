import { types } from 'node:util';

/** What went wrong, as far as a caller may want to act differently. */
export const KubeErrorKind = {
  NotFound: 'NotFound',
  AlreadyExists: 'AlreadyExists',
  /** Another writer was first: read again and decide again. */
  Conflict: 'Conflict',
  /** The apiserver sheds load (priority and fairness), long after the client's own retries. */
  Throttled: 'Throttled',
  /** A PodDisruptionBudget does not allow the eviction now. */
  DisruptionRefused: 'DisruptionRefused',
  /** The resourceVersion or continue token is too old: list again. */
  Expired: 'Expired',
  Unauthorized: 'Unauthorized',
  Forbidden: 'Forbidden',
  Invalid: 'Invalid',
  /** Nothing can be created in the namespace any more: it is being deleted. */
  NamespaceTerminating: 'NamespaceTerminating',
  /** 5xx, or no answer at all; `cause` says which. */
  Unavailable: 'Unavailable',
  /** The client's guard kept it back: the apiserver never saw it. */
  NotSent: 'NotSent',
} as const;
export type KubeErrorKind = (typeof KubeErrorKind)[keyof typeof KubeErrorKind];

/** metav1.Status, the body of most refusals. */
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

/** Which request failed, in the words of its message: `evict pods default/web-1`. */
export interface RequestName {
  readonly verb: string;
  /** Plural with group, as kubectl writes it; or a path for requests without a resource. */
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

/** Every failure of a request; `message` is one line: verb, resource, namespace/name and the apiserver's words. */
export class KubeError extends Error {
  override readonly name = 'KubeError';
  readonly kind: KubeErrorKind;
  readonly request: RequestName;
  /** HTTP status; undefined when there was no answer. */
  readonly status: number | undefined;
  /** The apiserver's machine-readable reason, e.g. `Invalid`. */
  readonly reason: string | undefined;
  /** The apiserver's words alone. */
  readonly apiMessage: string;
  /** What the refusal is about, and its causes. */
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

/** Throws what is no sign that the object has changed, or is gone: news of that comes by its watch. */
export function ignoreIfOutdated(error: unknown): void {
  if (!isKubeError(error, 'NotFound', 'Conflict')) throw error;
}

/** An answer that asking again at once would not change: of an admission webhook, or of the apiserver's permissions. */
export function isRefusal(error: unknown): error is KubeError {
  if (!(error instanceof KubeError)) return false;
  // A webhook that does not answer is an internal error of the apiserver.
  const isBroken = error.reason === 'InternalError';
  return isBroken || isKubeError(error, 'Forbidden', 'Invalid', 'NamespaceTerminating');
}

/** What the apiserver answered: `retryAfter` is the header, in seconds. */
export interface Refusal {
  readonly status: number;
  readonly text: string;
  readonly retryAfter?: string | undefined;
}

/** The error for an answer of 400 and above. */
export function errorOf(request: RequestName, refusal: Refusal): KubeError {
  const body = parseStatus(refusal.text);
  const headerSeconds = Number.parseInt(refusal.retryAfter ?? '', 10);
  return new KubeError({
    kind: kindOf(refusal.status, body),
    request,
    status: refusal.status,
    body,
    apiMessage: apiMessageOf(refusal, body),
    retryAfterSeconds: body?.details?.retryAfterSeconds ?? (headerSeconds >= 0 ? headerSeconds : undefined),
  });
}

/** The error for a request that got no answer: refused, reset, timed out, or broken on the way. */
export function unavailable(request: RequestName, cause: unknown): KubeError {
  return new KubeError({
    kind: KubeErrorKind.Unavailable,
    request,
    apiMessage: `no answer from the apiserver: ${wordsOf(cause)}`,
    cause,
  });
}

/**
 * One line for people about anything that was thrown; node's connection errors may come without a message.
 * `instanceof` would not know an error of another realm, such as node's own within a test runner.
 */
export function wordsOf(error: unknown): string {
  if (!types.isNativeError(error)) return oneLine(String(error));
  if (error.message !== '') return oneLine(error.message);
  const { errors } = error as Partial<AggregateError>;
  return Array.isArray(errors) ? errors.map(wordsOf).join('; ') : error.name;
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
      if (hasCause('DisruptionBudget')) return KubeErrorKind.DisruptionRefused;
      return isOfWebhook(body) ? KubeErrorKind.Forbidden : KubeErrorKind.Throttled;
    case 422:
      return isForNamesake(body) ? KubeErrorKind.Conflict : KubeErrorKind.Invalid;
    default:
      return status >= 500 ? KubeErrorKind.Unavailable : KubeErrorKind.Invalid;
  }
}

/** Webhooks say by 429 that a pod leaves in another way than by eviction, ours too. The apiserver tells it by its words alone. */
function isOfWebhook(body: StatusBody | undefined): boolean {
  return body?.message?.startsWith('admission webhook ') === true;
}

/** A patch with the UID of another object of the same name would change the UID, says the apiserver. */
function isForNamesake(body: StatusBody | undefined): boolean {
  return body?.details?.causes?.some(({ field }) => field === 'metadata.uid') === true;
}

/** Undefined for what is not a Status: priority and fairness, proxies and unknown paths answer in plain text. */
function parseStatus(text: string): StatusBody | undefined {
  if (!text.startsWith('{')) return undefined;
  try {
    const body = JSON.parse(text) as StatusBody;
    return body.kind === 'Status' ? body : undefined;
  } catch {
    return undefined;
  }
}

/** The apiserver's words, with the causes that they do not already repeat. */
function apiMessageOf({ status, text }: Refusal, body: StatusBody | undefined): string {
  if (status === 404 && body === undefined) {
    return 'the apiserver does not serve this API: install its CustomResourceDefinition, or enable it';
  }
  const message = oneLine(body?.message ?? text) || `HTTP ${status}`;
  const causes = (body?.details?.causes ?? [])
    .map((cause) => oneLine(cause.message ?? ''))
    .filter((words) => words !== '' && !message.includes(words));
  return [message, ...causes].join(' ');
}

function describe({ verb, resource, namespace, name }: RequestName): string {
  const key = [namespace, name].filter((part) => part !== undefined).join('/');
  return key === '' ? `${verb} ${resource}` : `${verb} ${resource} ${key}`;
}

const longestMessage = 2000;

function oneLine(text: string): string {
  return text
    .trim()
    .replaceAll(/\s*\n\s*/g, ' ')
    .slice(0, longestMessage);
}
