import { describe, expect, test } from '@jest/globals';
import type { MaintenanceWindow, WindowSchedule } from '../../../api/maintenanceWindow.ts';
import { WindowAnnotation } from '../../../api/names.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import type { WindowMaintenance } from '../../../domain/windows/windowMaintenance.ts';
import { scheduleText, windowSummaryOf } from '../../../domain/windows/summary.ts';

const now = Date.parse('2026-11-28T03:00:00Z');
const base: WindowSchedule = {
  calendar: [{ time: '03:00', daysOfWeek: ['Saturday', 'Sunday'] }],
  timeZone: 'Europe/Berlin',
  duration: '4h',
};

describe('the schedule of a window as text', () => {
  test.each<{ schedule: Partial<WindowSchedule>; text: string }>([
    { schedule: {}, text: 'Saturday, Sunday at 03:00 Europe/Berlin, for 4h' },
    { schedule: { calendar: [{ time: '22:30' }] }, text: 'every day at 22:30 Europe/Berlin, for 4h' },
    {
      schedule: { calendar: [{ time: '03:00', daysOfMonth: [21, 1, 2, 3], months: [1, 4] }] },
      text: 'on the 1-3, 21 of January, April at 03:00 Europe/Berlin, for 4h',
    },
    {
      schedule: { calendar: [{ time: '03:00', daysOfWeek: ['Sunday'], daysOfMonth: [1, 2, 3, 4, 5, 6, 7] }] },
      text: 'Sunday on the 1-7 at 03:00 Europe/Berlin, for 4h',
    },
    {
      schedule: {
        calendar: [{ time: '03:00' }, { time: '15:00', years: [2027] }],
        exceptions: ['2026-12-26'],
      },
      text: 'every day at 03:00, and every day in 2027 at 15:00 Europe/Berlin, for 4h, not on 2026-12-26',
    },
    {
      schedule: { cron: '0 2 * * 6', calendar: undefined },
      text: 'cron 0 2 * * 6 Europe/Berlin, for 4h',
    },
  ])('$text', ({ schedule, text }) => {
    expect(scheduleText({ ...base, ...schedule })).toBe(text);
  });
});

const condition = (type: string, status: 'True' | 'False' | 'Unknown', reason: string) => ({
  type,
  status,
  reason,
  message: `${reason}.`,
  lastTransitionTime: '2026-11-28T02:00:00Z',
});

function windowed(
  status: Partial<NonNullable<MaintenanceWindow['status']>> | undefined,
  suspend = false,
): MaintenanceWindow {
  const conditions = [condition('Valid', 'True', 'Valid'), condition('Scheduled', 'True', 'Scheduled')];
  return {
    metadata: { name: 'os-patch' },
    spec: { schedule: base, suspend, approval: 'PerNode' },
    ...(status && { status: { conditions, observedGeneration: 1, ...status } }),
  } as unknown as MaintenanceWindow;
}

interface NodeFacts {
  node: string;
  revision?: string;
  stage?: 'Drain' | 'Complete';
  conditions?: object[];
  podsBlocked?: number;
  work?: 'Job' | 'Reboot';
}

function maintenanceOf({
  node,
  revision = 'r2',
  stage = 'Drain',
  conditions = [],
  podsBlocked = 0,
  work,
}: NodeFacts): WindowMaintenance {
  return {
    window: 'os-patch',
    node,
    nodeUid: '',
    revision,
    maintenance: {
      metadata: {
        name: `os-patch-${node}`,
        annotations: { [WindowAnnotation.WorkType]: work ?? 'None' },
      },
      spec: { stage },
      status: {
        conditions,
        podsBlocked,
        stageStatuses: [{ name: stage, startTimestamp: '2026-11-28T02:30:00Z' }],
        nodeStatuses: [{ nodeRef: { name: node }, drainMessage: 'Evacuating' }],
      },
    } as unknown as NodeMaintenance,
  };
}

const result = (status: 'True' | 'False' | 'Unknown', reason: string) =>
  condition('Succeeded', status, reason);
const progress = {
  revision: 'r2',
  summary: '1/4',
  nodes: 4,
  done: 1,
  inProgress: 1,
  failed: 1,
  remaining: 1,
  failures: [],
};

