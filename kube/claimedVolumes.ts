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

interface ClaimedVolumes {
  /** Volumes by `namespace/claim`. A claim that does not exist, is not bound, or may not be read, is missing. */
  readonly volumes: Map<string, PersistentVolume>;
  /** The claims, as `namespace/claim`, that the apiserver was asked about, also those that may not be read. */
  readonly asked: ReadonlySet<string>;
  /** The number of claims that could not be read. */
  readonly unread: number;
}

/** Reads the volumes that are bound to claims. Starts no read after `endsAt`, by performance.now(). */
export async function readClaimedVolumes(
  kube: Kube,
  claims: readonly ClaimName[],
  { endsAt = Infinity, signal }: { endsAt?: number; signal?: AbortSignal | undefined } = {},
): Promise<ClaimedVolumes> {
  const volumes = new Map<string, PersistentVolume>();
  const asked = new Set<string>();
  let forbidden = 0;
  const left = await forEachBounded(
    concurrentReads,
    claims,
    async ({ namespace, name }) => {
      try {
        asked.add(`${namespace}/${name}`);
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
    { endsAt },
  );
  return { volumes, asked, unread: left + forbidden };
}
