import { describe, expect, test } from '@jest/globals';
import { MAINTENANCE_FINALIZER } from '../../../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../../api/nodeMaintenance.ts';
import { withCondition } from '../../../domain/common/conditions.ts';
import { heldNodes } from '../../../domain/maintenance/heldNodes.ts';
import { needsWorkflow, progressingCondition } from '../../../domain/maintenance/progressing.ts';
import { emptyStatus, newNodeStatus } from '../../../domain/maintenance/status.ts';

const now = '2026-01-01T12:00:00Z';

interface Differs {
  stage?: NodeMaintenanceStage;
  started?: NodeMaintenanceStage[];
  observedGeneration?: number;
  conditions?: string[];
  finalizers?: string[];
  deletionTimestamp?: string;
  cordoned?: string[];
}

function maintenance({
  stage = 'Drain',
  started = [stage],
  observedGeneration = 2,
  conditions = [],
  cordoned = [],
  ...metadata
}: Differs): NodeMaintenance {
  const facts = conditions.map((type) => ({ type, status: 'True' as const, reason: 'Test', message: '' }));
  return {
    metadata: { name: 'rack-7', generation: 2, ...metadata },
    spec: { stage, nodeSelector: { nodeSelectorTerms: [] } },
    status: {
      ...emptyStatus,
      observedGeneration,
      stageStatuses: started.map((name) => ({ name, startTimestamp: now })),
      conditions: facts.reduce((all, one) => withCondition(all, one, now), emptyStatus.conditions),
      nodeStatuses: [
        newNodeStatus('waiting'),
        ...cordoned.map((name) => ({ ...newNodeStatus(name), unschedulableBefore: false })),
      ],
    },
  };
}

const rows: { when: string; of: Differs; needed: boolean }[] = [
  { when: 'Idle has not started', of: { stage: 'Idle', started: [] }, needed: true },
  { when: 'Idle has started', of: { stage: 'Idle' }, needed: false },
  { when: 'a user has changed the spec since', of: { stage: 'Idle', observedGeneration: 1 }, needed: true },
  { when: 'its nodes are cordoned, in Cordon', of: { stage: 'Cordon' }, needed: false },
  { when: 'Drain has not started', of: { started: ['Cordon'] }, needed: true },
  { when: 'it drains', of: {}, needed: true },
  { when: 'it drains and is paused', of: { conditions: ['Paused'] }, needed: false },
  { when: 'it is drained and held', of: { conditions: ['Drained'] }, needed: false },
  { when: 'Complete has not started', of: { stage: 'Complete', started: ['Drain'] }, needed: true },
  {
    when: 'Complete uncordons its nodes',
    of: { stage: 'Complete', finalizers: [MAINTENANCE_FINALIZER] },
    needed: true,
  },
  { when: 'it is complete', of: { stage: 'Complete' }, needed: false },
  {
    when: 'it is deleted while it is held',
    of: { conditions: ['Drained'], deletionTimestamp: now, finalizers: [MAINTENANCE_FINALIZER] },
    needed: true,
  },
];

describe('a maintenance needs its workflow', () => {
  test.each(rows)('$needed: $when', ({ of, needed }) => {
    expect(needsWorkflow(maintenance(of))).toBe(needed);
  });

  test('true: no worker has seen it', () => {
    const { status: _none, ...created } = maintenance({ stage: 'Idle' });
    expect(needsWorkflow(created)).toBe(true);
  });
});

describe('the condition Progressing', () => {
  const outage =
    'no response from temporal:7233 (ECONNREFUSED): correct the address, or start Temporal there';
  const reported = (of: Differs, message = outage) => {
    const object = maintenance(of);
    const facts = progressingCondition(maintenance({}), message);
    const conditions = withCondition(object.status?.conditions ?? [], facts ?? never(), now);
    return { ...object, status: { ...emptyStatus, ...object.status, conditions } };
  };
  const never = () => {
    throw new Error('no condition');
  };

  test('is False during an outage, with the reason of the outage', () => {
    expect(progressingCondition(maintenance({}), outage)).toMatchObject({
      status: 'False',
      reason: 'TemporalUnavailable',
      message: expect.stringContaining(outage),
    });
  });

  test.each([
    { when: 'nothing waits for Temporal', of: maintenance({ conditions: ['Drained'] }), during: outage },
    { when: 'the outage is reported already', of: reported({}), during: outage },
    {
      when: 'the outage is reported already, with another reason',
      of: reported({}, 'timeout'),
      during: outage,
    },
    { when: 'there was no outage', of: maintenance({}), during: undefined },
  ])('stays as it is when $when', ({ of, during }) => {
    expect(progressingCondition(of, during)).toBeUndefined();
  });

  test.each([
    { when: 'after the outage', of: reported({}), during: undefined },
    {
      when: 'when nothing waits for Temporal any more',
      of: reported({ conditions: ['Paused'] }),
      during: outage,
    },
  ])('is True $when', ({ of, during }) => {
    const facts = progressingCondition(of, during);
    expect(facts).toMatchObject({ status: 'True', reason: 'TemporalAvailable' });
  });
});

test('the nodes that maintenances hold are those that they have cordoned and not uncordoned', () => {
  const held = heldNodes([
    maintenance({ cordoned: ['n1'] }),
    maintenance({ stage: 'Cordon', cordoned: ['n2'] }),
    maintenance({ stage: 'Complete', cordoned: ['n3'], finalizers: [MAINTENANCE_FINALIZER] }),
    maintenance({ stage: 'Complete', cordoned: ['n4'] }),
    maintenance({ stage: 'Idle', cordoned: ['n5'] }),
  ]);
  expect([...held]).toEqual(['n1', 'n2', 'n3']);
});
