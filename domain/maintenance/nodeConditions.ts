import type { NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import type { ConditionFacts } from '../common/conditions.ts';
import { compareNames, listed } from '../common/names.ts';

/** A maintenance that holds a node. */
export interface Holder {
  name: string;
  stage: Extract<NodeMaintenanceStage, 'Cordon' | 'Drain'>;
  /** The maintenance is drained, and this node is empty. */
  drained: boolean;
}

/**
 * "NodeMaintenance condition ... can be set on the node object to advertise the current phase of the maintenance"
 * (KEP-4212 > Status), by the condition types that Kubernetes 1.37 defines for it. The message names every maintenance
 * that holds the node. A node without a holder has none of the conditions.
 */
export function nodeConditions(holders: readonly Holder[]): ConditionFacts[] {
  if (holders.length === 0) return [];
  const draining = holders.filter(({ stage }) => stage === 'Drain');
  const drained = draining.length > 0 && draining.every((holder) => holder.drained);
  return [
    { type: 'MaintenanceInProgress', status: 'True', reason: 'AdminRequested', message: heldBy(holders) },
    {
      type: 'DrainInProgress',
      status: draining.length > 0 && !drained ? 'True' : 'False',
      ...drainReason(draining, drained),
    },
    {
      type: 'Drained',
      status: drained ? 'True' : 'False',
      ...drainReason(draining, drained),
    },
  ];
}

function drainReason(draining: readonly Holder[], drained: boolean): { reason: string; message: string } {
  if (draining.length === 0)
    return { reason: 'NotRequested', message: 'No NodeMaintenance drains the node.' };
  return { reason: drained ? 'DrainCompleted' : 'AdminRequested', message: heldBy(draining) };
}

/** Names holders, so that users of the node know which maintenances to look at. */
function heldBy(holders: readonly Holder[]): string {
  const names = holders
    .toSorted((a, b) => compareNames(a.name, b.name))
    .map(({ name, stage }) => `${name} (${stage})`);
  return `NodeMaintenance ${listed(names)}`;
}
