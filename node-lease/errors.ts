import { isKubeError } from '../kube/errors.ts';
import { addRemedy } from './remedy.ts';

/** Kinds of errors. */
export const NodeLeaseErrorKind = {
  /** An option or an argument is invalid. Nothing was sent. */
  InvalidArgument: 'InvalidArgument',
  NodeNotFound: 'NodeNotFound',
  /** The namespace of the Leases does not exist. */
  NamespaceNotFound: 'NamespaceNotFound',
  /** RBAC permissions are missing; the message has the rules. */
  Forbidden: 'Forbidden',
  /** The apiserver does not accept the credentials. */
  Unauthorized: 'Unauthorized',
  /** The apiserver did not answer, or could not; another attempt may succeed. */
  Unavailable: 'Unavailable',
  /** Another client holds the node: a NodeHeldError. */
  Held: 'Held',
  /** The Lease was lost while the function ran: a NodeLeaseLostError. */
  Lost: 'Lost',
  /** The client was closed. */
  Closed: 'Closed',
  /** The apiserver rejected the request for another reason; see `cause`. */
  Rejected: 'Rejected',
} as const;
export type NodeLeaseErrorKind = (typeof NodeLeaseErrorKind)[keyof typeof NodeLeaseErrorKind];

interface Details {
  readonly kind: NodeLeaseErrorKind;
  readonly node?: string | undefined;
  readonly cause?: unknown;
}

/** An error of this library. The message is one line, with the problem and, where there is one, the remedy. */
export class NodeLeaseError extends Error {
  override readonly name: string = 'NodeLeaseError';
  readonly kind: NodeLeaseErrorKind;
  /** Undefined if the error is about no single node. */
  readonly node: string | undefined;

  constructor(message: string, { kind, node, cause }: Details) {
    super(message, { cause });
    this.kind = kind;
    this.node = node;
  }
}

/** Another client holds the node. Nothing was changed. */
export class NodeHeldError extends NodeLeaseError {
  override readonly name = 'NodeHeldError';
  readonly holder: string;
  /** Time at which the Lease expires unless it is renewed; undefined if that is unknown, and for an administrator, whose Lease does not expire. */
  readonly until: Date | undefined;

  constructor(node: string, holder: string, until: Date | undefined) {
    super(`node ${node} is held by ${holder}`, { kind: 'Held', node });
    this.holder = holder;
    this.until = until;
  }
}

/** Rejects with a NodeLeaseError instead of an error of the apiserver. */
export async function typed<T>(work: Promise<T>, node: string | undefined, rbacRemedy: string): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw typedError(error, node, rbacRemedy);
  }
}

/** Returns the NodeLeaseError for an error of the apiserver; other errors, such as the reason of a signal, stay as they are. */
export function typedError(error: unknown, node: string | undefined, rbacRemedy: string): unknown {
  if (!isKubeError(error)) return error;
  const { message } = addRemedy(error, rbacRemedy) as Error;
  return new NodeLeaseError(message, { kind: kindOf(error), node, cause: error });
}

function kindOf(error: unknown): NodeLeaseErrorKind {
  if (isKubeError(error, 'Forbidden')) return 'Forbidden';
  if (isKubeError(error, 'Unauthorized')) return 'Unauthorized';
  if (isKubeError(error, 'NotFound') && error.details?.kind === 'namespaces') return 'NamespaceNotFound';
  return isRetryable(error) ? 'Unavailable' : 'Rejected';
}

/** Reports whether another attempt may succeed. */
export function isRetryable(error: unknown): boolean {
  return isKubeError(error, 'Unavailable', 'Throttled', 'Conflict', 'AlreadyExists');
}
