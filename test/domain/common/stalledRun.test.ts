import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Condition } from '../../../api/core.ts';
import { withCondition } from '../../../domain/common/conditions.ts';
import {
  checkTiming,
  decideStalled,
  dueChecks,
  failingRuns,
  healthOf,
  isStalled,
  needsAttention,
  type ObservedRun,
  resolvedStalled,
  type RunProblem,
  stalledMessage,
  type StalledInput,
  waitingRun,
} from '../../../domain/common/stalledRun.ts';

const nowMs = Date.parse('2026-11-22T12:00:00Z');
const at = (ms: number) => new Date(ms).toISOString();
const run: ObservedRun = {
  workflowId: 'node-maintenance-rack-7',
  runId: 'run-1',
  isOpen: true,
  hasFailed: false,
  startedMs: nowMs - 3_600_000,
  taskAttempts: 4,
};
const problem: RunProblem = { message: '[TMPRL1100] Nondeterminism error', cause: 'Other' };
const stalledFor = (ms: number, reason = 'WorkflowTaskFailed'): Condition[] => [
  { type: 'Stalled', status: 'True', reason, message: 'stalled', lastTransitionTime: at(nowMs - ms) },
];
const decided = (differs: Partial<StalledInput> = {}) =>
  decideStalled({
    run,
    problem,
    conditions: [],
    isReplaceable: true,
    timeoutSeconds: 300,
    nowMs,
    ...differs,
  });

test.each([
  { taskAttempts: 0, want: 'Working' },
  { taskAttempts: 1, want: 'Working' },
  { taskAttempts: 2, want: 'Unclear' },
  { taskAttempts: 3, want: 'Failing' },
  { taskAttempts: 40, want: 'Failing' },
])('a run whose workflow task has $taskAttempts attempts is $want', ({ taskAttempts, want }) => {
  expect(healthOf({ taskAttempts })).toBe(want);
});

describe('a run that waits for what only a person changes', () => {
  const working: ObservedRun = { ...run, taskAttempts: 1 };
  const untaken = { ...working, untakenSinceMs: nowMs - 181_000 };
  const failing = (attempts: number): ObservedRun => ({
    ...working,
    failingActivity: {
      type: 'removeEvacuations',
      attempts,
      message: 'evacuations is forbidden',
      startedMs: undefined,
    },
  });

  test('because no worker takes its task is reported after three minutes', () => {
    expect(waitingRun({ ...working, untakenSinceMs: nowMs - 179_000 }, nowMs)).toBeUndefined();
    expect(waitingRun(untaken, nowMs)).toMatchObject({
      status: 'True',
      reason: 'WorkflowTaskNotPolled',
      message: expect.stringContaining('waits since 2026-11-22T11:56:59.000Z for a worker'),
    });
  });

  test('because an activity fails is reported with its error after twelve attempts', () => {
    expect(waitingRun(failing(11), nowMs)).toBeUndefined();
    expect(waitingRun(failing(12), nowMs)).toMatchObject({
      status: 'True',
      reason: 'ActivityFailed',
      message: expect.stringContaining(
        'its activity removeEvacuations fails again and again (evacuations is forbidden)',
      ),
    });
    // The number of attempts changes at each check: the message does not.
    expect(waitingRun(failing(40), nowMs)).toEqual(waitingRun(failing(12), nowMs));
  });

  test('is not one whose activity works again, although earlier attempts have failed', () => {
    const { failingActivity } = failing(40);
    const started = (seconds: number): ObservedRun => ({
      ...working,
      ...(failingActivity && { failingActivity: { ...failingActivity, startedMs: nowMs - seconds * 1_000 } }),
    });
    expect(waitingRun(started(61), nowMs)).toBeUndefined();
    expect(waitingRun(started(5), nowMs)).toMatchObject({ reason: 'ActivityFailed' });
  });

  test('is no longer reported once that has changed', () => {
    const conditions = stalledFor(60_000, 'ActivityFailed');
    expect(waitingRun(working, nowMs)).toBeUndefined();
    expect(resolvedStalled(working, conditions, nowMs)).toMatchObject({ reason: 'WorkflowContinues' });
  });
});

