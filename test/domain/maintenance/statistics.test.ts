import { describe, expect, test } from '@jest/globals';
import type { Evacuation } from '../../../api/evacuation.ts';
import { MAINTENANCE_FINALIZER } from '../../../api/names.ts';
import type {
  NodeMaintenance,
  NodeMaintenanceStage,
  NodeMaintenanceStatus,
} from '../../../api/nodeMaintenance.ts';
import { blockedPodsByReason, drainSecondsOf, nodesByStage } from '../../../domain/maintenance/statistics.ts';
import { emptyStatus, newNodeStatus } from '../../../domain/maintenance/status.ts';
import { pod } from '../../kit/builders.ts';

function maintenance(
  stage: NodeMaintenanceStage,
  status: Partial<NodeMaintenanceStatus> = {},
): NodeMaintenance {
  return {
    metadata: { name: stage.toLowerCase(), finalizers: [MAINTENANCE_FINALIZER] },
    spec: { stage, nodeSelector: { nodeSelectorTerms: [] } },
    status: { ...emptyStatus, ...status },
  } as NodeMaintenance;
}

const cordoned = (name: string) => ({ ...newNodeStatus(name), unschedulableBefore: false });
const nodeStatuses = (...names: string[]) => ({ nodeStatuses: names.map(cordoned) });

describe('the nodes by stage', () => {
  test('a node of several maintenances counts once, in Drain before Cordon before Complete', () => {
    const all = [
      maintenance('Complete', nodeStatuses('a', 'b', 'c')),
      maintenance('Cordon', nodeStatuses('a', 'b')),
      maintenance('Drain', nodeStatuses('a', 'd')),
    ];
    expect(nodesByStage(all)).toEqual({ Drain: 2, Cordon: 1, Complete: 1 });
    expect(nodesByStage(all.toReversed())).toEqual(nodesByStage(all));
  });

  test('a node that was never cordoned does not count, and none of a maintenance that is complete', () => {
    const waiting = maintenance('Drain', { nodeStatuses: [newNodeStatus('a')] });
    const complete = maintenance('Complete', {
      ...nodeStatuses('b'),
      stageStatuses: [{ name: 'Complete', startTimestamp: '2026-01-01T00:00:00Z' }],
    });
    complete.metadata.finalizers = [];
    expect(nodesByStage([waiting, complete])).toEqual({ Drain: 0, Cordon: 0, Complete: 0 });
  });
});

describe('the duration of a drain', () => {
  const stageStatuses = [{ name: 'Drain' as const, startTimestamp: '2026-01-01T00:00:00Z' }];
  const drained = (status: 'True' | 'False', lastTransitionTime: string) => ({
    stageStatuses,
    conditions: [{ type: 'Drained', status, reason: 'R', message: '', lastTransitionTime }],
  });

  test.each([
    { when: 'pods are left', status: drained('False', '2026-01-01T00:01:30Z'), want: undefined },
    { when: 'nothing is reported yet', status: { stageStatuses }, want: undefined },
    { when: 'it is drained', status: drained('True', '2026-01-01T00:01:30Z'), want: 90 },
    { when: 'it was empty from the start', status: drained('True', '2026-01-01T00:00:00Z'), want: 0 },
    { when: 'a user broke the time', status: drained('True', 'today'), want: undefined },
  ])('$when: $want', ({ status, want }) => {
    expect(drainSecondsOf(maintenance('Drain', status))).toBe(want);
  });
});

describe('the blocked pods by reason', () => {
  const blocked = (name: string, reason: string): Evacuation =>
    ({
      metadata: { name: `u-${name}`, namespace: 'shop' },
      spec: { podRef: { name, uid: 'u' } },
      status: {
        conditions: [{ type: 'Blocked', status: 'True', reason, message: '', lastTransitionTime: '' }],
      },
    }) as unknown as Evacuation;
  const listed = (name: string, reason: string) => ({
    blockedPods: [{ namespace: 'shop', name, node: 'n', reason, message: '' }],
  });
  const nonZero = (counts: Map<string, number>) =>
    Object.fromEntries([...counts].filter(([, count]) => count > 0));

  test('a pod that its Evacuation and two maintenances report counts once', () => {
    const status = listed('db-0', 'DisruptionBudget');
    const counts = blockedPodsByReason(
      [maintenance('Drain', status), maintenance('Drain', status)],
      [blocked('db-0', 'DisruptionBudget'), blocked('db-1', 'StuckTerminating')],
    );
    expect(nonZero(counts)).toEqual({ DisruptionBudget: 1, StuckTerminating: 1 });
  });

  test('a pod without an Evacuation counts while its maintenance drains', () => {
    const status = listed('db-0', 'EvacuationRejected');
    expect(nonZero(blockedPodsByReason([maintenance('Drain', status)], []))).toEqual({
      EvacuationRejected: 1,
    });
    expect(nonZero(blockedPodsByReason([maintenance('Complete', status)], []))).toEqual({});
  });

  test('a pod with an EvictionRequest counts, once', () => {
    const one = pod({ name: 'db-0', namespace: 'shop' });
    const byRequest = [{ pod: one, blocker: { reason: 'EvictionRequestUnanswered', message: '' } }];
    const all = [maintenance('Drain', listed('db-0', 'EvictionRequestUnanswered'))];
    expect(nonZero(blockedPodsByReason(all, [], byRequest))).toEqual({ EvictionRequestUnanswered: 1 });
  });

  test('a reason that an evacuator invented adds no label value', () => {
    const counts = blockedPodsByReason([], [blocked('a', 'Invented'), blocked('b', 'Other2')]);
    expect(nonZero(counts)).toEqual({ Other: 2 });
    expect([...counts.keys()]).not.toContain('Invented');
  });
});
