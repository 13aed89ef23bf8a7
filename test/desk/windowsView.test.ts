import { expect, test } from '@jest/globals';
import { moment, windowLines, windowsTable } from '../../cli/windowsView.ts';
import type { WindowSummary } from '../../domain/windowSummary.ts';

const look = { now: Date.parse('2026-11-28T03:00:00Z'), zone: 'America/New_York' };

const closed: WindowSummary = {
  name: 'firmware',
  schedule: 'Sunday at 01:30 America/New_York, for 2h',
  timeZone: 'America/New_York',
  duration: '2h',
  next: ['2026-11-29T06:30:00.000Z'],
  suspended: false,
  approval: 'None',
  awaitsApproval: false,
  problems: [],
  turns: [],
};

const open: WindowSummary = {
  ...closed,
  name: 'os-patch',
  schedule: 'Saturday at 03:00 Europe/Berlin, for 4h',
  timeZone: 'Europe/Berlin',
  next: ['2026-12-05T02:00:00.000Z'],
  approval: 'PerNode',
  open: { since: '2026-11-28T02:00:00Z', until: '2026-11-28T06:00:00Z', isOver: false, workflowId: 'w' },
  progress: { nodes: 3, done: 1, inProgress: 1, failed: 0, remaining: 1 },
  waiting: { reason: 'ApprovalNeeded', message: 'Waiting for somebody to approve one of the nodes n3.' },
  awaitsApproval: true,
  problems: [{ type: 'Scheduled', reason: 'PausedInTemporal', message: 'Somebody paused\u001b it.' }],
  turns: [
    {
      node: 'n1',
      maintenance: 'os-patch-1',
      stage: 'Complete',
      outcome: 'Succeeded',
      since: '2026-11-28T02:55:00Z',
      message: 'Done: The work is done.',
    },
    {
      node: 'n2',
      maintenance: 'os-patch-2',
      stage: 'Drain',
      outcome: 'UnderWay',
      since: '2026-11-28T02:59:00Z',
      message: 'drains',
    },
  ],
};

test('windows are listed with the clocks of their zone, and with those of who looks where they differ', () => {
  const rows = windowsTable([closed, open], look).split('\n');
  expect(rows.map((row) => row.split(/ {3,}/))).toEqual([
    ['NAME', 'OPENS', 'NEXT', 'OPEN UNTIL', 'UNDER WAY', 'DONE', 'LEFT', 'FAILED', 'REMARKS'],
    [
      'firmware',
      'Sunday at 01:30 America/New_York, for 2h',
      'Sun 2026-11-29 01:30',
      ...Array.from({ length: 6 }, () => '<none>'),
    ],
    [
      'os-patch',
      'Saturday at 03:00 Europe/Berlin, for 4h',
      'Sat 2026-12-05 03:00 (Fri 21:00 here)',
      'Sat 2026-11-28 07:00 (01:00 here)',
      '1',
      '1/3',
      '1',
      '0',
      'waits for approval, Scheduled: PausedInTemporal',
    ],
  ]);
});

test('one window is told with its turns, what it waits for and what is wrong with it', () => {
  expect(windowLines(open, look)).toEqual([
    'maintenancewindow/os-patch: open until Sat 2026-11-28 07:00 (01:00 here), 3h left',
    '  opens Saturday at 03:00 Europe/Berlin, for 4h',
    '  next: Sat 2026-12-05 03:00 (Fri 21:00 here)',
    '  1 of 3 nodes done, 1 under way, 0 failed, 1 left',
    '  Waiting for somebody to approve one of the nodes n3.',
    '  to approve: kubectl maintenance window approve os-patch --node NODE',
    String.raw`  Scheduled is not True (PausedInTemporal): Somebody paused\u001b it.`,
    '  NODE   TURN        FOR   STAGE      NODEMAINTENANCE   MESSAGE',
    '  n1     done        5m    Complete   os-patch-1        Done: The work is done.',
    '  n2     under way   60s   Drain      os-patch-2        drains',
  ]);
});

test('an instant in the hour that clocks show twice is told by both clocks', () => {
  const zone = 'UTC';
  expect(moment('2026-10-25T00:30:00Z', 'Europe/Berlin', { ...look, zone })).toBe(
    'Sun 2026-10-25 02:30 (00:30 here)',
  );
});
