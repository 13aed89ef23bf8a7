import {
  type Administrator,
  type AdministratorHold,
  claimByAdministrator,
  type HeldByAnother,
  type Predecessor,
  reasonProblem,
  releaseByAdministrator,
} from '../domain/administrator.ts';
import type { Kube } from '../kube/client.ts';
import { microTime } from '../kube/leaseRecord.ts';
import { LeaseObjects } from './leaseObjects.ts';

export type AdministratorAcquisition =
  | { readonly kind: 'Acquired'; readonly from: Predecessor | undefined }
  | HeldByAnother;

/** `holder` is whose hold it was. */
export type AdministratorReleased =
  | { readonly kind: 'Released'; readonly holder: string }
  | { readonly kind: 'NotHeld' }
  | HeldByAnother;

interface Force {
  /** Ends the hold of whoever has the node, who may be at work. */
  readonly force: boolean;
}

/**
 * Takes the Lease of a node for a person, who need not renew it. Writes the version that was read or nothing. Rejects with a
 * KubeError, or with an Error of one line for a bad reason, a bad name, or a node that does not exist.
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
    const claimed = claimByAdministrator(lease, hold, { force, now: kube.now().getTime() });
    if (claimed.kind === 'HeldByAnother') return claimed;
    const { acquireTime, renewTime, ...term } = claimed.term;
    const spec = { ...term, acquireTime: microTime(acquireTime), renewTime: microTime(renewTime) };
    if (lease === undefined) await objects.create(node, spec, {});
    else await objects.replace(lease, spec, {});
    return { kind: 'Acquired', from: claimed.from };
  });
}

/** "That value should be removed" (KEP-1411 > Release). Likewise. */
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
    const decision = releaseByAdministrator(lease, administrator, { force, now: kube.now().getTime() });
    if (decision.kind !== 'Release') return decision;
    const renewTime = microTime(kube.now());
    await objects.replace(lease, { holderIdentity: '', leaseDurationSeconds: null, renewTime }, {});
    return { kind: 'Released', holder: decision.holder };
  });
}
