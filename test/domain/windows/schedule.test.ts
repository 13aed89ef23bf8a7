import fc from 'fast-check';
import type { WindowSchedule } from '../../../api/maintenanceWindow.ts';
import {
  cronExpressions,
  describeSchedule,
  durationMs,
  nextOpening,
  opensAt,
  scheduleProblems,
  isRepeatedOpening,
} from '../../../domain/windows/schedule.ts';

const at = (text: string) => Date.parse(text);
const iso = (ms: number | undefined) => (ms === undefined ? 'never' : new Date(ms).toISOString());

const schedule = (differs: Partial<WindowSchedule>): WindowSchedule => ({
  timeZone: 'UTC',
  duration: '1h',
  ...differs,
});

function openings(one: WindowSchedule, from: string, count: number): string[] {
  const found: string[] = [];
  for (let now = at(from); found.length < count; ) {
    const next = nextOpening(one, now);
    if (next === undefined) break;
    found.push(iso(next));
    now = next;
  }
  return found;
}

describe('windows open', () => {
  test.each([
    {
      when: 'by cron, in Berlin in summer and in winter',
      given: { cron: '0 2 * * 6', timeZone: 'Europe/Berlin' },
      from: '2026-10-20T00:00:00Z',
      want: ['2026-10-24T00:00:00.000Z', '2026-10-31T01:00:00.000Z'],
    },
    {
      when: 'by cron with names, lists, ranges and steps',
      given: { cron: '*/30 22-23 * jan,dec Mon-Fri' },
      from: '2026-12-31T22:45:00Z',
      want: ['2026-12-31T23:00:00.000Z', '2026-12-31T23:30:00.000Z', '2027-01-01T22:00:00.000Z'],
    },
    {
      when: 'by cron with day of month and day of week, which must both match as in Temporal: Friday the 13th',
      given: { cron: '0 0 13 * 5' },
      from: '2026-01-01T00:00:00Z',
      want: ['2026-02-13T00:00:00.000Z', '2026-03-13T00:00:00.000Z', '2026-11-13T00:00:00.000Z'],
    },
    {
      when: 'by calendar, at the entry that is next',
      given: {
        calendar: [
          { time: '02:00', daysOfWeek: ['Saturday' as const, 'Sunday' as const] },
          { time: '22:15', daysOfMonth: [1], months: [3] },
        ],
      },
      from: '2026-02-27T00:00:00Z',
      want: ['2026-02-28T02:00:00.000Z', '2026-03-01T02:00:00.000Z', '2026-03-01T22:15:00.000Z'],
    },
    {
      when: 'once, in a given year',
      given: { calendar: [{ time: '02:00', daysOfMonth: [5], months: [1], years: [2027] }] },
      from: '2026-02-27T00:00:00Z',
      want: ['2027-01-05T02:00:00.000Z'],
    },
    {
      when: 'except on exceptions, which are local dates',
      given: { cron: '0 1 * * *', timeZone: 'Asia/Tokyo', exceptions: ['2026-12-24', '2026-12-25'] },
      from: '2026-12-22T10:00:00Z',
      want: ['2026-12-22T16:00:00.000Z', '2026-12-25T16:00:00.000Z'],
    },
  ])('$when', ({ given, from, want }) => {
    expect(openings(schedule(given), from, want.length)).toEqual(want);
  });
});