describe('a run whose workflow task fails again and again', () => {
  test('is reported with what is wrong, the remedy, and when it will be replaced', () => {
    expect(decided()).toEqual({
      kind: 'Report',
      facts: {
        type: 'Stalled',
        status: 'True',
        reason: 'WorkflowTaskFailed',
        message:
          'Workflow node-maintenance-rack-7 cannot continue, because its workflow task fails again and again ([TMPRL1100] Nondeterminism error). Roll back the workers to the version that ran the workflow before, or terminate the run, and a new one continues from the object: temporal workflow terminate --workflow-id node-maintenance-rack-7 --run-id run-1. The worker terminates it at 2026-11-22T12:05:00.000Z.',
      },
    });
  });

  test('is reported with the same message until it is replaced', () => {
    const [first, later] = [
      decided({ conditions: stalledFor(0) }),
      decided({ conditions: stalledFor(0), nowMs: nowMs + 299_000 }),
    ];
    expect(later).toEqual(first);
  });

  test('is replaced when the object has been stalled for the time of the setting', () => {
    expect(decided({ conditions: stalledFor(300_000) })).toEqual({
      kind: 'Replace',
      facts: {
        type: 'Stalled',
        status: 'False',
        reason: 'WorkflowReplaced',
        message:
          'Workflow node-maintenance-rack-7 could not continue and was terminated: a new run continues from the state of the object.',
      },
      reason: 'its workflow task failed again and again, and a new run continues from the object',
    });
  });

  test.each([
    { when: 'the setting is 0', differs: { timeoutSeconds: 0 }, remedy: 'temporal workflow terminate' },
    {
      when: 'a search attribute is missing, which a new run needs, too',
      differs: { problem: { message: 'no mapping', cause: 'SearchAttribute' as const } },
      remedy: 'npm run temporal-config -- apply): the run then continues within 10 minutes.',
    },
    {
      when: 'the object does not hold what a new run needs',
      differs: { isReplaceable: false },
      remedy: 'Roll back the workers to the version that ran the workflow before.',
    },
  ])('is not replaced if $when', ({ differs, remedy }) => {
    const decision = decided({ ...differs, conditions: stalledFor(86_400_000) });
    expect(decision).toMatchObject({
      kind: 'Report',
      facts: { status: 'True', message: expect.stringContaining(remedy) },
    });
    expect(decision.facts.message).not.toContain('The worker does this');
  });

  test('is replaced, too, if a worker does not have a key, and the remedy is the key', () => {
    const missing = { message: 'a payload is encrypted with key "2027-11"', cause: 'PayloadKey' as const };
    const { facts } = decided({ problem: missing });
    expect(facts.message).toContain(
      '(a payload is encrypted with key "2027-11"). Give every worker the key: the run then continues within 10 minutes, or terminate the run,',
    );
    expect(facts.message).toContain('The worker terminates it at 2026-11-22T12:05:00.000Z.');
    expect(decided({ problem: missing, conditions: stalledFor(300_000) }).kind).toBe('Replace');
  });

  test('waits the whole time again after it was replaced', () => {
    const replaced = decided({ conditions: stalledFor(300_000) });
    const conditions = withCondition(stalledFor(300_000), replaced.facts, at(nowMs));
    expect(isStalled(conditions)).toBe(false);
    expect(decided({ conditions }).kind).toBe('Report');
  });

  test('is decided for any time, setting and text', () => {
    fc.assert(
      fc.property(
        fc.record({
          ms: fc.integer({ min: 0, max: 1e9 }),
          timeoutSeconds: fc.nat(86_400),
          message: fc.string(),
          isReplaceable: fc.boolean(),
        }),
        ({ ms, timeoutSeconds, message, isReplaceable }) => {
          const given = { problem: { ...problem, message }, conditions: stalledFor(ms) };
          const { kind, facts } = decided({ ...given, timeoutSeconds, isReplaceable });
          const isDue = timeoutSeconds > 0 && ms >= timeoutSeconds * 1_000;
          expect(kind).toBe(isReplaceable && isDue ? 'Replace' : 'Report');
          expect(facts.status).toBe(kind === 'Replace' ? 'False' : 'True');
        },
      ),
    );
  });
});

