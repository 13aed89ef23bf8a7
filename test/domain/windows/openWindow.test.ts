import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { MaintenanceWindow, MaintenanceWindowStatus } from '../../../api/maintenanceWindow.ts';
import { WindowOverrideAnnotation } from '../../../api/names.ts';
import {
  closingProblem,
  decidePhase,
  effectiveRequests,
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

describe('for every open window', () => {
  const hourMs = 3_600_000;
  const times = fc.integer({ min: Date.parse(start) - hourMs, max: Date.parse(end) + hourMs });
  const counted = fc.record({ remaining: fc.nat(2), inProgress: fc.nat(2), failed: fc.nat(2) });
  const windows = fc
    .record({
      requests: fc.record(
        {
          approved: fc.boolean(),
          approvedNodes: fc.subarray(['n1', 'n2']),
          paused: fc.boolean(),
          cancelled: fc.boolean(),
        },
        { requiredKeys: [] },
      ),
      progress: fc.option(counted, { nil: undefined }),
      onWindowEnd: fc.constantFrom(
        'FinishCurrent' as const,
        'HoldCurrent' as const,
        'CancelCurrent' as const,
      ),
      isDeleted: fc.boolean(),
      pausedBecause: fc.constantFrom(undefined, '', 'an incident'),
    })
    .map(({ requests, progress, onWindowEnd, isDeleted, pausedBecause }): MaintenanceWindow => {
      const status = {
        active: { ...active, requests },
        ...(progress && { progress: { ...counts, ...progress } }),
      };
      const { metadata, spec, ...rest } = window(status, isDeleted ? { deletionTimestamp: start } : {});
      const annotations =
        pausedBecause === undefined ? {} : { [WindowOverrideAnnotation.Paused]: pausedBecause };
      return { ...rest, metadata: { ...metadata, annotations }, spec: { ...spec, onWindowEnd } };
    });
  const activeIn = ({ status }: MaintenanceWindow) => status?.active ?? active;
  const phaseAt = (of: MaintenanceWindow, at: number) =>
    decidePhase(of, { ...recordedRequests(activeIn(of)), ended: false }, at);
  const holds = (law: (of: MaintenanceWindow, at: number, later: number) => void) =>
    fc.assert(
      fc.property(windows, times, fc.nat(hourMs), (of, at, laterMs) => law(of, at, at + laterMs)),
      { numRuns: 500 },
    );

  test('it is ending after its end, its cancellation or its deletion, and stays so', () => {
    holds((of, at, later) => {
      const { cancelled } = recordedRequests(activeIn(of));
      const isOver = cancelled || of.metadata.deletionTimestamp !== undefined || at >= Date.parse(end);
      expect(phaseAt(of, at).isEnding).toBe(isOver);
      if (isOver) expect(phaseAt(of, later)).toEqual(phaseAt(of, at));
    });
  });

  test('it holds nodes only if it may open again', () => {
    holds((of, at) => {
      const isDeleted = of.metadata.deletionTimestamp !== undefined;
      if (phaseAt(of, at).policy === 'Hold')
        expect([isDeleted, of.spec.onWindowEnd]).toEqual([false, 'HoldCurrent']);
    });
  });

  test('it may be closed once it is ending, whatever its progress, and before only if nothing is left', () => {
    holds((of, at) => {
      const mayClose = closingProblem(of, at) === undefined;
      if (phaseAt(of, at).isEnding) expect(mayClose).toBe(true);
      const { remaining = 0, inProgress = 0, failed = 0 } = of.status?.progress ?? {};
      // Another worker may read a clock that is a minute ahead.
      if (!phaseAt(of, at + 60_000).isEnding) expect(mayClose).toBe(remaining + inProgress + failed === 0);
    });
  });

  test('it resumes the drains that it holds exactly while it continues nodes', () => {
    holds((of, at) => expect(mayResumeNodes(of, at)).toBe(phaseAt(of, at).policy === 'Finish'));
  });

  test('an annotation pauses it as well, and changes no other request', () => {
    holds((of) => {
      const recorded = recordedRequests(activeIn(of));
      const isAnnotated = of.metadata.annotations?.[WindowOverrideAnnotation.Paused] !== undefined;
      expect(effectiveRequests(of, activeIn(of))).toEqual({
        ...recorded,
        paused: recorded.paused || isAnnotated,
      });
    });
  });
});

test('openings that are closed in any order leave the start of the latest one, and each of them was closed', () => {
  const minute = (offset: number) => new Date(Date.parse(start) + offset * 60_000).toISOString();
  const openings = fc.array(
    fc.record({ at: fc.nat(5), minutes: fc.nat(2) }).map(({ at, minutes }) => ({
      start: minute(at),
      end: minute(at + minutes),
    })),
    { maxLength: 6 },
  );
  fc.assert(
    fc.property(openings, (closed) => {
      const none: MaintenanceWindowStatus = { conditions: [], observedGeneration: 0 };
      const open = closed.filter((one) => one.start !== one.end).map((one) => one.start);
      const status = closed.reduce(withLastClosed, none);
      expect(status.lastClosed).toBe(open.toSorted().at(-1));
      expect(closed.toReversed().reduce(withLastClosed, none)).toEqual(status);
      for (const at of open) expect(wasClosed(window(status), Date.parse(at))).toBe(true);
    }),
  );
});
