import { NODE_LEASE_NAMESPACE } from '../api/names.ts';
import { isKubeError } from '../kube/errors.ts';

/** Adds the remedy to a rejection that a user can fix. */
export async function withRemedy<T>(work: Promise<T>, rbacRemedy: string): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw addRemedy(error, rbacRemedy);
  }
}

/** Returns a one-line Error with the remedy if one is known, otherwise the error itself. */
export function addRemedy(error: unknown, rbacRemedy: string): unknown {
  if (isKubeError(error, 'Forbidden')) return new Error(`${error.message}: ${rbacRemedy}`, { cause: error });
  if (!isKubeError(error, 'NotFound') || error.details?.kind !== 'namespaces') return error;
  const message = `namespace ${NODE_LEASE_NAMESPACE} does not exist; create it with kubectl create namespace ${NODE_LEASE_NAMESPACE}, or install node-maintenance`;
  return new Error(message, { cause: error });
}
