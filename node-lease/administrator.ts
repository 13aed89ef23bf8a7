import {
  type Administrator,
  type AdministratorHold,
  decideAdministratorAcquisition,
  decideAdministratorRelease,
  type HeldByAnother,
  type PreviousHolder,
  reasonProblem,
} from '../domain/leases/administrator.ts';
import type { Kube } from '../kube/client.ts';
import { microTime } from '../kube/leaseRecord.ts';
import { LeaseObjects } from './leaseObjects.ts';

export type AdministratorAcquisition =
  | { readonly kind: 'Acquired'; readonly previous: PreviousHolder | undefined }
  | HeldByAnother;

/** Result of a release; `holder` is the previous holder. */
export type AdministratorReleased =
  | { readonly kind: 'Released'; readonly holder: string }
  | { readonly kind: 'NotHeld' }
  | HeldByAnother;

interface Force {
  /** Takes the Lease from its current holder, which may be working on the node. */
  readonly force: boolean;
}

/**
 * Acquires the Lease of a node for an administrator, who does not need to renew it. Fails if the Lease was changed since it was read.
 * Rejects with a KubeError, or with a one-line Error for an invalid reason, an invalid name, or a node that does not exist.
 */
export async function acquireAsAdministrator(
  kube: Kube,
  node: string,
  hold: AdministratorHold,
  { force }: Force,
): Promise<AdministratorAcquisition> {
  const problem = reasonProblem(hold.reason);
  if (problem !== undefined) throw new Error(`reason: ${problem}`);
  const objects = new LeaseObjects(kube);
  return objects.decide<AdministratorAcquisition>(node, {}, async (lease) => {
    const decision = decideAdministratorAcquisition(lease, hold, { force, now: kube.now().getTime() });
    if (decision.kind === 'HeldByAnother') return decision;
    const { acquireTime, renewTime, ...term } = decision.term;
    const spec = { ...term, acquireTime: microTime(acquireTime), renewTime: microTime(renewTime) };
    if (lease === undefined) await objects.create(node, spec, {});
    else await objects.replace(lease, spec, {});
    return { kind: 'Acquired', previous: decision.previous };
  });
}

/** Releases the Lease of a node: "That value should be removed" (KEP-1411 > Release). Rejects as `acquireAsAdministrator` does. */
export async function releaseAsAdministrator(
  kube: Kube,
  node: string,
  administrator: Administrator,
  { force }: Force,
): Promise<AdministratorReleased> {
  const objects = new LeaseObjects(kube);
  return objects.decide<AdministratorReleased>(node, {}, async (lease) => {
    if (lease === undefined) {
      await objects.nodeOf(node, {});
      return { kind: 'NotHeld' };
    }
    const decision = decideAdministratorRelease(lease, administrator, { force, now: kube.now().getTime() });
    if (decision.kind !== 'Release') return decision;
    const renewTime = microTime(kube.now());
    await objects.replace(lease, { holderIdentity: '', leaseDurationSeconds: null, renewTime }, {});
    return { kind: 'Released', holder: decision.holder };
  });
}