describe('a stalled object', () => {
  const healthy = { ...run, taskAttempts: 0 };

  test.each([
    { when: 'its run works again', of: healthy, conditions: stalledFor(1_000), want: 'WorkflowContinues' },
    { when: 'its run still fails', of: run, conditions: stalledFor(1_000), want: undefined },
    {
      when: 'one attempt more may succeed',
      of: { ...run, taskAttempts: 2 },
      conditions: stalledFor(1_000),
      want: undefined,
    },
    {
      when: 'its runs failed at once, and this one was just started',
      of: { ...healthy, startedMs: nowMs - 60_000 },
      conditions: stalledFor(1_000, 'WorkflowFailed'),
      want: undefined,
    },
    {
      when: 'its runs failed at once, and this one lasts longer than the longest pause',
      of: { ...healthy, startedMs: nowMs - 90_000 },
      conditions: stalledFor(1_000, 'WorkflowFailed'),
      want: 'WorkflowContinues',
    },
    { when: 'it has not stalled', of: healthy, conditions: [], want: undefined },
  ])('is resolved as $want if $when', ({ of, conditions, want }) => {
    expect(resolvedStalled(of, conditions, nowMs)?.reason).toBe(want);
  });

  test('is one of which a condition that should be False is True', () => {
    const [stalled] = stalledFor(1_000);
    expect(stalledMessage(stalledFor(1_000))).toBe('stalled');
    expect(needsAttention(stalled as Condition)).toBe(true);
    expect(needsAttention({ type: 'Stalled', status: 'False' })).toBe(false);
    expect(needsAttention({ type: 'Valid', status: 'True' })).toBe(false);
    expect(needsAttention({ type: 'Valid', status: 'Unknown' })).toBe(true);
  });

  test('whose runs fail at once says how its work is ended', () => {
    const { message } = failingRuns('node-maintenance-rack-7', problem, 'complete the maintenance to end it');
    expect(message).toBe(
      'Workflow node-maintenance-rack-7 fails soon after each start ([TMPRL1100] Nondeterminism error). It is started again with growing pauses, up to 60 s: remove the cause, or complete the maintenance to end it.',
    );
  });
});

describe('runs are checked', () => {
  test.each([
    {
      timeoutSeconds: 0,
      want: { everyMs: 60_000, suspectEveryMs: 10_000, maxPerPass: 50, waitingMs: 60_000 },
    },
    {
      timeoutSeconds: 300,
      want: { everyMs: 60_000, suspectEveryMs: 10_000, maxPerPass: 50, waitingMs: 60_000 },
    },
    {
      timeoutSeconds: 100,
      want: { everyMs: 20_000, suspectEveryMs: 10_000, maxPerPass: 50, waitingMs: 60_000 },
    },
    {
      timeoutSeconds: 10,
      want: { everyMs: 2_000, suspectEveryMs: 2_000, maxPerPass: 10, waitingMs: 60_000 },
    },
    { timeoutSeconds: 1, want: { everyMs: 1_000, suspectEveryMs: 1_000, maxPerPass: 5, waitingMs: 60_000 } },
  ])('every $want.everyMs ms with a timeout of $timeoutSeconds s', ({ timeoutSeconds, want }) => {
    expect(checkTiming(timeoutSeconds)).toEqual(want);
  });

  const timing = { everyMs: 60_000, suspectEveryMs: 10_000, maxPerPass: 2, waitingMs: 60_000 };
  const runs = (...names: string[]) => names.map((name) => ({ name, isSuspect: name.startsWith('suspect') }));

  test('those first that were checked the longest time ago, and not more in one pass than allowed', () => {
    const checked = new Map([
      ['a', nowMs - 61_000],
      ['b', nowMs - 59_000],
      ['c', nowMs - 90_000],
      ['suspect-d', nowMs - 62_000],
    ]);
    expect(dueChecks(runs('a', 'b', 'c', 'suspect-d'), checked, timing, nowMs)).toEqual(['c', 'suspect-d']);
  });

  test('more often if their object shows no progress', () => {
    const checked = new Map([
      ['a', nowMs - 10_000],
      ['suspect-b', nowMs - 10_000],
    ]);
    expect(dueChecks(runs('a', 'suspect-b'), checked, timing, nowMs)).toEqual(['suspect-b']);
  });

  test('all of them in turn, however many there are', () => {
    const names = Array.from({ length: 500 }, (_, index) => `run-${index}`);
    const checked = new Map(names.map((name) => [name, 0]));
    const seen = new Set<string>();
    const { suspectEveryMs, ...rest } = checkTiming(300);
    for (let pass = 1; pass <= 10; pass += 1) {
      const passMs = nowMs + pass * suspectEveryMs;
      const due = dueChecks(runs(...names), checked, { suspectEveryMs, ...rest }, passMs);
      expect(due).toHaveLength(50);
      for (const name of due) {
        seen.add(name);
        checked.set(name, passMs);
      }
    }
    expect(seen.size).toBe(500);
  });
});