describe('on the days on which daylight saving time begins or ends', () => {
  test.each([
    {
      when: 'a local time that does not exist in Berlin opens no window',
      given: { cron: '30 2 * * *', timeZone: 'Europe/Berlin' },
      from: '2027-03-27T02:00:00Z',
      want: ['2027-03-29T00:30:00.000Z'],
    },
    {
      when: 'a local time that occurs twice in Berlin opens the window at the second occurrence, as Temporal does east of UTC',
      given: { cron: '30 2 * * *', timeZone: 'Europe/Berlin' },
      from: '2026-10-24T12:00:00Z',
      want: ['2026-10-25T01:30:00.000Z', '2026-10-26T01:30:00.000Z'],
    },
    {
      when: 'a local time that does not exist in New York opens no window',
      given: { cron: '30 2 * * 0', timeZone: 'America/New_York' },
      from: '2027-03-08T00:00:00Z',
      want: ['2027-03-21T06:30:00.000Z'],
    },
    {
      when: 'a local time that occurs twice in New York opens the window at the first occurrence, as Temporal does west of UTC',
      given: { cron: '30 1 * * 0', timeZone: 'America/New_York' },
      from: '2026-10-26T00:00:00Z',
      want: ['2026-11-01T05:30:00.000Z', '2026-11-08T06:30:00.000Z'],
    },
    {
      when: 'other local times open their windows',
      given: { cron: '0 4 * * *', timeZone: 'Europe/Berlin' },
      from: '2027-03-27T04:00:00Z',
      want: ['2027-03-28T02:00:00.000Z', '2027-03-29T02:00:00.000Z'],
    },
  ])('$when', ({ given, from, want }) => {
    expect(openings(schedule(given), from, want.length)).toEqual(want);
  });

  test('the second occurrence of a local time does not open the window, although Temporal fires on it', () => {
    const newYork = schedule({ cron: '30 1 * * *', timeZone: 'America/New_York' });
    const times = ['2026-11-01T05:30:00Z', '2026-11-01T06:30:00Z', '2026-11-02T06:30:00Z'].map(at);
    expect(times.map((time) => opensAt(newYork, time))).toEqual([true, false, true]);
    expect(times.map((time) => isRepeatedOpening(newYork, time))).toEqual([false, true, false]);
  });
});

describe('a schedule is rejected, with the field and how to fix it,', () => {
  const now = at('2026-11-21T12:00:00Z');

  test.each([
    {
      when: 'when its time zone does not exist',
      given: { cron: '0 2 * * 6', timeZone: 'Europe/Berlim' },
      want: 'schedule.timeZone: unknown time zone "Europe/Berlim": use an IANA time zone such as Europe/Berlin or UTC',
    },
    {
      when: 'when its time zone is an offset, which Temporal does not support',
      given: { cron: '0 2 * * 6', timeZone: '+02:00' },
      want: 'schedule.timeZone: "+02:00" is not a time zone name: use an IANA time zone such as Europe/Berlin or UTC',
    },
    {
      when: 'when its time zone is spelled in another way',
      given: { cron: '0 2 * * 6', timeZone: 'europe/berlin' },
      want: 'schedule.timeZone: "europe/berlin" must be spelled Europe/Berlin',
    },
    {
      when: 'when its date is the 30th of February',
      given: { cron: '0 2 30 2 *' },
      want: 'schedule: the date never occurs, such as 30 February: correct day and month',
    },
    {
      when: 'when its only date exists, and the hour is skipped because daylight saving time begins',
      given: {
        calendar: [{ time: '02:30', daysOfMonth: [28], months: [3], years: [2027] }],
        timeZone: 'Europe/Berlin',
      },
      want: 'schedule: 2027-03-28 02:30 does not exist in Europe/Berlin, because daylight saving time begins in this hour: choose a time outside of it',
    },
    {
      when: 'when this hour is in the past',
      given: {
        calendar: [{ time: '02:30', daysOfMonth: [29], months: [3], years: [2026] }],
        timeZone: 'Europe/Berlin',
      },
      want: 'schedule: all times are in the past: set a later year, or remove the years',
    },
    {
      when: 'when all of its times are in the past',
      given: { calendar: [{ time: '02:00', years: [2025] }] },
      want: 'schedule: all times are in the past: set a later year, or remove the years',
    },
    {
      when: 'when its exceptions exclude every date',
      given: {
        calendar: [{ time: '02:00', daysOfMonth: [5], months: [1], years: [2027] }],
        exceptions: ['2027-01-05'],
      },
      want: 'schedule.exceptions: the window never opens because of its exceptions: remove one',
    },
    {
      when: 'when an exception does not exist',
      given: { cron: '0 2 * * 6', exceptions: ['2026-12-24', '2026-02-30'] },
      want: 'schedule.exceptions[1]: 2026-02-30 does not exist: correct the date',
    },
    {
      when: 'when a window is still open at the next opening',
      given: { cron: '0 * * * *', duration: '90m' },
      want: 'schedule.duration: 90m is longer than the 60 minutes between the openings at 2026-11-21 13:00 and 2026-11-21 14:00: shorten it, or reduce the number of openings',
    },
    {
      when: 'when one of its fields is not valid',
      given: { cron: '0 2 * * someday' },
      want: 'schedule.cron: "someday" is not a valid day of week: use numbers, names, "*", ",", "-" and "/"',
    },
    {
      when: 'when one of its fields uses a syntax that only some implementations support',
      given: { cron: '0 2 L * *' },
      want: 'schedule.cron: "L" is not a valid day of month: use numbers, names, "*", ",", "-" and "/"',
    },
  ])('when $when', ({ given, want }) => {
    expect(scheduleProblems(schedule(given), now)).toEqual([want]);
  });

  test('when its hour does not exist', () => {
    expect(scheduleProblems(schedule({ cron: '0 25 * * *' }), now)).toEqual([
      expect.stringMatching(/^schedule\.cron: /),
    ]);
  });

  test.each([
    {
      when: '24 hours every day, including the short day of a year',
      given: { cron: '0 0 * * *', duration: '24h', timeZone: 'Europe/Berlin' },
    },
    {
      when: 'in its last window',
      given: { calendar: [{ time: '11:30', years: [2026], months: [11], daysOfMonth: [21] }] },
    },
    { when: 'on the 29th of February', given: { cron: '0 2 29 2 *' } },
    {
      when: 'in a time zone with a deprecated name',
      given: { cron: '0 2 * * *', timeZone: 'Asia/Calcutta' },
    },
  ])('and accepted when it is $when', ({ given }) => {
    expect(scheduleProblems(schedule(given), now)).toEqual([]);
  });
});

