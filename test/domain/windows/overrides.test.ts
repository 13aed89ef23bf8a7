import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { MaintenanceWindow } from '../../../api/maintenanceWindow.ts';
import { scheduledCondition } from '../../../domain/windows/conditions.ts';
import { effectiveRequests } from '../../../domain/windows/openWindow.ts';
import {
  openingProblems,
  pauseOf,
  scheduleOf,
  skippedBecause,
  skippedDates,
  stopOf,
  withSkippedDate,
} from '../../../domain/windows/overrides.ts';
import { nextOpening } from '../../../domain/windows/schedule.ts';
import { anyText } from '../../kit/anyText.ts';

const paused = 'nodemaintenance.k8s.io/paused';
const skipped = 'nodemaintenance.k8s.io/skipped-dates';
const nowMs = Date.parse('2027-01-01T00:00:00Z');

function windowWith(
  annotations?: Record<string, string>,
  spec: { suspend?: boolean; exceptions?: string[]; years?: number[] } = {},
): MaintenanceWindow {
  const { suspend = false, exceptions, years } = spec;
  const calendar = [{ time: '03:00', ...(years && { years, months: [1], daysOfMonth: [2, 3] }) }];
  const schedule = { calendar, timeZone: 'UTC', duration: '1h', ...(exceptions && { exceptions }) };
  return {
    metadata: { name: 'os', ...(annotations && { annotations }) },
    spec: { suspend, schedule },
  } as unknown as MaintenanceWindow;
}

describe('a pause by annotation', () => {
  test('adds to spec.suspend, and says which of the two it is', () => {
    const conditionOf = (window: MaintenanceWindow) => {
      const stop = stopOf(window);
      return scheduledCondition(stop === undefined ? { kind: 'UpToDate' } : { kind: 'Suspended', stop });
    };
    expect(conditionOf(windowWith())).toMatchObject({ status: 'True' });
    expect(conditionOf(windowWith({}, { suspend: true }))).toMatchObject({
      reason: 'Suspended',
      message: 'spec.suspend is true: the window does not open until it is false.',
    });
    const message =
      'The window is paused (disk): it does not open until kubectl maintenance window resume removes the annotation nodemaintenance.k8s.io/paused.';
    expect(conditionOf(windowWith({ [paused]: 'disk' }))).toMatchObject({ reason: 'Paused', message });
    expect(conditionOf(windowWith({ [paused]: 'disk' }, { suspend: true }))).toMatchObject({
      reason: 'Paused',
      message: `${message} spec.suspend is true as well.`,
    });
  });

  test('pauses whatever its value is, which is shown in one line', () => {
    fc.assert(
      fc.property(anyText({ maxLength: 400 }), (value) => {
        const reason = pauseOf(windowWith({ [paused]: value }));
        expect(reason).toMatch(/^[^\p{Cc}\n]+$/u);
        expect(reason?.length).toBeLessThanOrEqual(256);
      }),
    );
    expect(pauseOf(windowWith())).toBeUndefined();
  });

  test('pauses the open window as well', () => {
    const active = { workflowId: 'w', runId: 'r', start: '', end: '', nodes: [] };
    expect(effectiveRequests(windowWith(), active).paused).toBe(false);
    expect(effectiveRequests(windowWith({ [paused]: 'disk' }), active).paused).toBe(true);
    const requests = { paused: true };
    expect(effectiveRequests(windowWith(), { ...active, requests }).paused).toBe(true);
  });
});

describe('openings that are skipped by annotation', () => {
  test('are left out, in addition to the exceptions of the schedule', () => {
    const exceptions = ['2027-01-01', '2027-01-02'];
    const window = windowWith({ [skipped]: '2027-01-02,2027-01-03' }, { exceptions });
    expect(scheduleOf(window).exceptions).toEqual(['2027-01-01', '2027-01-02', '2027-01-03']);
    expect(nextOpening(scheduleOf(window), nowMs)).toBe(Date.parse('2027-01-04T03:00:00Z'));
    expect(window.spec.schedule.exceptions).toEqual(exceptions);
  });

  test('leave a window without the annotation as it is: its Schedule does not change', () => {
    const window = windowWith({}, { exceptions: ['2027-01-01'] });
    expect(scheduleOf(window)).toBe(window.spec.schedule);
  });

  test('are not opened by the schedule itself, nor is a window that is paused or suspended', () => {
    const at = Date.parse('2027-01-02T03:00:00Z');
    const because = (window: MaintenanceWindow, time = at) => skippedBecause(window, time);
    expect(because(windowWith({ [skipped]: '2027-01-02' }))).toBe('skips this opening');
    expect(because(windowWith({}, { exceptions: ['2027-01-02'] }))).toBe('skips this opening');
    expect(because(windowWith({ [skipped]: '2027-01-03' }))).toBeUndefined();
    expect(because(windowWith({ [skipped]: '2027-01-02' }), at + 60_000)).toBeUndefined();
    expect(because(windowWith({ [paused]: 'disk' }, { suspend: true }))).toBe('is paused');
    expect(because(windowWith({}, { suspend: true }))).toBe('is suspended');
  });

  test('are collected in order, each once', () => {
    const dates = fc.date({ min: new Date(0), max: new Date(4e12), noInvalidDate: true });
    fc.assert(
      fc.property(fc.array(dates, { minLength: 1 }), (all) => {
        const texts = all.map((date) => date.toISOString().slice(0, 10));
        const value = texts.reduce<string | undefined>(
          (before, date) =>
            withSkippedDate(windowWith(before === undefined ? {} : { [skipped]: before }), date),
          undefined,
        );
        expect(skippedDates(windowWith({ [skipped]: value ?? '' }))).toEqual([...new Set(texts)].toSorted());
      }),
    );
  });

  test.each([
    {
      value: '2027-01-02, 2027-01-03',
      problem: 'expected dates such as 2026-12-24, separated by commas (got " 2027-01-03")',
    },
    { value: '', problem: 'expected dates such as 2026-12-24, separated by commas (got "")' },
    { value: '2027-02-30', problem: 'a date does not exist, or no opening is left: remove one' },
    {
      value: Array(101).fill('2027-01-02').join(','),
      problem: 'more than 100 dates: remove those in the past',
    },
  ])('are a problem of the window: $problem', ({ value, problem }) => {
    expect(openingProblems(windowWith({ [skipped]: value }), nowMs)).toEqual([
      `metadata.annotations[${skipped}]: ${problem}`,
    ]);
  });

  test('are a problem if no opening is left, but not in addition to one of the schedule', () => {
    const last = windowWith({ [skipped]: '2027-01-02,2027-01-03' }, { years: [2027] });
    expect(openingProblems(last, nowMs)).toEqual([expect.stringMatching(/^metadata\.annotations\[/)]);
    const past = windowWith({ [skipped]: '2027-01-02' }, { years: [2020] });
    expect(openingProblems(past, nowMs)).toEqual([expect.stringMatching(/^schedule: /)]);
    expect(openingProblems(windowWith({ [skipped]: '2027-01-02' }), nowMs)).toEqual([]);
  });
});
