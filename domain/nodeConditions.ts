import type { NodeMaintenanceStage } from '../api/nodeMaintenance.ts';
import type { ConditionFacts } from './conditions.ts';
import { compareNames } from './names.ts';

/** A maintenance that holds a node. */
export interface Holder {
  name: string;
  stage: Extract<NodeMaintenanceStage, 'Cordon' | 'Drain'>;
  /** Whether it is drained, and this node with it. */
  drained: boolean;
}

/**
 * "NodeMaintenance condition ... can be set on the node object to advertise the current phase of the maintenance"
 * (KEP-4212 > Status), by the condition types that Kubernetes 1.37 defines for it. The message names every maintenance
 * that holds the node. Without a holder the node has none of them.
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

/** Every holder by name, so that whoever looks at the node knows whom to ask; names are short, holders few. */
function heldBy(holders: readonly Holder[]): string {
  const names = holders
    .toSorted((a, b) => compareNames(a.name, b.name))
    .map(({ name, stage }) => `${name} (${stage})`);
  return `NodeMaintenance ${names.join(', ')}`;
}