test('a schedule has a short form', () => {
  expect(describeSchedule(schedule({ cron: '0 2 * * 6' }))).toBe('0 2 * * 6');
  const entry = { time: '02:00', daysOfWeek: ['Saturday' as const, 'Sunday' as const] };
  expect(describeSchedule(schedule({ calendar: [entry] }))).toBe('Sat,Sun 02:00');
  expect(describeSchedule(schedule({ calendar: [entry, entry] }))).toBe('Sat,Sun 02:00 and 1 more');
  const days = { time: '02:00', daysOfMonth: [1, 15], months: [1, 7] };
  expect(describeSchedule(schedule({ calendar: [days] }))).toBe('02:00 on day 1,15 of month 1,7');
});

test('Temporal gets the cron expressions that openings are computed from', () => {
  expect(cronExpressions(schedule({ cron: '0 2  * * 6' }))).toEqual(['0 0 2 * * 6 *']);
  const entry = { time: '02:05', daysOfMonth: [1, 15], months: [6], years: [2027] };
  expect(cronExpressions(schedule({ calendar: [entry] }))).toEqual(['0 5 2 1,15 6 * 2027']);
});

test('durations are parsed', () => {
  expect(['90m', '4h', '1h30m', '5m10s'].map(durationMs)).toEqual([
    5_400_000, 14_400_000, 5_400_000, 310_000,
  ]);
});

const zones = ['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Kathmandu', 'UTC'];

test('in every time zone, the next opening is in the future and matches the local time', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...zones),
      fc.integer({ min: 0, max: 23 }),
      fc.integer({ min: 0, max: 59 }),
      fc.date({ min: new Date('2024-01-01'), max: new Date('2030-01-01'), noInvalidDate: true }),
      (timeZone, hour, minute, now) => {
        const next = nextOpening(schedule({ cron: `${minute} ${hour} * * *`, timeZone }), now.getTime());
        const local = new Intl.DateTimeFormat('en-GB', { timeZone, hour: '2-digit', minute: '2-digit' });
        expect(next).toBeGreaterThan(now.getTime());
        expect(local.format(next)).toBe(
          `${String(hour).padStart(2, '0')}:${String(minute).padStart(2, '0')}`,
        );
        // At most two days: one on which the local time does not exist, and the next one.
        expect((next ?? 0) - now.getTime()).toBeLessThanOrEqual(50 * 3_600_000);
      },
    ),
  );
});
