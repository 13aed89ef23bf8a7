import { describe, expect, test } from '@jest/globals';
import type { MaintenanceWindow, WindowSchedule } from '../../api/maintenanceWindow.ts';
import { scheduleInWords, type SeenTurn, windowSummaryOf } from '../../domain/windowSummary.ts';

const now = Date.parse('2026-11-28T03:00:00Z');
const base: WindowSchedule = {
  calendar: [{ time: '03:00', daysOfWeek: ['Saturday', 'Sunday'] }],
  timeZone: 'Europe/Berlin',
  duration: '4h',
};

describe('the schedule of a window in words', () => {
  test.each<{ schedule: Partial<WindowSchedule>; words: string }>([
    { schedule: {}, words: 'Saturday, Sunday at 03:00 Europe/Berlin, for 4h' },
    { schedule: { calendar: [{ time: '22:30' }] }, words: 'every day at 22:30 Europe/Berlin, for 4h' },
    {
      schedule: { calendar: [{ time: '03:00', daysOfMonth: [21, 1, 2, 3], months: [1, 4] }] },
      words: 'on the 1-3, 21 of January, April at 03:00 Europe/Berlin, for 4h',
    },
    {
      schedule: { calendar: [{ time: '03:00', daysOfWeek: ['Sunday'], daysOfMonth: [1, 2, 3, 4, 5, 6, 7] }] },
      words: 'Sunday on the 1-7 at 03:00 Europe/Berlin, for 4h',
    },
    {
      schedule: {
        calendar: [{ time: '03:00' }, { time: '15:00', years: [2027] }],
        exceptions: ['2026-12-26'],
      },
      words: 'every day at 03:00, and every day in 2027 at 15:00 Europe/Berlin, for 4h, not on 2026-12-26',
    },
    {
      schedule: { cron: '0 2 * * 6', calendar: undefined },
      words: 'by cron 0 2 * * 6 Europe/Berlin, for 4h',
    },
  ])('$words', ({ schedule, words }) => {
    expect(scheduleInWords({ ...base, ...schedule })).toBe(words);
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

interface TurnFacts {
  node: string;
  revision?: string;
  stage?: 'Drain' | 'Complete';
  conditions?: object[];
  podsBlocked?: number;
  work?: 'Job';
}

function turnOf({
  node,
  revision = 'r2',
  stage = 'Drain',
  conditions = [],
  podsBlocked = 0,
  work,
}: TurnFacts): SeenTurn {
  return {
    node,
    revision,
    work: work ?? 'None',
    maintenance: {
      metadata: { name: `os-patch-${node}` },
      spec: { stage },
      status: {
        conditions,
        podsBlocked,
        stageStatuses: [{ name: stage, startTimestamp: '2026-11-28T02:30:00Z' }],
        nodeStatuses: [{ nodeRef: { name: node }, drainMessage: 'Evacuating' }],
      },
    } as unknown as SeenTurn['maintenance'],
  };
}

const verdict = (status: 'True' | 'False' | 'Unknown', reason: string) =>
  condition('TurnSucceeded', status, reason);
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

describe('how it stands with a window', () => {
  test('its next openings are told, as instants', () => {
    expect(windowSummaryOf(windowed({}), [], now)).toMatchObject({
      next: ['2026-11-29T02:00:00.000Z', '2026-12-05T02:00:00.000Z', '2026-12-06T02:00:00.000Z'],
      problems: [],
      awaitsApproval: false,
    });
  });

  test('while it is suspended there is none, and that is no problem; what somebody should see to is one', () => {
    const status = {
      conditions: [condition('Valid', 'True', 'Valid'), condition('Scheduled', 'False', 'Suspended')],
    };
    expect(windowSummaryOf(windowed(status, true), [], now)).toMatchObject({
      next: [],
      suspended: true,
      problems: [],
    });
    const paused = {
      conditions: [condition('Valid', 'True', 'Valid'), condition('Scheduled', 'False', 'PausedInTemporal')],
    };
    expect(windowSummaryOf(windowed(paused), [], now).problems).toEqual([
      { type: 'Scheduled', reason: 'PausedInTemporal', message: 'PausedInTemporal.' },
    ]);
    const invalid = {
      conditions: [condition('Valid', 'False', 'Invalid'), condition('Scheduled', 'False', 'NotValid')],
    };
    expect(windowSummaryOf(windowed(invalid), [], now).problems.map(({ type }) => type)).toEqual(['Valid']);
    expect(windowSummaryOf(windowed(undefined), [], now).problems).toMatchObject([{ reason: 'NotSeen' }]);
  });

  test('one that is open, or over and not done, says until when, and whom it waits for', () => {
    const active = {
      workflowId: 'w',
      runId: 'r',
      start: '2026-11-28T02:00:00Z',
      end: '2026-11-28T06:00:00Z',
      nodes: [],
      waiting: { reason: 'ApprovalNeeded', message: 'Waiting for somebody.' },
    };
    const open = windowSummaryOf(windowed({ active, progress }), [], now);
    expect(open).toMatchObject({
      open: { until: '2026-11-28T06:00:00Z', isOver: false, workflowId: 'w' },
      progress: { nodes: 4, done: 1, inProgress: 1, failed: 1, remaining: 1 },
      awaitsApproval: true,
    });
    const over = windowSummaryOf(windowed({ active: { ...active, end: '2026-11-28T02:59:00Z' } }), [], now);
    expect(over.open?.isOver).toBe(true);
  });

  test('turns are told with what they wait for; those of an earlier revision only while they are not over, and none that was cancelled', () => {
    const turns = [
      turnOf({ node: 'n4', conditions: [verdict('False', 'JobFailed')] }),
      turnOf({ node: 'n1', stage: 'Complete', conditions: [verdict('True', 'Done')] }),
      turnOf({ node: 'n2', conditions: [condition('Drained', 'True', 'Drained')] }),
      turnOf({ node: 'n3', podsBlocked: 2 }),
      turnOf({ node: 'n5', conditions: [condition('Drained', 'True', 'Drained')], work: 'Job' }),
      turnOf({ node: 'n6', conditions: [condition('Paused', 'True', 'Paused')], revision: 'r1' }),
      turnOf({ node: 'n7', stage: 'Complete', conditions: [verdict('True', 'Done')], revision: 'r1' }),
      turnOf({ node: 'n8', stage: 'Complete' }),
      turnOf({ node: 'n9', stage: 'Complete', conditions: [verdict('Unknown', 'Advanced')] }),
      turnOf({ node: 'na', conditions: [verdict('False', 'Cancelled')] }),
      turnOf({ node: 'nb', stage: 'Complete', conditions: [verdict('False', 'Cancelled')] }),
    ];
    const told = windowSummaryOf(windowed({ progress }), turns, now).turns;
    expect(told.map(({ node, outcome, message }) => [node, outcome, message])).toEqual([
      ['n1', 'Succeeded', 'Done: Done.'],
      ['n2', 'UnderWay', 'drained, and waits until its turn is advanced'],
      ['n3', 'UnderWay', 'drains; 2 pods cannot leave'],
      ['n4', 'Failed', 'JobFailed: JobFailed.'],
      ['n5', 'UnderWay', 'drained, and its Job works'],
      ['n6', 'UnderWay', 'its drain rests'],
      ['n8', 'UnderWay', 'given back, and not ready for pods yet'],
      ['n9', 'UnderWay', 'Advanced: Advanced.'],
      ['na', 'UnderWay', 'Cancelled: Cancelled.'],
    ]);
    expect(told[0]).toMatchObject({ since: '2026-11-28T02:00:00Z', maintenance: 'os-patch-n1' });
    expect(told[1]?.since).toBe('2026-11-28T02:30:00Z');
  });
});
