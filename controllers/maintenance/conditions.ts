import { isDeepStrictEqual } from 'node:util';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { type ConditionFacts, withCondition } from '../../domain/common/conditions.ts';
import { emptyStatus } from '../../domain/maintenance/status.ts';
import type { Kube } from '../../kube/client.ts';
import { ignoreNotFound } from '../../kube/errors.ts';
import { writeMaintenanceStatus } from '../../kube/maintenanceStatus.ts';
import { resources } from '../../kube/resources.ts';
import { retryOnConflict } from '../../kube/retryOnConflict.ts';

const attempts = 3;

/**
 * Writes one condition of a NodeMaintenance. The activities write the status, too, so the write carries the resourceVersion and is decided
 * again after a conflict. Resolves with false if the object is gone or has the condition already. `now` is the time of the transition.
 */
export async function publishCondition(
  kube: Kube,
  { metadata: { name, uid } }: NodeMaintenance,
  facts: ConditionFacts,
  now: Date = kube.now(),
): Promise<boolean> {
  return retryOnConflict(attempts, async () => {
    const latest = await kube.get(resources.nodeMaintenances, { name });
    if (latest === undefined || latest.metadata.uid !== uid) return false;
    const before = latest.status ?? emptyStatus;
    const conditions = withCondition(before.conditions, facts, now.toISOString());
    if (isDeepStrictEqual(conditions, before.conditions)) return false;
    const status = latest.status === undefined ? { ...emptyStatus, conditions } : { conditions };
    const patched = await writeMaintenanceStatus(kube, latest.metadata, status).catch(ignoreNotFound);
    return patched !== undefined;
  });
}