describe('the summary of a window', () => {
  test('shows its next openings as instants', () => {
    expect(windowSummaryOf(windowed({}), [], now)).toMatchObject({
      next: ['2026-11-29T02:00:00.000Z', '2026-12-05T02:00:00.000Z', '2026-12-06T02:00:00.000Z'],
      problems: [],
      awaitsApproval: false,
    });
  });

  test('shows no opening from the moment at which it is paused or suspended, before a worker has seen it', () => {
    const scheduled = { conditions: [condition('Scheduled', 'True', 'Scheduled')] };
    expect(windowSummaryOf(windowed(scheduled, true), [], now).next).toEqual([]);
    const paused = windowed(scheduled);
    paused.metadata.annotations = { 'nodemaintenance.k8s.io/paused': 'disk' };
    expect(windowSummaryOf(paused, [], now).next).toEqual([]);
  });

  test('shows no opening while it is suspended, which is no problem; conditions that require action are problems', () => {
    const status = {
      conditions: [condition('Valid', 'True', 'Valid'), condition('Scheduled', 'False', 'Suspended')],
    };
    expect(windowSummaryOf(windowed(status, true), [], now)).toMatchObject({
      next: [],
      suspended: true,
      problems: [],
    });
    const byAnnotation = windowed({
      conditions: [condition('Valid', 'True', 'Valid'), condition('Scheduled', 'False', 'Paused')],
    });
    byAnnotation.metadata.annotations = {
      'nodemaintenance.k8s.io/paused': 'disk',
      'nodemaintenance.k8s.io/skipped-dates': '2026-12-24',
    };
    expect(windowSummaryOf(byAnnotation, [], now)).toMatchObject({
      schedule: 'Saturday, Sunday at 03:00 Europe/Berlin, for 4h, not on 2026-12-24',
      next: [],
      suspended: false,
      paused: 'disk',
      skipped: ['2026-12-24'],
      problems: [],
    });
    const paused = {
      conditions: [condition('Valid', 'True', 'Valid'), condition('Scheduled', 'False', 'PausedInTemporal')],
    };
    expect(windowSummaryOf(windowed(paused), [], now).problems).toEqual([
      { type: 'Scheduled', reason: 'PausedInTemporal', message: 'PausedInTemporal.' },
    ]);
    const invalid = {
      conditions: [condition('Valid', 'False', 'Invalid'), condition('Scheduled', 'False', 'InvalidSpec')],
    };
    expect(windowSummaryOf(windowed(invalid), [], now).problems.map(({ type }) => type)).toEqual(['Valid']);
    expect(windowSummaryOf(windowed(undefined), [], now).problems).toMatchObject([{ reason: 'Pending' }]);
    const stalled = {
      conditions: [condition('Valid', 'True', 'Valid'), condition('Stalled', 'True', 'WorkflowTaskFailed')],
    };
    expect(windowSummaryOf(windowed(stalled), [], now).problems).toEqual([
      { type: 'Stalled', reason: 'WorkflowTaskFailed', message: 'WorkflowTaskFailed.' },
    ]);
    const continues = {
      conditions: [condition('Valid', 'True', 'Valid'), condition('Stalled', 'False', 'WorkflowContinues')],
    };
    expect(windowSummaryOf(windowed(continues), [], now).problems).toEqual([]);
  });

  test('shows when an open window ends, and what it waits for', () => {
    const active = {
      workflowId: 'w',
      runId: 'r',
      start: '2026-11-28T02:00:00Z',
      end: '2026-11-28T06:00:00Z',
      nodes: [],
      waiting: { reason: 'ApprovalNeeded', message: 'Waiting for approval.' },
    };
    const open = windowSummaryOf(windowed({ active, progress }), [], now);
    expect(open).toMatchObject({
      open: { until: '2026-11-28T06:00:00Z', hasEnded: false, workflowId: 'w' },
      progress: { nodes: 4, done: 1, inProgress: 1, failed: 1, remaining: 1 },
      awaitsApproval: true,
    });
    const ended = windowSummaryOf(windowed({ active: { ...active, end: '2026-11-28T02:59:00Z' } }), [], now);
    expect(ended.open?.hasEnded).toBe(true);
  });

  test('shows which nodes wait for a reboot', () => {
    const rebootRequired = { nodes: 2, names: ['n1', 'n2'] };
    const summary = windowSummaryOf(
      windowed({ progress: { ...progress, notRequired: 2, rebootRequired } }),
      [maintenanceOf({ node: 'n3', conditions: [condition('Drained', 'True', 'Drained')], work: 'Reboot' })],
      now,
    );
    expect(summary).toMatchObject({ progress: { notRequired: 2 }, rebootRequired });
    expect(summary.nodes.map(({ message }) => message)).toEqual(['drained, waiting for its reboot']);
    expect(windowSummaryOf(windowed({ progress }), [], now)).not.toHaveProperty('rebootRequired');
  });

  test('shows nodes with what they wait for; nodes of an earlier revision only while they are in progress, and no cancelled nodes', () => {
    const maintenances = [
      maintenanceOf({ node: 'n4', conditions: [result('False', 'JobFailed')] }),
      maintenanceOf({ node: 'n1', stage: 'Complete', conditions: [result('True', 'Done')] }),
      maintenanceOf({ node: 'n2', conditions: [condition('Drained', 'True', 'Drained')] }),
      maintenanceOf({ node: 'n3', podsBlocked: 2 }),
      maintenanceOf({ node: 'n5', conditions: [condition('Drained', 'True', 'Drained')], work: 'Job' }),
      maintenanceOf({ node: 'n6', conditions: [condition('Paused', 'True', 'Paused')], revision: 'r1' }),
      maintenanceOf({ node: 'n7', stage: 'Complete', conditions: [result('True', 'Done')], revision: 'r1' }),
      maintenanceOf({ node: 'n8', stage: 'Complete' }),
      maintenanceOf({ node: 'n9', stage: 'Complete', conditions: [result('Unknown', 'Advanced')] }),
      maintenanceOf({ node: 'na', conditions: [result('False', 'Cancelled')] }),
      maintenanceOf({ node: 'nb', stage: 'Complete', conditions: [result('False', 'Cancelled')] }),
    ];
    const { nodes } = windowSummaryOf(windowed({ progress }), maintenances, now);
    expect(nodes.map(({ node, state, message }) => [node, state, message])).toEqual([
      ['n1', 'Succeeded', 'Done: Done.'],
      ['n2', 'InProgress', 'drained, waiting for its work to be marked as done'],
      ['n3', 'InProgress', 'draining; 2 pods are blocked'],
      ['n4', 'Failed', 'JobFailed: JobFailed.'],
      ['n5', 'InProgress', 'drained, its Job is running'],
      ['n6', 'InProgress', 'drain paused'],
      ['n8', 'InProgress', 'uncordoned, waiting until it is in service'],
      ['n9', 'InProgress', 'Advanced: Advanced.'],
      ['na', 'InProgress', 'Cancelled: Cancelled.'],
    ]);
    expect(nodes[0]).toMatchObject({ since: '2026-11-28T02:00:00Z', maintenance: 'os-patch-n1' });
    expect(nodes[1]?.since).toBe('2026-11-28T02:30:00Z');
  });
});
