import { describe, expect, test } from '@jest/globals';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { maintenancesTargeting } from '../../../domain/drain/drainingMaintenances.ts';
import { emptyStatus, newNodeStatus } from '../../../domain/maintenance/status.ts';
import { pod, pods } from '../../kit/builders.ts';

const node = { metadata: { name: 'one', labels: { rack: '7' } }, spec: {} };

/** A drain at the first position of its plan, which has published targets for some nodes. */
const draining = (
  published: Record<string, number>,
  stage: 'Cordon' | 'Drain' = 'Drain',
): NodeMaintenance => ({
  metadata: { name: 'rack-7' },
  spec: {
    stage,
    nodeSelector: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'rack', operator: 'Exists' }] }] },
    drainPlan: [pods(1_000), pods(5_000)],
  },
  status: {
    ...emptyStatus,
    nodeStatuses: Object.entries(published).map(([name, podPriority]) => ({
      ...newNodeStatus(name),
      drainTargets: [pods(podPriority)],
    })),
  },
});

describe('a maintenance targets a pod', () => {
  test.each([
    { when: 'up to its position', of: draining({ one: 1_000 }), priority: 1_000, want: true },
    { when: 'not beyond its position', of: draining({ one: 1_000 }), priority: 2_000, want: false },
    {
      when: 'beyond its position on a node that was fast-forwarded by another maintenance',
      of: draining({ one: 5_000 }),
      priority: 2_000,
      want: true,
    },
    {
      when: 'not beyond its position if another node was fast-forwarded',
      of: draining({ one: 1_000, two: 5_000 }),
      priority: 2_000,
      want: false,
    },
    { when: 'on a node for which it has published nothing yet', of: draining({}), priority: 0, want: true },
    { when: 'not while it only cordons', of: draining({ one: 5_000 }, 'Cordon'), priority: 0, want: false },
  ])('$when', ({ of, priority, want }) => {
    expect(maintenancesTargeting(pod({ priority }), node, [of])).toEqual(want ? [of] : []);
  });
});
