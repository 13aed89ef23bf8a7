import { expect, test } from '@jest/globals';
import { formatTime, windowLines, windowsTable } from '../../../cli/windows/windowsView.ts';
import type { WindowSummary } from '../../../domain/windows/summary.ts';

const viewer = { nowMs: Date.parse('2026-11-28T03:00:00Z'), timeZone: 'America/New_York' };

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
  nodes: [],
};

const open: WindowSummary = {
  ...closed,
  name: 'os-patch',
  schedule: 'Saturday at 03:00 Europe/Berlin, for 4h',
  timeZone: 'Europe/Berlin',
  next: ['2026-12-05T02:00:00.000Z'],
  approval: 'PerNode',
  open: { since: '2026-11-28T02:00:00Z', until: '2026-11-28T06:00:00Z', hasEnded: false, workflowId: 'w' },
  progress: { nodes: 3, done: 1, inProgress: 1, failed: 0, remaining: 1 },
  waiting: { reason: 'ApprovalNeeded', message: 'Waiting for approval of node n3.' },
  awaitsApproval: true,
  problems: [{ type: 'Scheduled', reason: 'PausedInTemporal', message: 'A user paused\u001b it.' }],
  nodes: [
    {
      node: 'n1',
      maintenance: 'os-patch-1',
      stage: 'Complete',
      state: 'Succeeded',
      since: '2026-11-28T02:55:00Z',
      message: 'Done: The work is done.',
    },
    {
      node: 'n2',
      maintenance: 'os-patch-2',
      stage: 'Drain',
      state: 'InProgress',
      since: '2026-11-28T02:59:00Z',
      message: 'draining',
    },
  ],
};

test('windows are listed with times in their time zone, and in that of the viewer if it differs', () => {
  const rows = windowsTable([closed, open], viewer).split('\n');
  expect(rows.map((row) => row.split(/ {3,}/))).toEqual([
    ['NAME', 'OPENS', 'NEXT', 'OPEN UNTIL', 'IN PROGRESS', 'DONE', 'REMAINING', 'FAILED', 'REMARKS'],
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
      'waiting for approval, Scheduled: PausedInTemporal',
    ],
  ]);
});

test('one window is shown with its nodes, what it waits for and its problems', () => {
  expect(windowLines(open, viewer)).toEqual([
    'maintenancewindow/os-patch: open until Sat 2026-11-28 07:00 (01:00 here), 3h left',
    '  opens Saturday at 03:00 Europe/Berlin, for 4h',
    '  next: Sat 2026-12-05 03:00 (Fri 21:00 here)',
    '  1 of 3 nodes done, 1 in progress, 0 failed, 1 remaining',
    '  Waiting for approval of node n3.',
    '  to approve: kubectl maintenance window approve os-patch --node NODE',
    String.raw`  Scheduled is not True (PausedInTemporal): A user paused\u001b it.`,
    '  NODE   STATE        FOR   STAGE      NODEMAINTENANCE   MESSAGE',
    '  n1     Succeeded    5m    Complete   os-patch-1        Done: The work is done.',
    '  n2     InProgress   60s   Drain      os-patch-2        draining',
  ]);
});

test('a time in the hour that occurs twice is shown in both time zones', () => {
  const timeZone = 'UTC';
  expect(formatTime('2026-10-25T00:30:00Z', 'Europe/Berlin', { ...viewer, timeZone })).toBe(
    'Sun 2026-10-25 02:30 (00:30 here)',
  );
});

test('a window that reboots nodes says which of them wait for it, and counts only those that need it', () => {
  const reboots: WindowSummary = {
    ...closed,
    progress: { nodes: 30, done: 1, inProgress: 0, failed: 0, remaining: 22, notRequired: 7 },
    rebootRequired: { nodes: 22, names: ['n1\u001b', 'n2'] },
  };
  const text = windowLines(reboots, viewer).join('\n');
  expect(text).toContain(
    '1 of 23 nodes done, 0 in progress, 0 failed, 22 remaining; 7 nodes without need for a reboot',
  );
  expect(text).toContain('waiting for a reboot: n1\\u001b, n2 and 20 more');
  expect(windowsTable([reboots], viewer)).toMatch(/ 1\/23 .* 22 reboots required$/m);
  const none = { ...reboots, rebootRequired: { nodes: 0, names: [] } };
  expect(windowLines(none, viewer).join('\n')).not.toContain('waiting for a reboot');
});
