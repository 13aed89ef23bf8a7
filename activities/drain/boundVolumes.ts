import type { PersistentVolume, Pod } from '../../api/core.ts';
import { readClaimedVolumes } from '../../kube/claimedVolumes.ts';
import type { Kube } from '../../kube/client.ts';

/** The volume of a claim is read again after this time. */
const volumeAgeMs = 60_000;
/** Claims that are read in one pass; the next one continues. */
const maxClaimReads = 200;
const maxReadMs = 1_000;

/** The volumes that are bound to the claims of pods, as they were read last. */
export class BoundVolumes {
  readonly #kube: Kube;
  /** `namespace/claim` -> its volume, and when it was read, by performance.now(). */
  readonly #volumes = new Map<string, { volume: PersistentVolume | undefined; atMs: number }>();

  constructor(kube: Kube) {
    this.#kube = kube;
  }

  /** Reads the volumes of these pods that are due, and forgets all others. */
  async read(pods: readonly Pod[]): Promise<void> {
    const now = performance.now();
    const claims = pods.flatMap(({ metadata: { namespace = '' }, spec }) =>
      (spec.claims ?? []).map((name) => ({ namespace, name })),
    );
    const needed = new Set(claims.map(({ namespace, name }) => `${namespace}/${name}`));
    for (const key of this.#volumes.keys()) if (!needed.has(key)) this.#volumes.delete(key);
    // Those that have never been read come first.
    const due = claims
      .map((claim) => ({ claim, atMs: this.#volumes.get(`${claim.namespace}/${claim.name}`)?.atMs }))
      .filter(({ atMs }) => atMs === undefined || now - atMs >= volumeAgeMs)
      .toSorted((a, b) => (a.atMs ?? 0) - (b.atMs ?? 0))
      .slice(0, maxClaimReads)
      .map(({ claim }) => claim);
    if (due.length === 0) return;
    const read = await readClaimedVolumes(this.#kube, due, { endsAt: now + maxReadMs });
    for (const key of read.asked) this.#volumes.set(key, { volume: read.volumes.get(key), atMs: now });
  }

  /** Reports whether the volumes of all claims of the pod have been read, or may not be. */
  hasRead({ metadata: { namespace = '' }, spec: { claims = [] } }: Pod): boolean {
    return claims.every((name) => this.#volumes.has(`${namespace}/${name}`));
  }

  /** Returns the volumes by `namespace/claim`. */
  byClaim(): Map<string, PersistentVolume> {
    const bound = new Map<string, PersistentVolume>();
    for (const [key, { volume }] of this.#volumes) if (volume !== undefined) bound.set(key, volume);
    return bound;
  }
}
