import type { PersistentVolume } from '../api/core.ts';
import { forEachBounded } from './bounded.ts';
import type { Kube } from './client.ts';
import { isRejection } from './errors.ts';
import { resources } from './resources.ts';

const concurrentReads = 8;

/** A claim of a pod. */
interface ClaimName {
  readonly namespace: string;
  readonly name: string;
}

/**
 * Returns the volumes that are bound to claims, by `namespace/claim`. A claim that does not exist, is not bound, or may not be read, is missing.
 * Starts no read after `endsAt`, by performance.now(). `unread` counts the claims that could not be read.
 */
export async function readClaimedVolumes(
  kube: Kube,
  claims: readonly ClaimName[],
  { endsAt = Infinity, signal }: { endsAt?: number; signal?: AbortSignal | undefined } = {},
): Promise<{ volumes: Map<string, PersistentVolume>; unread: number }> {
  const volumes = new Map<string, PersistentVolume>();
  let forbidden = 0;
  const left = await forEachBounded(
    concurrentReads,
    claims,
    async ({ namespace, name }) => {
      try {
        const claim = await kube.get(resources.persistentVolumeClaims, { namespace, name }, { signal });
        if (!claim?.spec.volumeName) return;
        const volume = await kube.get(
          resources.persistentVolumes,
          { name: claim.spec.volumeName },
          { signal },
        );
        if (volume !== undefined) volumes.set(`${namespace}/${name}`, volume);
      } catch (error) {
        if (!isRejection(error)) throw error;
        forbidden += 1;
      }
    },
    endsAt,
  );
  return { volumes, unread: left + forbidden };
}
