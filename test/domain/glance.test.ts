import { describe, expect, test } from '@jest/globals';
import type { NodeMaintenance, NodeMaintenanceStatus } from '../../api/nodeMaintenance.ts';
import { awaitedOfPeople, glanceAt } from '../../domain/glance.ts';
import { emptyStatus } from '../../domain/status.ts';
import { labelled, pods } from '../kit/builders.ts';

const at = '2026-01-01T12:01:00Z';

const nodeStatus = (name: string, left: number, peak = left) => ({
  nodeRef: { name },
  drainTargets: [],
  drainMessage: left > 0 ? 'Evacuating' : 'Drained',
  podsPendingEvacuation: left,
  podsEvacuating: 0,
  podsPeak: peak,
});

const blocked = (name: string, node: string, reason: string, message = `${reason}.`) => ({
  namespace: 'shop',
  name,
  node,
  reason,
  message,
});

function maintenance(
  status: Partial<NodeMaintenanceStatus> = {},
  spec: Partial<NodeMaintenance['spec']> = {},
): NodeMaintenance {
  return {
    metadata: { name: 'rack-7', uid: 'rack-7' },
    spec: {
      stage: 'Drain',
      drainPlan: [labelled(pods(1_000), { app: 'web' }), pods(1_000)],
      nodeSelector: { nodeSelectorTerms: [] },
      ...spec,
    },
    status: {
      ...emptyStatus,
      stageStatuses: [{ name: 'Drain', startTimestamp: '2026-01-01T12:00:00Z' }],
      ...status,
    },
  };
}

describe('A glance at a maintenance', () => {
  test('tells the tier, the one after it, and since when', () => {
    expect(glanceAt(maintenance({}, { reason: 'firmware' }), at)).toMatchObject({
      at,
      stage: 'Drain',
      since: '2026-01-01T12:00:00Z',
      reason: 'firmware',
      tier: 'Default pods with app=web up to 1000',
      nextTier: 'Default pods up to 1000',
    });
  });

  test('names no tier after the last, and none outside of Drain', () => {
    expect(glanceAt(maintenance({ drainPosition: 13 }), at)).not.toHaveProperty('nextTier');
    const cordoned = glanceAt(maintenance({}, { stage: 'Cordon' }), at);
    expect(cordoned).not.toHaveProperty('tier');
    expect(cordoned).not.toHaveProperty('since');
  });

  test('has nodes with blocked pods first, then those with pods left, then by name', () => {
    const seen = glanceAt(
      maintenance({
        nodeStatuses: [nodeStatus('a', 0, 4), nodeStatus('b', 2), nodeStatus('c', 1), nodeStatus('d', 0)],
        podsBlocked: 1,
        blockedPods: [blocked('db', 'c', 'DisruptionBudget')],
      }),
      at,
    );
    expect(seen.rows.map(({ node }) => node)).toEqual(['c', 'b', 'a', 'd']);
    expect(seen).toMatchObject({ podsLeft: 3, podsEvacuated: 4, podsBlocked: 1, more: 0 });
  });

  test('stays small, however many nodes and causes there are', () => {
    const many = Array.from({ length: 5_000 }, (_, index) => `node-${String(index).padStart(4, '0')}`);
    const seen = glanceAt(
      maintenance({
        nodeStatuses: many.map((name, index) => nodeStatus(name, index % 2)),
        blockedPods: many.map((name) => blocked('x', name, 'EvictionRefused', `${name} ${'y'.repeat(900)}`)),
      }),
      at,
    );
    expect(seen).toMatchObject({ podsLeft: 2_500, more: 4_985, moreCauses: 4_995 });
    expect(seen.rows.length + seen.more).toBe(5_000);
    expect(JSON.stringify(seen).length).toBeLessThan(6_000);
  });

  test('has each cause once, with its pods, and those that need a person first', () => {
    const blockedPods = [
      blocked('web-1', 'a', 'DisruptionBudget'),
      blocked('web-2', 'b', 'DisruptionBudget'),
      blocked('db', 'b', 'StuckTerminating'),
    ];
    expect(glanceAt(maintenance({ blockedPods }), at).causes).toEqual([
      { message: 'StuckTerminating.', needsAPerson: true, pods: ['shop/db (b)'], morePods: 0 },
      {
        message: 'DisruptionBudget.',
        needsAPerson: false,
        pods: ['shop/web-1 (a)', 'shop/web-2 (b)'],
        morePods: 0,
      },
    ]);
  });
});

describe('What is awaited of people', () => {
  const stuck = blocked('db', 'a', 'EvacuationDeleted');

  test('is another text when something else is, and the same for other pods of the same cause', () => {
    const one = awaitedOfPeople(maintenance({ blockedPods: [stuck] }));
    expect(one).not.toBe('');
    expect(awaitedOfPeople(maintenance({ blockedPods: [stuck, { ...stuck, name: 'other' }] }))).toBe(one);
    const refused = blocked('api', 'a', 'EvictionRefused');
    expect(awaitedOfPeople(maintenance({ blockedPods: [stuck, refused] }))).not.toBe(one);
  });

  test('is nothing where waiting may help, or the drain is over', () => {
    const waits = blocked('web', 'a', 'DisruptionBudget');
    const late = blocked('web', 'a', 'StuckTerminating');
    expect(awaitedOfPeople(maintenance({ blockedPods: [waits, late] }))).toBe('');
    expect(awaitedOfPeople(maintenance({ blockedPods: [stuck] }, { stage: 'Complete' }))).toBe('');
  });
});
