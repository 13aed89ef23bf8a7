import type { Condition, Node } from '../../api/core.ts';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { TurnOfNode } from '../../api/windowTurn.ts';
import { revisionOf } from '../../domain/revision.ts';
import type { ConditionFacts } from '../../domain/conditions.ts';
import { emptyStatus } from '../../domain/status.ts';
import {
  turnAdvanced,
  turnCancelled,
  turnFailed,
  turnSucceeded,
  workAdvanced,
} from '../../domain/turnVerdict.ts';
import { progressWhileClosed } from '../../domain/windowProgress.ts';

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
  verdict?: ConditionFacts;
  isGivenBack?: boolean;
  revision?: string;
  uid?: string;
}

function turn(name: string, differs: Differs = {}): TurnOfNode {
  const { verdict, isGivenBack = false, uid = `uid of ${name}` } = differs;
  const conditions: Condition[] = verdict ? [{ ...verdict, lastTransitionTime: '2026-11-21T12:00:00Z' }] : [];
  const stageStatuses = isGivenBack
    ? [{ name: 'Complete' as const, startTimestamp: '2026-11-21T12:00:00Z' }]
    : [];
  const matchFields = [{ key: 'metadata.name', operator: 'In' as const, values: [name] }];
  const stage = isGivenBack ? 'Complete' : 'Drain';
  const nodeSelector = { nodeSelectorTerms: [{ matchFields }] };
  const maintenance = {
    metadata: { name: `turn-of-${name}` },
    spec: { stage, nodeSelector } as NodeMaintenance['spec'],
    status: { ...emptyStatus, conditions, stageStatuses },
  };
  return { window: 'patch', revision: differs.revision ?? revision, node: name, nodeUid: uid, maintenance };
}

const nodes = [node('n1'), node('n2'), node('n3'), node('other', 'b')];
const progress = (...turns: TurnOfNode[]) => progressWhileClosed({ spec }, { nodes, turns });

describe('the progress of a window that is closed', () => {
  test('counts the nodes that it selects, and those that had their turn in its revision', () => {
    expect(progress(turn('n1', { verdict: turnSucceeded, isGivenBack: true }))).toEqual({
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

  test.each<{ what: string; of: TurnOfNode; want: object }>([
    {
      what: 'a turn that failed',
      of: turn('n1', { verdict: turnFailed('JobFailed', 'why') }),
      want: { failed: 1, remaining: 2, failures: [{ node: 'n1', reason: 'JobFailed', message: 'why' }] },
    },
    {
      what: 'one that failed in an earlier revision: nobody has dealt with it',
      of: turn('n1', { verdict: turnFailed('JobFailed', 'why'), revision: 'old' }),
      want: { failed: 1, remaining: 2 },
    },
    {
      what: 'one of a node that is not selected any more',
      of: turn('other', { verdict: turnFailed('JobFailed', 'why') }),
      want: { nodes: 3, failed: 1, remaining: 3 },
    },
    { what: 'one that rests', of: turn('n1'), want: { inProgress: 1, remaining: 2 } },
    {
      what: 'one that was advanced, and waits for its node',
      of: turn('n1', { verdict: workAdvanced, isGivenBack: true }),
      want: { inProgress: 1, remaining: 2 },
    },
    {
      what: 'one that had failed, while its node is given back',
      of: turn('n1', { verdict: turnAdvanced }),
      want: { inProgress: 1, failed: 0, failures: [] },
    },
    {
      what: 'one that had failed, when its node is given back',
      of: turn('n1', { verdict: turnAdvanced, isGivenBack: true }),
      want: { done: 1, failed: 0, remaining: 2 },
    },
    {
      what: 'one that was cancelled: it is to be had anew',
      of: turn('n1', { verdict: turnCancelled, isGivenBack: true }),
      want: { done: 0, inProgress: 0, remaining: 3 },
    },
    {
      what: 'a record of an earlier revision: it is to be had anew',
      of: turn('n1', { verdict: turnSucceeded, isGivenBack: true, revision: 'old' }),
      want: { done: 0, remaining: 3 },
    },
    {
      what: 'a record of a machine that is no more',
      of: turn('n1', { verdict: turnSucceeded, isGivenBack: true, uid: 'former' }),
      want: { done: 0, remaining: 3 },
    },
  ])('with $what', ({ of, want }) => {
    expect(progress(of)).toMatchObject(want);
  });

  test('stays small', () => {
    const failed = Array.from({ length: 30 }, (_, i) =>
      turn(`gone-${i}`, { verdict: turnFailed('JobFailed', 'x'.repeat(2_000)) }),
    );
    const { failures, failed: count } = progress(...failed);
    expect(count).toBe(30);
    expect(failures).toHaveLength(20);
    expect(failures[0]?.message).toHaveLength(1_000);
  });
});
