import { describe, expect, test } from '@jest/globals';
import type { Condition } from '../../../api/core.ts';
import type { NodeMaintenanceStage } from '../../../api/nodeMaintenance.ts';
import { cloudEventOf } from '../../../api/notification.ts';
import { cloudEventProblem } from '../../../domain/notifications/cloudEvent.ts';
import {
  approvalNeeded,
  blocked,
  deadline,
  finished,
  stageStarted,
  nodeFailed,
  windowClosed,
} from '../../../domain/notifications/events.ts';

const time = '2026-01-01T00:00:00.000Z';
const maintenance = { name: 'rack-7', uid: 'u-1', reason: 'firmware', by: 'temporal:jane' };
const windowMaintenance = { ...maintenance, window: 'os-patch' };
const condition = (type: string, status: 'True' | 'False'): Condition => ({
  type,
  status,
  reason: type,
  message: '',
  lastTransitionTime: time,
});

test('a CloudEvent identifies the object and the cluster of the notification', () => {
  const names = Array.from({ length: 60 }, (_, index) => `node-${index}`);
  const event = cloudEventOf(stageStarted(maintenance, 'Drain', names, time), 'prod-1');
  expect(event).toEqual({
    specversion: '1.0',
    id: 'u-1.stage-drain',
    source: '//prod-1/apis/nodemaintenance.k8s.io/v1alpha1/nodemaintenances/rack-7',
    type: 'io.k8s.nodemaintenance.maintenance.stage-started.v1',
    subject: 'rack-7',
    time,
    datacontenttype: 'application/json',
    data: {
      object: { kind: 'NodeMaintenance', name: 'rack-7', uid: 'u-1' },
      message:
        'Stage Drain of NodeMaintenance rack-7 started on 60 nodes: node-0, node-1, node-2 and 57 more.',
      severity: 'info',
      stage: 'Drain',
      nodes: { count: 60, names: names.slice(0, 50) },
      reason: 'firmware',
      by: 'temporal:jane',
    },
  });
});

test('a notification of a deadline says what is left, and what happens to it', () => {
  const facts = {
    time: '2026-01-01T02:00:00Z',
    step: { time: '2026-01-01T01:00:00Z', action: 'Notify' as const },
    onDeadline: 'Delete' as const,
    isPaused: true,
    pods: Array.from({ length: 30 }, (_, index) => `shop/web-${index}`),
    owners: [],
  };
  expect(deadline(maintenance, facts)).toMatchObject({
    id: 'u-1.deadline-notify-3600',
    type: 'maintenance.deadline-approaching',
    data: {
      message:
        'NodeMaintenance rack-7 is to be drained by 2026-01-01T02:00:00Z, with 30 pods left. Pods that are left are deleted one grace period earlier. It is paused, and until it is resumed nothing is deleted.',
      deadline: { time: facts.time, onDeadline: 'Delete' },
      pods: { count: 30, names: facts.pods.slice(0, 20) },
    },
  });
  for (const [onNodesOfOthers, exempt] of [
    [1, '1 pod is not deleted while another client holds the maintenance Lease of its node.'],
    [2, '2 pods are not deleted while other clients hold the maintenance Leases of their nodes.'],
  ] as const) {
    const { data } = deadline(maintenance, { ...facts, isPaused: false, onNodesOfOthers });
    expect(data.message).toMatch(
      `with 30 pods left. Pods that are left are deleted one grace period earlier. ${exempt}`,
    );
  }
  const step = { time: facts.time, action: 'Report' as const };
  expect(deadline(maintenance, { ...facts, step, onDeadline: 'Report', isPaused: false })).toMatchObject({
    id: 'u-1.deadline-report-0',
    type: 'maintenance.deadline-exceeded',
    data: {
      message:
        'The drain deadline 2026-01-01T02:00:00Z of NodeMaintenance rack-7 has passed, with 30 pods left. Nothing is deleted.',
    },
  });
});

