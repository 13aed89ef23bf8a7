import type { Condition, Node } from '../../../api/core.ts';
import type { MaintenanceWindow } from '../../../api/maintenanceWindow.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import type { WindowMaintenance } from '../../../domain/windows/windowMaintenance.ts';
import { revisionOf } from '../../../domain/common/revision.ts';
import type { ConditionFacts } from '../../../domain/common/conditions.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import {
  nodeAdvanced,
  nodeCancelled,
  nodeFailed,
  nodeSucceeded,
  advanceRequested,
} from '../../../domain/windows/nodeResult.ts';
import { progressWhileClosed } from '../../../domain/windows/progress.ts';

const selector = {
  nodeSelectorTerms: [{ matchExpressions: [{ key: 'rack', operator: 'In' as const, values: ['a'] }] }],
};
const spec = {
  nodeSelector: selector,
  work: { type: 'None' },
  template: {},
} as unknown as MaintenanceWindow['spec'];
const revision = revisionOf(spec);

const node = (name: string, rack = 'a'): Node => ({
  metadata: { name, uid: `uid of ${name}`, labels: { rack } },
  spec: {},
});

interface Differs {
  result?: ConditionFacts;
  isCompleted?: boolean;
  revision?: string;
  uid?: string;
}

function maintenanceOf(name: string, differs: Differs = {}): WindowMaintenance {
  const { result, isCompleted = false, uid = `uid of ${name}` } = differs;
  const conditions: Condition[] = result ? [{ ...result, lastTransitionTime: '2026-11-21T12:00:00Z' }] : [];
  const stageStatuses = isCompleted
    ? [{ name: 'Complete' as const, startTimestamp: '2026-11-21T12:00:00Z' }]
    : [];
  const matchFields = [{ key: 'metadata.name', operator: 'In' as const, values: [name] }];
  const stage = isCompleted ? 'Complete' : 'Drain';
  const nodeSelector = { nodeSelectorTerms: [{ matchFields }] };
  const maintenance = {
    metadata: { name: `maintenance-of-${name}` },
    spec: { stage, nodeSelector } as NodeMaintenance['spec'],
    status: { ...emptyStatus, conditions, stageStatuses },
  };
  return { window: 'patch', revision: differs.revision ?? revision, node: name, nodeUid: uid, maintenance };
}

const nodes = [node('n1'), node('n2'), node('n3'), node('other', 'b')];
const progress = (...maintenances: WindowMaintenance[]) =>
  progressWhileClosed({ spec }, { nodes, maintenances });

describe('the progress of a closed window', () => {
  test('counts the selected nodes, and the nodes that have succeeded in its revision', () => {
    expect(progress(maintenanceOf('n1', { result: nodeSucceeded, isCompleted: true }))).toEqual({
      revision,
      summary: '1/3',
      nodes: 3,
      done: 1,
      inProgress: 0,
      failed: 0,
      remaining: 2,
      failures: [],
    });
  });

  test.each<{ what: string; of: WindowMaintenance; want: object }>([
    {
      what: 'a failed node',
      of: maintenanceOf('n1', { result: nodeFailed('JobFailed', 'why') }),
      want: { failed: 1, remaining: 2, failures: [{ node: 'n1', reason: 'JobFailed', message: 'why' }] },
    },
    {
      what: 'a node that failed in an earlier revision: the failure is not resolved',
      of: maintenanceOf('n1', { result: nodeFailed('JobFailed', 'why'), revision: 'old' }),
      want: { failed: 1, remaining: 2 },
    },
    {
      what: 'a failed node that is not selected any more',
      of: maintenanceOf('other', { result: nodeFailed('JobFailed', 'why') }),
      want: { nodes: 3, failed: 1, remaining: 3 },
    },
    { what: 'a node in progress', of: maintenanceOf('n1'), want: { inProgress: 1, remaining: 2 } },
    {
      what: 'an advanced node that is not ready yet',
      of: maintenanceOf('n1', { result: advanceRequested, isCompleted: true }),
      want: { inProgress: 1, remaining: 2 },
    },
    {
      what: 'an advanced node that had failed, before it is uncordoned',
      of: maintenanceOf('n1', { result: nodeAdvanced }),
      want: { inProgress: 1, failed: 0, failures: [] },
    },
    {
      what: 'an advanced node that had failed, after it is uncordoned',
      of: maintenanceOf('n1', { result: nodeAdvanced, isCompleted: true }),
      want: { done: 1, failed: 0, remaining: 2 },
    },
    {
      what: 'a cancelled node: it is maintained again',
      of: maintenanceOf('n1', { result: nodeCancelled, isCompleted: true }),
      want: { done: 0, inProgress: 0, remaining: 3 },
    },
    {
      what: 'a node that succeeded in an earlier revision: it is maintained again',
      of: maintenanceOf('n1', { result: nodeSucceeded, isCompleted: true, revision: 'old' }),
      want: { done: 0, remaining: 3 },
    },
    {
      what: 'a node that was recreated after it succeeded: it is maintained again',
      of: maintenanceOf('n1', { result: nodeSucceeded, isCompleted: true, uid: 'previous' }),
      want: { done: 0, remaining: 3 },
    },
  ])('with $what', ({ of, want }) => {
    expect(progress(of)).toMatchObject(want);
  });

  test('limits the number and the length of failures', () => {
    const failed = Array.from({ length: 30 }, (_, i) =>
      maintenanceOf(`gone-${i}`, { result: nodeFailed('JobFailed', 'x'.repeat(2_000)) }),
    );
    const { failures, failed: count } = progress(...failed);
    expect(count).toBe(30);
    expect(failures).toHaveLength(20);
    expect(failures[0]?.message).toHaveLength(1_000);
  });
});
