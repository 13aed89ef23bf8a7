import fc from 'fast-check';
import type { WindowSchedule } from '../../api/maintenanceWindow.ts';
import {
  cronExpressions,
  describeSchedule,
  durationMs,
  nextOpening,
  opensAt,
  scheduleProblems,
  showsAgain,
} from '../../domain/windowSchedule.ts';

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
      when: 'by cron, in summer and in winter of Berlin',
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
      when: 'on days that are both of the month and of the week, as in Temporal: Friday the 13th',
      given: { cron: '0 0 13 * 5' },
      from: '2026-01-01T00:00:00Z',
      want: ['2026-02-13T00:00:00.000Z', '2026-03-13T00:00:00.000Z', '2026-11-13T00:00:00.000Z'],
    },
    {
      when: 'by calendar, whichever entry is next',
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
      when: 'once, in a year that is given',
      given: { calendar: [{ time: '02:00', daysOfMonth: [5], months: [1], years: [2027] }] },
      from: '2026-02-27T00:00:00Z',
      want: ['2027-01-05T02:00:00.000Z'],
    },
    {
      when: 'not on exceptions, which are dates of the zone',
      given: { cron: '0 1 * * *', timeZone: 'Asia/Tokyo', exceptions: ['2026-12-24', '2026-12-25'] },
      from: '2026-12-22T10:00:00Z',
      want: ['2026-12-22T16:00:00.000Z', '2026-12-25T16:00:00.000Z'],
    },
  ])('$when', ({ given, from, want }) => {
    expect(openings(schedule(given), from, want.length)).toEqual(want);
  });
});

describe('on the day that clocks change', () => {
  test.each([
    {
      when: 'a time that the clocks of Berlin skip opens no window',
      given: { cron: '30 2 * * *', timeZone: 'Europe/Berlin' },
      from: '2027-03-27T02:00:00Z',
      want: ['2027-03-29T00:30:00.000Z'],
    },
    {
      when: 'a time that the clocks of Berlin show twice opens one, the second, as Temporal takes it east of Greenwich',
      given: { cron: '30 2 * * *', timeZone: 'Europe/Berlin' },
      from: '2026-10-24T12:00:00Z',
      want: ['2026-10-25T01:30:00.000Z', '2026-10-26T01:30:00.000Z'],
    },
    {
      when: 'a time that the clocks of New York skip opens no window',
      given: { cron: '30 2 * * 0', timeZone: 'America/New_York' },
      from: '2027-03-08T00:00:00Z',
      want: ['2027-03-21T06:30:00.000Z'],
    },
    {
      when: 'a time that the clocks of New York show twice opens one, the first, as Temporal takes it west of Greenwich',
      given: { cron: '30 1 * * 0', timeZone: 'America/New_York' },
      from: '2026-10-26T00:00:00Z',
      want: ['2026-11-01T05:30:00.000Z', '2026-11-08T06:30:00.000Z'],
    },
    {
      when: 'other times of that day open theirs',
      given: { cron: '0 4 * * *', timeZone: 'Europe/Berlin' },
      from: '2027-03-27T04:00:00Z',
      want: ['2027-03-28T02:00:00.000Z', '2027-03-29T02:00:00.000Z'],
    },
  ])('$when', ({ given, from, want }) => {
    expect(openings(schedule(given), from, want.length)).toEqual(want);
  });

  test('a time that is shown once more is no opening, although Temporal fires on it', () => {
    const newYork = schedule({ cron: '30 1 * * *', timeZone: 'America/New_York' });
    const shown = ['2026-11-01T05:30:00Z', '2026-11-01T06:30:00Z', '2026-11-02T06:30:00Z'].map(at);
    expect(shown.map((time) => opensAt(newYork, time))).toEqual([true, false, true]);
    expect(shown.map((time) => showsAgain(newYork, time))).toEqual([false, true, false]);
  });
});

