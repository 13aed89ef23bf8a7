import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { holdsNodes, stageOf } from '../common/stage.ts';

/** Maintenances that are created within this time of each other are taken for one request, such as one `kubectl apply`. */
const togetherMs = 10_000;
/** Time after its creation in which a maintenance waits for the others. They take less than a second, unless hundreds start at once. */
const maxWaitSeconds = 30;

/** The message of a maintenance while it waits. It names none of the others: each that starts would change the status of all that wait. */
export const awaitedCordonsText = `Evictions wait until maintenances that were created at the same time have cordoned their nodes, for ${maxWaitSeconds} s at most.`;

/**
 * Reports whether a maintenance that was created together with this one, or later, is about to cordon its nodes. Until it has, the replacement of an evicted
 * pod may start on one of them, and be evicted again. False when this one is older than 30 s, because others may never cordon a node. A maintenance
 * whose status says what its nodes wait for is not waited for.
 */
export function awaitsCordons(
  own: NodeMaintenance,
  maintenances: readonly NodeMaintenance[],
  nowMs: number,
): boolean {
  const createdMs = createdAtMs(own);
  if (!(nowMs - createdMs < maxWaitSeconds * 1_000)) return false;
  return maintenances.some(
    (one) =>
      one.metadata.uid !== own.metadata.uid &&
      holdsNodes(stageOf(one)) &&
      createdAtMs(one) >= createdMs - togetherMs &&
      !hasStarted(one),
  );
}

function createdAtMs({ metadata }: NodeMaintenance): number {
  return Date.parse(metadata.creationTimestamp ?? '');
}

/** Reports whether the status has the first pass over its nodes, which are recorded before they are cordoned. */
function hasStarted({ status }: NodeMaintenance): boolean {
  if (status === undefined) return false;
  return status.nodeStatuses.length > 0 || status.conditions.some(({ type }) => type === 'Drained');
}
