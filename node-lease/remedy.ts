import { NODE_LEASE_NAMESPACE } from '../api/names.ts';
import { isKubeError } from '../kube/errors.ts';

/** What the promise gives; a rejection that people can mend says how. */
export async function withRemedy<T>(work: Promise<T>, forRights: string): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw remedied(error, forRights);
  }
}

/** An Error of one line with what to do, where that is known; else the error as it is. */
export function remedied(error: unknown, forRights: string): unknown {
  if (isKubeError(error, 'Forbidden')) return new Error(`${error.message}: ${forRights}`, { cause: error });
  if (!isKubeError(error, 'NotFound') || error.details?.kind !== 'namespaces') return error;
  const words = `there is no namespace ${NODE_LEASE_NAMESPACE}: kubectl create namespace ${NODE_LEASE_NAMESPACE}, or install node-maintenance`;
  return new Error(words, { cause: error });
}