describe('an event that is delivered', () => {
  const window = { name: 'os-patch', uid: 'w-1' };
  const events = [
    stageStarted(maintenance, 'Drain', ['n1'], time),
    blocked(maintenance, { pod: 'a', node: 'n1', blocker: { reason: 'R', message: 'no' } }, time),
    finished(maintenance, [condition('Drained', 'True')], ['Drain'], time),
    ...(['Notify', 'Delete'] as const).map((action) =>
      deadline(maintenance, {
        time,
        step: { time, action },
        onDeadline: 'Delete',
        isPaused: false,
        pods: ['shop/web-0'],
        owners: [{ owner: 'team', pods: { count: 1, names: ['shop/web-0'] } }],
      }),
    ),
    nodeFailed(windowMaintenance, { node: 'n1', reason: 'JobFailed', message: 'no' }, time),
    windowClosed(window, 'run', time),
  ].map((notification) => cloudEventOf(notification, 'lab'));

  test.each(events)('is one of ours: $type', (event) => {
    expect(cloudEventProblem(JSON.parse(JSON.stringify(event)))).toBeUndefined();
  });

  test.each([
    { differs: { url: 'http://169.254.169.254/' }, problem: 'event.type' },
    { differs: { type: 'com.example.paged' }, problem: 'event.type' },
    { differs: { specversion: '2.0' }, problem: 'event.type' },
    { differs: { source: 'lab' }, problem: 'event.source' },
    { differs: { subject: '' }, problem: 'event.subject' },
    { differs: { time: 'now' }, problem: 'event.time' },
    { differs: { id: 'another.id' }, problem: 'event.id' },
    { differs: { data: 'text' }, problem: 'event.data' },
    { differs: { data: { message: 'x'.repeat(70_000) } }, problem: 'event: expected at most' },
  ])('is not delivered with $problem of another form', ({ differs, problem }) => {
    expect(cloudEventProblem({ ...events[0], ...differs })).toContain(problem);
  });
});

describe('a blocked pod', () => {
  const notification = (pod: string, message: string, reason = 'EvictionRejected') =>
    blocked(maintenance, { pod, node: 'n1', blocker: { reason, message } }, time);

  test('has the same notification as another pod with the same cause, and another one with another cause', () => {
    expect(notification('a', 'webhook w: no').id).toBe(notification('b', 'webhook w: no').id);
    expect(notification('a', 'webhook w: no').id).not.toBe(notification('a', 'webhook w: ask').id);
  });

  test('has severity warning unless the cause is transient', () => {
    expect(notification('a', 'no').data.severity).toBe('warning');
    expect(notification('a', 'no', 'DisruptionBudget').data.severity).toBe('info');
  });
});

test.each<{ when: string; stages: NodeMaintenanceStage[]; conditions: Condition[]; want: string }>([
  {
    when: 'after the drain is completed',
    stages: ['Cordon', 'Drain', 'Complete'],
    conditions: [condition('Drained', 'True')],
    want: 'maintenance.completed',
  },
  {
    when: 'without stage Drain is completed',
    stages: ['Cordon', 'Complete'],
    conditions: [],
    want: 'maintenance.completed',
  },
  {
    when: 'before the end of the drain is cancelled',
    stages: ['Cordon', 'Drain', 'Complete'],
    conditions: [condition('Drained', 'False')],
    want: 'maintenance.cancelled',
  },
])('a maintenance that ends $when', ({ stages, conditions, want }) => {
  expect(finished(maintenance, conditions, stages, time).type).toBe(want);
});

test('a node that is not in service in time has a type of its own, other failures are node-failed', () => {
  const failure = { node: 'n1', message: 'the kernel panicked' };
  expect(nodeFailed(windowMaintenance, { ...failure, reason: 'NodeNotReady' }, time)).toMatchObject({
    type: 'node.not-in-service',
    subject: 'n1',
    data: {
      message: 'Node n1 is not back in service in MaintenanceWindow os-patch: the kernel panicked.',
      severity: 'warning',
      window: 'os-patch',
    },
  });
  expect(nodeFailed(windowMaintenance, { ...failure, reason: 'JobFailed' }, time)).toMatchObject({
    type: 'window.node-failed',
    data: {
      message: 'Node n1 failed in MaintenanceWindow os-patch: the kernel panicked.',
      failure: 'JobFailed',
    },
  });
});

describe('a window', () => {
  const window = { name: 'os-patch', uid: 'w-1' };
  const active = { runId: 'r-1', end: '2026-01-01T04:00:00Z' };

  test('requests each approval once in each of its runs', () => {
    const ids = ['the window', 'node n1', 'node n1'].map(
      (message) => approvalNeeded(window, { ...active, message, isWhole: false }, time).id,
    );
    expect(new Set(ids).size).toBe(2);
    const another = approvalNeeded(
      window,
      { ...active, runId: 'r-2', message: 'node n1', isWhole: false },
      time,
    ).id;
    expect(ids).not.toContain(another);
    const whole = ['2 nodes remaining', '3 nodes remaining'].map(
      (message) => approvalNeeded(window, { ...active, message, isWhole: true }, time).id,
    );
    expect(new Set(whole).size).toBe(1);
  });

  test('reports its progress when it closes', () => {
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
      message: 'MaintenanceWindow os-patch has closed: 3 of 9 nodes done, 1 failed, 5 remaining.',
      severity: 'warning',
      progress: { nodes: 9, done: 3, failed: 1, remaining: 5 },
    });
  });
});
