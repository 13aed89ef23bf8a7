import { describe, expect, test } from '@jest/globals';
import type { NodeMaintenance, NodeMaintenanceStatus } from '../../../api/nodeMaintenance.ts';
import { awaitsCordons } from '../../../domain/drain/awaitedCordons.ts';
import { emptyStatus, newNodeStatus } from '../../../domain/maintenance/status.ts';

const now = Date.parse('2026-01-01T12:00:00Z');

const created = (
  name: string,
  secondsAgo: number,
  { stage = 'Drain', status }: { stage?: 'Idle' | 'Cordon' | 'Drain'; status?: NodeMaintenanceStatus } = {},
): NodeMaintenance => ({
  metadata: { name, uid: name, creationTimestamp: new Date(now - secondsAgo * 1_000).toISOString() },
  spec: { stage, nodeSelector: { nodeSelectorTerms: [] } },
  ...(status && { status }),
});

const recorded = { ...emptyStatus, nodeStatuses: [newNodeStatus('one')] };
const condition = { status: 'False', message: '', lastTransitionTime: '' } as const;
const withoutNodes: NodeMaintenanceStatus = {
  ...emptyStatus,
  conditions: [{ ...condition, type: 'Drained', reason: 'NoNodeMatches' }],
};

describe('a maintenance awaits the cordons', () => {
  const own = created('own', 3);

  test.each([
    { when: 'of one that was created with it', other: created('other', 3), want: true },
    { when: 'of one that was created some seconds before', other: created('other', 12), want: true },
    { when: 'of one that was created later', other: created('other', 0), want: true },
    { when: 'of one that only cordons', other: created('other', 3, { stage: 'Cordon' }), want: true },
    {
      when: 'of one that has not recorded its nodes',
      other: created('other', 3, { status: emptyStatus }),
      want: true,
    },
    { when: 'not of itself', other: own, want: false },
    {
      when: 'not of one that has recorded its nodes',
      other: created('other', 3, { status: recorded }),
      want: false,
    },
    {
      when: 'not of one that selects no node',
      other: created('other', 3, { status: withoutNodes }),
      want: false,
    },
    { when: 'not of one that is in Idle', other: created('other', 3, { stage: 'Idle' }), want: false },
    { when: 'not of one that has never started since long before', other: created('other', 14), want: false },
  ])('$when', ({ other, want }) => {
    expect(awaitsCordons(own, [own, other], now)).toBe(want);
  });

  test('for half a minute at most', () => {
    const other = created('other', 0);
    expect(awaitsCordons(created('own', 29), [other], now)).toBe(true);
    expect(awaitsCordons(created('own', 30), [other], now)).toBe(false);
  });

  test('not if its own creation is unknown', () => {
    const { metadata, ...rest } = created('own', 3);
    const unknown = { ...rest, metadata: { name: metadata.name, uid: 'own' } };
    expect(awaitsCordons(unknown, [created('other', 3)], now)).toBe(false);
  });
});
