import { describe, expect, test } from '@jest/globals';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../../api/nodeMaintenance.ts';
import { evictionWarnings } from '../../../domain/admission/eviction.ts';
import { pod } from '../../kit/builders.ts';

const maintenance = (
  name: string,
  stage: NodeMaintenanceStage,
  nodes: Record<string, boolean | undefined> = { 'node-1': false },
): NodeMaintenance => ({
  metadata: { name },
  spec: { nodeSelector: { nodeSelectorTerms: [] }, stage },
  status: {
    nodeStatuses: Object.entries(nodes).map(([node, unschedulableBefore]) => ({
      nodeRef: { name: node },
      ...(unschedulableBefore !== undefined && { unschedulableBefore }),
    })),
  } as NodeMaintenance['status'] & object,
});

const draining = (name: string) =>
  `NodeMaintenance ${name} (stage Drain) holds node node-1 and evacuates its pods by itself, in the order of its drain plan: a direct eviction does not follow that order`;

describe('a user who evicts a pod directly is warned of', () => {
  test.each([
    { when: 'a maintenance that drains its node', of: [maintenance('a', 'Drain')], want: [draining('a')] },
    {
      when: 'a maintenance that holds its node',
      of: [maintenance('a', 'Cordon')],
      want: [
        'NodeMaintenance a (stage Cordon) holds node node-1 and will evacuate its pods by itself in stage Drain: a direct eviction comes before that',
      ],
    },
    {
      when: 'all of them, by name',
      of: [maintenance('b', 'Drain'), maintenance('a', 'Drain')],
      want: [draining('a'), draining('b')],
    },
    {
      when: 'three of them, and how many more there are',
      of: ['e', 'd', 'c', 'b', 'a'].map((name) => maintenance(name, 'Drain')),
      want: [draining('a'), draining('b'), draining('c'), '2 more NodeMaintenances hold node node-1'],
    },
    { when: 'none in stage Idle', of: [maintenance('a', 'Idle')], want: [] },
    { when: 'none that is complete', of: [maintenance('a', 'Complete')], want: [] },
    { when: 'none of another node', of: [maintenance('a', 'Drain', { 'node-2': false })], want: [] },
    {
      when: 'none that waits for its node',
      of: [maintenance('a', 'Drain', { 'node-1': undefined })],
      want: [],
    },
    {
      when: 'none without a status',
      of: [{ ...maintenance('a', 'Drain'), status: undefined as never }],
      want: [],
    },
  ])('$when', ({ of, want }) => {
    expect(evictionWarnings(pod(), of)).toEqual(want);
  });

  test('none while its pod has no node', () => {
    const { metadata, status } = pod();
    expect(evictionWarnings({ metadata, status, spec: {} }, [maintenance('a', 'Drain')])).toEqual([]);
  });
});
