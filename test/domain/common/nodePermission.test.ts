import { describe, expect, test } from '@jest/globals';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import {
  deniedMessage,
  type DeniedNode,
  holdsNode,
  nodesAuthorizedCondition,
} from '../../../domain/common/nodePermission.ts';
import { decideDrain } from '../../../domain/drain/decide.ts';
import { completeDrainPlan } from '../../../domain/drain/plan.ts';
import { emptyStatus, newNodeStatus, withCordon, withDrain } from '../../../domain/maintenance/status.ts';
import { pod, pods } from '../../kit/builders.ts';

const now = '2026-01-01T12:00:00Z';
const denied: DeniedNode = { name: 'n2', because: 'user "mallory" may not', permission: 'Denied' };
const withdrawn: DeniedNode = { ...denied, permission: 'Withdrawn' };
const node = { metadata: { name: 'n2', labels: {} } };

function maintenance(
  stage: 'Idle' | 'Cordon' | 'Drain',
  record: { authorized?: boolean; unschedulableBefore?: boolean },
): NodeMaintenance {
  const matchFields = [{ key: 'metadata.name', operator: 'In' as const, values: ['n2'] }];
  return {
    metadata: { name: 'm' },
    spec: { stage, nodeSelector: { nodeSelectorTerms: [{ matchFields }] } },
    status: { ...emptyStatus, nodeStatuses: [{ ...newNodeStatus('n2'), ...record }] },
  };
}

test.each([
  { when: 'the requester may maintain it', stage: 'Cordon' as const, record: {}, holds: true },
  { when: 'it is skipped', stage: 'Drain' as const, record: { authorized: false }, holds: false },
  {
    when: 'the permission was withdrawn after it was cordoned',
    stage: 'Drain' as const,
    record: { authorized: false, unschedulableBefore: false },
    holds: true,
  },
  { when: 'the maintenance is idle', stage: 'Idle' as const, record: {}, holds: false },
])('a maintenance holds a node: $holds if $when', ({ stage, record, holds }) => {
  expect(holdsNode(maintenance(stage, record), node)).toBe(holds);
});

describe('the status', () => {
  const existing = new Set(['n1', 'n2']);
  const input = (waiting: readonly DeniedNode[]) => ({ waiting, now, existing });
  const own = (status: typeof emptyStatus) =>
    status.nodeStatuses.find(({ nodeRef }) => nodeRef.name === 'n2');

  test('names a node that is skipped in Cordon, and forgets it when it is authorized', () => {
    const statuses = [newNodeStatus('n1'), newNodeStatus('n2')];
    const before = withCordon(emptyStatus, statuses, input([denied]));
    expect(own(before)).toMatchObject({ authorized: false, drainMessage: deniedMessage(denied) });
    expect(before.conditions).toMatchObject([
      { type: 'NodesAuthorized', status: 'False', reason: 'NotAuthorized' },
    ]);
    const after = withCordon(before, before.nodeStatuses, input([]));
    expect(own(after)).not.toHaveProperty('authorized');
    expect(own(after)).toMatchObject({ drainMessage: '' });
    expect(after.conditions).toMatchObject([
      { type: 'NodesAuthorized', status: 'True', reason: 'Authorized' },
    ]);
  });

  const plan = completeDrainPlan([pods(1000)]);
  const snapshot = {
    maintenance: 'm',
    maintenances: [{ name: 'm', createdAt: now, plan, position: 0, nodes: ['n1'] }],
    nodes: [{ name: 'n1', pods: [], reached: [] }],
    published: new Map([['n2', [pods(1000)]]]),
  };
  const ofDrain = (waiting: DeniedNode, hasCordonRecord: boolean, onNode: number) => {
    const left = Array.from({ length: onNode }, () => ({ pod: pod({ priority: 1000 }), evacuating: false }));
    const decision = decideDrain({
      ...snapshot,
      waiting: [{ ...waiting, hasCordonRecord, pods: left }],
    });
    const verification = { kind: 'Verified', volumes: [] } as const;
    const verified = { planLength: plan.length, now, existing, verification, mayBecomeDrained: true };
    return { decision, status: withDrain(emptyStatus, decision, verified) };
  };
  const drained = ({ conditions }: typeof emptyStatus) => conditions.find(({ type }) => type === 'Drained');

  test('is not drained while a selected node is skipped, whose pods stay', () => {
    const { decision, status } = ofDrain(denied, false, 1);
    expect(decision.evacuate).toEqual([]);
    expect(drained(status)).toMatchObject({
      status: 'False',
      reason: 'NotAuthorized',
      message: 'Node n2: user "mallory" may not.',
    });
    expect(own(status)).toMatchObject({ authorized: false, drainTargets: [pods(1000)] });
  });

  test('starts nothing more on a node whose permission was withdrawn, and counts it as drained once it is empty', () => {
    const { decision, status } = ofDrain(withdrawn, true, 1);
    expect(decision.evacuate).toEqual([]);
    expect(drained(status)).toMatchObject({ status: 'False', reason: 'NotAuthorized' });
    expect(drained(ofDrain(withdrawn, true, 0).status)).toMatchObject({ status: 'True' });
  });

  test('names only some of many nodes', () => {
    const many = Array.from({ length: 5_000 }, (_, i) => ({ ...denied, name: `node-${i}` }));
    expect(nodesAuthorizedCondition(many).message).toBe(
      'Nodes node-0, node-1, node-2 and 4997 more: user "mallory" may not.',
    );
  });
});
