import { isKubeError } from './errors.ts';

/**
 * Repeats `attempt`, which reads an object, decides, and writes it with the resourceVersion that it has read, while the write conflicts with another
 * one. Rejects with the last conflict after `attempts`, and with any other error at once.
 */
export async function retryOnConflict<T>(attempts: number, attempt: () => Promise<T>): Promise<T> {
  for (let left = attempts - 1; ; left--) {
    try {
      return await attempt();
    } catch (error) {
      if (!isKubeError(error, 'Conflict') || left <= 0) throw error;
    }
  }
}
