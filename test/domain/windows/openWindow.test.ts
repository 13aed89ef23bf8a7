import { describe, expect, test } from '@jest/globals';
import type { MaintenanceWindow, MaintenanceWindowStatus } from '../../../api/maintenanceWindow.ts';
import {
  closingProblem,
  mayResumeNodes,
  openedBy,
  recordedRequests,
  wasClosed,
  withLastClosed,
} from '../../../domain/windows/openWindow.ts';

const start = '2026-01-01T02:00:00.000Z';
const end = '2026-01-01T06:00:00.000Z';
const during = Date.parse('2026-01-01T03:00:00.000Z');
const after = Date.parse('2026-01-01T07:00:00.000Z');

const active = { workflowId: 'maintenance-window-os', runId: 'r', start, end, nodes: [] };
const counts = { revision: 'r', summary: '1/3', nodes: 3, done: 1, inProgress: 0, failed: 0, failures: [] };

function window(
  status: Partial<MaintenanceWindowStatus>,
  metadata: { deletionTimestamp?: string } = {},
): MaintenanceWindow {
  return {
    metadata: { name: 'os', ...metadata },
    spec: { onWindowEnd: 'HoldCurrent' },
    status: { conditions: [], observedGeneration: 1, ...status },
  } as unknown as MaintenanceWindow;
}

describe('an open window', () => {
  const left = { ...counts, remaining: 2 };

  test.each([
    { when: 'nodes remain', of: window({ active, progress: left }), at: during, closes: false },
    {
      when: 'a node is in progress',
      of: window({ active, progress: { ...counts, inProgress: 1, remaining: 0 } }),
      at: during,
      closes: false,
    },
    {
      when: 'a node has failed',
      of: window({ active, progress: { ...counts, failed: 1, remaining: 0 } }),
      at: during,
      closes: false,
    },
    {
      when: 'every node is done',
      of: window({ active, progress: { ...counts, remaining: 0 } }),
      at: during,
      closes: true,
    },
    { when: 'it has ended', of: window({ active, progress: left }), at: after, closes: true },
    {
      when: 'it was cancelled',
      of: window({ active: { ...active, requests: { cancelled: true } }, progress: left }),
      at: during,
      closes: true,
    },
    {
      when: 'it is being deleted',
      of: window({ active, progress: left }, { deletionTimestamp: start }),
      at: during,
      closes: true,
    },
  ])('may be closed when $when: $closes', ({ of, at, closes }) => {
    expect(closingProblem(of, at) === undefined).toBe(closes);
  });

  test('belongs to the workflow that the object names', () => {
    expect(openedBy(window({ active }), active.workflowId)).toBe(active);
    expect(openedBy(window({ active }), 'maintenance-window-os-forged')).toBeUndefined();
    expect(openedBy(window({}), active.workflowId)).toBeUndefined();
  });

  test('has the requests that the object records', () => {
    const none = { end, approved: false, approvedNodes: [], paused: false, cancelled: false };
    expect(recordedRequests(active)).toEqual(none);
    const requests = { approvedNodes: ['n1'], paused: true };
    expect(recordedRequests({ ...active, requests })).toEqual({ ...none, ...requests });
  });

  test.each([
    { when: 'it is open', of: window({ active }), at: during, resumes: true },
    { when: 'it has ended', of: window({ active }), at: after, resumes: false },
    { when: 'it is closed', of: window({}), at: during, resumes: false },
  ])('resumes drains that it holds when $when: $resumes', ({ of, at, resumes }) => {
    expect(mayResumeNodes(of, at)).toBe(resumes);
  });
});

describe('an opening of the schedule', () => {
  test('is over once it was closed, like those before it', () => {
    const closed = window({ lastClosed: start });
    expect(wasClosed(closed, Date.parse(start))).toBe(true);
    expect(wasClosed(closed, Date.parse(start) - 1)).toBe(true);
    expect(wasClosed(closed, Date.parse(end))).toBe(false);
    expect(wasClosed(window({}), Date.parse(start))).toBe(false);
  });

  test('that was closed earlier does not replace a later one', () => {
    const { status = { conditions: [], observedGeneration: 0 } } = window({});
    const later = { start: end, end: '2026-01-01T10:00:00.000Z' };
    expect(withLastClosed(status, active).lastClosed).toBe(start);
    expect(withLastClosed({ ...status, lastClosed: end }, active).lastClosed).toBe(end);
    expect(withLastClosed({ ...status, lastClosed: start }, later).lastClosed).toBe(end);
  });

  test('that started at its own end was never open, so that the next one may start at that time', () => {
    const { status = { conditions: [], observedGeneration: 0 } } = window({});
    expect(withLastClosed(status, { start: end, end })).toEqual(status);
  });
});
