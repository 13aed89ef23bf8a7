import type { NodeMaintenanceNodeStatus } from '../../api/nodeMaintenance.ts';
import { type KepMaintenance, maintenanceA, maintenanceB, maintenanceC } from './fixtures.ts';

/** A snapshot in KEP-4212 > Pod Selection and DrainTargets Example, and the actions that lead to it. */
export interface KepSnapshot {
  /** Sentence of the KEP. */
  quote: string;
  /** Maintenances to create. */
  create: readonly KepMaintenance[];
  /** Workloads whose budgets are relaxed. */
  relax: readonly string[];
  /** `.status.nodeStatuses` in the KEP, by name of the maintenance. */
  published: Readonly<Record<string, readonly NodeMaintenanceNodeStatus[]>>;
}

export const snapshots: readonly KepSnapshot[] = [
  {
    quote:
      'for the intersecting nodes, the entry with the lowest priority in the drainPlan is resolved first',
    create: [maintenanceA, maintenanceB],
    relax: [],
    published: {
      'maintenance-a': [
        status('one', 'Evacuating', 5_000, [100, 10]),
        status('two', 'Evacuating', 5_000, [30, 7]),
      ],
      'maintenance-b': [
        status('one', 'Evacuating (limited by maintenance-a)', 5_000, [100, 10]),
        status('three', 'Evacuating', 10_000, [45, 25]),
      ],
    },
  },
  {
    quote: 'If the node three is drained, then it has to wait for the node one',
    create: [],
    relax: ['three-9500', 'one-4000'],
    published: {
      'maintenance-b': [
        status('one', 'Evacuating (limited by maintenance-a)', 5_000, [100, 5]),
        status('three', 'Waiting for node one.', 10_000, [45, 0]),
      ],
    },
  },
  {
    quote: 'If the node one is drained, we still have to wait for the maintenance-a to drain node two',
    create: [],
    relax: ['one-4500', 'two-4000'],
    published: {
      'maintenance-a': [
        status('one', 'Waiting for node two.', 5_000, [100, 0]),
        status('two', 'Evacuating', 5_000, [30, 2]),
      ],
      'maintenance-b': [
        status('one', 'Waiting for node two (maintenance-a).', 5_000, [100, 0]),
        status('three', 'Waiting for node two (maintenance-a).', 10_000, [45, 0]),
      ],
    },
  },
  {
    quote: 'Once the node two drains, we can increment the drainTargets',
    create: [],
    relax: ['two-4500'],
    published: {
      'maintenance-a': [
        status('one', 'Evacuating (limited by maintenance-b)', 10_000, [70, 30]),
        status('two', 'Evacuating', 15_000, [21, 9]),
      ],
      'maintenance-b': [
        status('one', 'Evacuating', 10_000, [70, 30]),
        status('three', 'Waiting for node one.', 10_000, [45, 0]),
      ],
    },
  },
  {
    quote:
      'If an intersecting maintenance-c is created, it will be fast-forwarded for node one regardless of its drainPlan',
    create: [maintenanceC],
    relax: [],
    published: {
      'maintenance-c': [
        status('one', 'Evacuating (fast-forwarded by older maintenance-b)', 10_000, [70, 30]),
        status('four', 'Evacuating', 2_000, [20, 5]),
      ],
    },
  },
];

function status(
  name: string,
  drainMessage: string,
  podPriority: number,
  [podsPendingEvacuation, podsEvacuating]: readonly [number, number],
): NodeMaintenanceNodeStatus {
  return {
    nodeRef: { name },
    podsPendingEvacuation,
    podsEvacuating,
    drainMessage,
    drainTargets: [{ podPriority, podType: 'Default' }],
  };
}
