import { describe, expect, test } from '@jest/globals';
import type { NodeMaintenance, NodeMaintenanceStatus } from '../../../api/nodeMaintenance.ts';
import {
  interventionReasons,
  detailsSnapshotAt,
  isDetailsSnapshot,
} from '../../../domain/maintenance/detailsSnapshot.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import { labelled, pods } from '../../kit/builders.ts';

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

describe('a details snapshot', () => {
  const long = 'x'.repeat(2_000);
  const snapshots = [
    maintenance(),
    maintenance({
      drainDeadline: {
        time: at,
        steps: [
          { time: at, action: 'Notify' },
          { time: at, action: 'Report' },
        ],
      },
    }),
    maintenance({}, { stage: 'Idle' }),
    maintenance(
      {
        drainTier: { number: 1, total: 2 },
        nodeStatuses: Array.from({ length: 40 }, (_, index) =>
          nodeStatus(`${'n'.repeat(240)}-${index}`, 3, 5),
        ),
        podsBlocked: 30,
        blockedPods: Array.from({ length: 20 }, (_, index) =>
          blocked('p'.repeat(253), 'n'.repeat(253), 'EvictionRejected', `${index} ${long}`),
        ),
      },
      { reason: long },
    ),
  ].map((one) => detailsSnapshotAt(one, at));

  test.each(snapshots)('is recognized after it was sent: $stage', (snapshot) => {
    expect(isDetailsSnapshot(JSON.parse(JSON.stringify(snapshot)))).toBe(true);
  });

  test.each([
    { stage: 'Paint' },
    { rows: 'many' },
    {
      rows: Array.from({ length: 16 }, () => ({
        node: 'n',
        podsToEvacuate: 0,
        podsEvacuated: 0,
        message: '',
      })),
    },
    { rows: [{ node: 'n', podsToEvacuate: -1, podsEvacuated: 0, message: '' }] },
    { rows: [{ node: 'n', podsToEvacuate: 0, podsEvacuated: 0, message: long }] },
    { causes: [null] },
    { more: 1.5 },
    { at: 'soon' },
    { reason: long },
    { more: undefined },
    { html: '<b>' },
  ])('is not recognized with %j', (differs) => {
    const sent: unknown = JSON.parse(JSON.stringify({ ...snapshots[0], ...differs }));
    expect(isDetailsSnapshot(sent)).toBe(false);
  });

  test('has the current tier and the start of the stage', () => {
    const drainTier = { number: 1, total: 2 };
    expect(detailsSnapshotAt(maintenance({ drainTier }, { reason: 'firmware' }), at)).toMatchObject({
      at,
      stage: 'Drain',
      since: '2026-01-01T12:00:00Z',
      reason: 'firmware',
      drainTier,
      tier: 'Default pods with app=web and priority up to 1000',
    });
  });

  test('has the deadline and its next notification, until the nodes were drained', () => {
    const time = '2026-01-01T14:00:00Z';
    const notify = { time: '2026-01-01T13:00:00Z', action: 'Notify' as const };
    const steps = [notify, { time, action: 'Delete' as const }];
    const deadlineOf = (differs: object) =>
      detailsSnapshotAt(
        maintenance(
          { drainDeadline: { time, steps, ...differs } },
          { drainDeadline: { after: '2h', onDeadline: 'Delete', steps: [] } },
        ),
        at,
      ).deadline;
    expect(deadlineOf({})).toBe(
      `${time}: pods that are left are deleted one grace period earlier; the next notification is due at ${notify.time}`,
    );
    expect(deadlineOf({ steps: [{ ...notify, doneAt: at }, steps[1]] })).toBe(
      `${time}: pods that are left are deleted one grace period earlier`,
    );
    expect(deadlineOf({ drainedAt: at })).toBeUndefined();
  });

  test('has no tier until one that contains pods is reached, and none outside of Drain', () => {
    expect(detailsSnapshotAt(maintenance(), at)).not.toHaveProperty('tier');
    const drainTier = { number: 1, total: 2 };
    const cordoned = detailsSnapshotAt(maintenance({ drainTier }, { stage: 'Cordon' }), at);
    expect(cordoned).not.toHaveProperty('tier');
    expect(cordoned).not.toHaveProperty('since');
  });

  test('sorts nodes with blocked pods first, then nodes with pods left, then by name', () => {
    const snapshot = detailsSnapshotAt(
      maintenance({
        nodeStatuses: [nodeStatus('a', 0, 4), nodeStatus('b', 1), nodeStatus('c', 2), nodeStatus('d', 0)],
        podsBlocked: 1,
        blockedPods: [blocked('db', 'c', 'DisruptionBudget')],
      }),
      at,
    );
    expect(snapshot.rows.map(({ node }) => node)).toEqual(['c', 'b', 'a', 'd']);
    expect(snapshot).toMatchObject({ podsToEvacuate: 3, podsEvacuated: 4, podsBlocked: 1, more: 0 });
  });

  test('stays small with many nodes and causes', () => {
    const many = Array.from({ length: 5_000 }, (_, index) => `node-${String(index).padStart(4, '0')}`);
    const snapshot = detailsSnapshotAt(
      maintenance({
        nodeStatuses: many.map((name, index) => nodeStatus(name, index % 2)),
        blockedPods: many.map((name) => blocked('x', name, 'EvictionRejected', `${name} ${'y'.repeat(900)}`)),
      }),
      at,
    );
    expect(snapshot).toMatchObject({ podsToEvacuate: 2_500, more: 4_985, moreCauses: 4_995 });
    expect(snapshot.rows.length + snapshot.more).toBe(5_000);
    expect(JSON.stringify(snapshot).length).toBeLessThan(6_000);
  });

  test('has each cause once, with its pods, and causes that require intervention first', () => {
    const blockedPods = [
      blocked('web-1', 'a', 'DisruptionBudget'),
      blocked('web-2', 'b', 'DisruptionBudget'),
      blocked('db', 'b', 'StuckTerminating'),
    ];
    expect(detailsSnapshotAt(maintenance({ blockedPods }), at).causes).toEqual([
      { message: 'StuckTerminating.', requiresIntervention: true, pods: ['shop/db (b)'], morePods: 0 },
      {
        message: 'DisruptionBudget.',
        requiresIntervention: false,
        pods: ['shop/web-1 (a)', 'shop/web-2 (b)'],
        morePods: 0,
      },
    ]);
  });
});

describe('the reasons that require intervention', () => {
  const stuck = blocked('db', 'a', 'EvacuationDeleted');

  test('change with the causes, and not with the pods of a cause', () => {
    const one = interventionReasons(maintenance({ blockedPods: [stuck] }));
    expect(one).not.toBe('');
    expect(interventionReasons(maintenance({ blockedPods: [stuck, { ...stuck, name: 'other' }] }))).toBe(one);
    const rejected = blocked('api', 'a', 'EvictionRejected');
    expect(interventionReasons(maintenance({ blockedPods: [stuck, rejected] }))).not.toBe(one);
  });

  test('are empty for transient blockers and after the drain', () => {
    const waits = blocked('web', 'a', 'DisruptionBudget');
    const late = blocked('web', 'a', 'StuckTerminating');
    expect(interventionReasons(maintenance({ blockedPods: [waits, late] }))).toBe('');
    expect(interventionReasons(maintenance({ blockedPods: [stuck] }, { stage: 'Complete' }))).toBe('');
  });
});