describe('a schedule is refused, with the field and the remedy', () => {
  const now = at('2026-11-21T12:00:00Z');

  test.each([
    {
      when: 'its zone does not exist',
      given: { cron: '0 2 * * 6', timeZone: 'Europe/Berlim' },
      want: 'schedule.timeZone: there is no time zone "Europe/Berlim": use an IANA time zone such as Europe/Berlin or UTC',
    },
    {
      when: 'its zone is an offset, which Temporal does not know',
      given: { cron: '0 2 * * 6', timeZone: '+02:00' },
      want: 'schedule.timeZone: "+02:00" is no name of a time zone: use an IANA time zone such as Europe/Berlin or UTC',
    },
    {
      when: 'its zone is spelled in another way',
      given: { cron: '0 2 * * 6', timeZone: 'europe/berlin' },
      want: 'schedule.timeZone: "europe/berlin" must be written Europe/Berlin',
    },
    {
      when: 'it is the 30th of February',
      given: { cron: '0 2 30 2 *' },
      want: 'schedule: no such date exists, such as 30 February: correct day and month',
    },
    {
      when: 'all of its times are past',
      given: { calendar: [{ time: '02:00', years: [2025] }] },
      want: 'schedule: all of its times are in the past: give a later year, or none',
    },
    {
      when: 'exceptions leave nothing of it',
      given: {
        calendar: [{ time: '02:00', daysOfMonth: [5], months: [1], years: [2027] }],
        exceptions: ['2027-01-05'],
      },
      want: 'schedule.exceptions: they leave no date on which the window opens: remove one',
    },
    {
      when: 'an exception is no date',
      given: { cron: '0 2 * * 6', exceptions: ['2026-12-24', '2026-02-30'] },
      want: 'schedule.exceptions[1]: there is no 2026-02-30: correct the date',
    },
    {
      when: 'a window lasts until after the next one opens',
      given: { cron: '0 * * * *', duration: '90m' },
      want: 'schedule.duration: 90m is longer than the 60 minutes between the windows of 2026-11-21 13:00 and 2026-11-21 14:00: shorten it, or open fewer windows',
    },
    {
      when: 'one of its fields is none',
      given: { cron: '0 2 * * someday' },
      want: 'schedule.cron: "someday" is no day of week: use numbers, names, "*", ",", "-" and "/"',
    },
    {
      when: 'one of its fields has what only some programs know',
      given: { cron: '0 2 L * *' },
      want: 'schedule.cron: "L" is no day of month: use numbers, names, "*", ",", "-" and "/"',
    },
  ])('when $when', ({ given, want }) => {
    expect(scheduleProblems(schedule(given), now)).toEqual([want]);
  });

  test('when an hour does not exist', () => {
    expect(scheduleProblems(schedule({ cron: '0 25 * * *' }), now)).toEqual([
      expect.stringMatching(/^schedule\.cron: /),
    ]);
  });

  test.each([
    {
      when: 'a day of 24 hours every day, also on the short day of a year',
      given: { cron: '0 0 * * *', duration: '24h', timeZone: 'Europe/Berlin' },
    },
    {
      when: 'the last of its times, and the window open now',
      given: { calendar: [{ time: '11:30', years: [2026], months: [11], daysOfMonth: [21] }] },
    },
    { when: 'the 29th of February', given: { cron: '0 2 29 2 *' } },
    { when: 'a name of a zone from before', given: { cron: '0 2 * * *', timeZone: 'Asia/Calcutta' } },
  ])('and taken when it is $when', ({ given }) => {
    expect(scheduleProblems(schedule(given), now)).toEqual([]);
  });
});

test('a schedule is told in short', () => {
  expect(describeSchedule(schedule({ cron: '0 2 * * 6' }))).toBe('0 2 * * 6');
  const entry = { time: '02:00', daysOfWeek: ['Saturday' as const, 'Sunday' as const] };
  expect(describeSchedule(schedule({ calendar: [entry] }))).toBe('Sat,Sun 02:00');
  expect(describeSchedule(schedule({ calendar: [entry, entry] }))).toBe('Sat,Sun 02:00 and 1 more');
});

test('Temporal gets what the openings are computed from', () => {
  expect(cronExpressions(schedule({ cron: '0 2  * * 6' }))).toEqual(['0 0 2 * * 6 *']);
  const entry = { time: '02:05', daysOfMonth: [1, 15], months: [6], years: [2027] };
  expect(cronExpressions(schedule({ calendar: [entry] }))).toEqual(['0 5 2 1,15 6 * 2027']);
});

test('durations are read', () => {
  expect(['90m', '4h', '1h30m', '5m10s'].map(durationMs)).toEqual([
    5_400_000, 14_400_000, 5_400_000, 310_000,
  ]);
});

const zones = ['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Kathmandu', 'UTC'];

test('whatever the zone, an opening is later than the time asked about, and what its clocks show fits', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...zones),
      fc.integer({ min: 0, max: 23 }),
      fc.integer({ min: 0, max: 59 }),
      fc.date({ min: new Date('2024-01-01'), max: new Date('2030-01-01'), noInvalidDate: true }),
      (timeZone, hour, minute, now) => {
        const next = nextOpening(schedule({ cron: `${minute} ${hour} * * *`, timeZone }), now.getTime());
        const shown = new Intl.DateTimeFormat('en-GB', { timeZone, hour: '2-digit', minute: '2-digit' });
        expect(next).toBeGreaterThan(now.getTime());
        expect(shown.format(next)).toBe(
          `${String(hour).padStart(2, '0')}:${String(minute).padStart(2, '0')}`,
        );
        // Two days at most: one whose clocks skip the time, and the one after.
        expect((next ?? 0) - now.getTime()).toBeLessThanOrEqual(50 * 3_600_000);
      },
    ),
  );
});
