import { describe, expect, test } from '@jest/globals';
import type { Condition } from '../../api/core.ts';
import type { NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { cloudEventOf } from '../../api/notice.ts';
import {
  approvalNeeded,
  blocked,
  finished,
  stageBegun,
  turnFailed,
  windowClosed,
} from '../../domain/notices.ts';

const time = '2026-01-01T00:00:00.000Z';
const maintenance = { name: 'rack-7', uid: 'u-1', reason: 'firmware', by: 'temporal:jane' };
const turn = { ...maintenance, window: 'os-patch' };
const is = (type: string, status: 'True' | 'False'): Condition => ({
  type,
  status,
  reason: type,
  message: '',
  lastTransitionTime: time,
});

test('a notice is sent as an event from its object in its cluster', () => {
  const names = Array.from({ length: 60 }, (_, index) => `node-${index}`);
  const event = cloudEventOf(stageBegun(maintenance, 'Drain', names, time), 'prod-1');
  expect(event).toEqual({
    specversion: '1.0',
    id: 'u-1.stage-drain',
    source: '//prod-1/apis/nodemaintenance.k8s.io/v1alpha1/nodemaintenances/rack-7',
    type: 'io.k8s.nodemaintenance.maintenance.stage-begun.v1',
    subject: 'rack-7',
    time,
    datacontenttype: 'application/json',
    data: {
      object: { kind: 'NodeMaintenance', name: 'rack-7', uid: 'u-1' },
      message:
        'Stage Drain of NodeMaintenance rack-7 began on 60 nodes: node-0, node-1, node-2, node-3, node-4 and 55 more.',
      severity: 'info',
      stage: 'Drain',
      nodes: { count: 60, names: names.slice(0, 50) },
      reason: 'firmware',
      by: 'temporal:jane',
    },
  });
});

describe('a pod that is blocked', () => {
  const told = (pod: string, message: string, reason = 'EvictionRefused') =>
    blocked(maintenance, { pod, node: 'n1', blocker: { reason, message } }, time);

  test('is the same news as another one with the same cause, and other news with another', () => {
    expect(told('a', 'webhook w: no').id).toBe(told('b', 'webhook w: no').id);
    expect(told('a', 'webhook w: no').id).not.toBe(told('a', 'webhook w: ask').id);
  });

  test('is a warning unless waiting can mend it', () => {
    expect(told('a', 'no').data.severity).toBe('warning');
    expect(told('a', 'no', 'DisruptionBudget').data.severity).toBe('info');
  });
});

test.each<{ when: string; stages: NodeMaintenanceStage[]; conditions: Condition[]; want: string }>([
  {
    when: 'drained is complete',
    stages: ['Cordon', 'Drain', 'Complete'],
    conditions: [is('Drained', 'True')],
    want: 'maintenance.completed',
  },
  {
    when: 'never to be drained is complete',
    stages: ['Cordon', 'Complete'],
    conditions: [],
    want: 'maintenance.completed',
  },
  {
    when: 'with pods left was cancelled',
    stages: ['Cordon', 'Drain', 'Complete'],
    conditions: [is('Drained', 'False')],
    want: 'maintenance.cancelled',
  },
])('a maintenance that ends $when', ({ stages, conditions, want }) => {
  expect(finished(maintenance, conditions, stages, time).type).toBe(want);
});

test('a node that has not come back in time is told as that, other failures as failed turns', () => {
  const failure = { node: 'n1', message: 'see to it' };
  expect(turnFailed(turn, { ...failure, reason: 'NodeNotReady' }, time)).toMatchObject({
    type: 'node.not-back',
    subject: 'n1',
    data: {
      message: 'Node n1 is not back in window os-patch: see to it.',
      severity: 'warning',
      window: 'os-patch',
    },
  });
  expect(turnFailed(turn, { ...failure, reason: 'JobFailed' }, time)).toMatchObject({
    type: 'turn.failed',
    data: { message: 'The turn of node n1 failed in window os-patch: see to it.', failure: 'JobFailed' },
  });
});

describe('a window', () => {
  const window = { name: 'os-patch', uid: 'w-1' };
  const active = { runId: 'r-1', end: '2026-01-01T04:00:00Z' };

  test('asks once for each thing that is to be approved, in each of its openings', () => {
    const ids = ['the window', 'node n1', 'node n1'].map(
      (because) => approvalNeeded(window, { ...active, because, isWhole: false }, time).id,
    );
    expect(new Set(ids).size).toBe(2);
    const another = approvalNeeded(
      window,
      { ...active, runId: 'r-2', because: 'node n1', isWhole: false },
      time,
    ).id;
    expect(ids).not.toContain(another);
    const whole = ['2 nodes are left', '3 nodes are left'].map(
      (because) => approvalNeeded(window, { ...active, because, isWhole: true }, time).id,
    );
    expect(new Set(whole).size).toBe(1);
  });

  test('says at its end how far it has come', () => {
    const progress = {
      revision: 'x',
      summary: '3/9',
      nodes: 9,
      done: 3,
      inProgress: 0,
      failed: 1,
      remaining: 5,
    };
    const status = { conditions: [], observedGeneration: 1, progress: { ...progress, failures: [] } };
    expect(windowClosed({ ...window, status }, 'r-1', time).data).toMatchObject({
      message: 'MaintenanceWindow os-patch has closed: of 9 nodes 3 are done, 1 failed, 5 remain.',
      severity: 'warning',
      progress: { nodes: 9, done: 3, failed: 1, remaining: 5 },
    });
  });
});
