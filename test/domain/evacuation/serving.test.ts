import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  askAgainAfterMs,
  mayHaveRequests,
  servingCondition,
  servingOf,
  unansweredIn,
} from '../../../domain/evacuation/serving.ts';

const nowMs = Date.parse('2026-01-01T12:00:00Z');
const auto = { api: 'auto', responseSeconds: 30 } as const;

describe('EvictionRequests are', () => {
  test.each([
    {
      when: 'the apiserver does not serve them',
      differs: { isServed: false, answeredMs: nowMs },
      want: 'NotServed',
    },
    { when: 'none was created', differs: {}, want: 'Unknown' },
    { when: 'one was answered', differs: { answeredMs: 1 }, want: 'Served' },
    { when: 'none was answered', differs: { unansweredMs: nowMs - 1 }, want: 'Unanswered' },
    {
      when: 'one was answered after another was not',
      differs: { unansweredMs: nowMs - 2, answeredMs: nowMs - 1 },
      want: 'Served',
    },
    {
      when: 'the controller has stopped',
      differs: { answeredMs: nowMs - 2, unansweredMs: nowMs - 1 },
      want: 'Unanswered',
    },
    {
      when: 'none was answered long ago: a controller may run by now',
      differs: { unansweredMs: nowMs - askAgainAfterMs },
      want: 'Unknown',
    },
  ])('$want when $when', ({ differs, want }) => {
    expect(
      servingOf({ isServed: true, answeredMs: undefined, unansweredMs: undefined, nowMs, ...differs }),
    ).toBe(want);
  });

  test('served from the answer to a newer one on, whatever was before', () => {
    const ms = fc.option(fc.integer({ min: 0, max: nowMs - 1 }), { nil: undefined });
    fc.assert(
      fc.property(ms, ms, (answeredMs, unansweredMs) => {
        const facts = { isServed: true, answeredMs, unansweredMs, nowMs };
        expect(servingOf({ ...facts, answeredMs: nowMs })).toBe('Served');
      }),
    );
  });
});

test('the condition shows another process when none was answered, and that there may be requests', () => {
  const condition = {
    ...servingCondition('Unanswered', auto),
    lastTransitionTime: new Date(nowMs).toISOString(),
  };
  expect(condition).toMatchObject({ status: 'False', reason: 'NoController' });
  expect(unansweredIn([condition], 30_000)).toBe(nowMs - 30_000);
  expect(unansweredIn([{ ...condition, reason: 'ControllerResponds' }], 30_000)).toBeUndefined();
  const status = { conditions: [condition] } as never;
  expect(mayHaveRequests({ status })).toBe(true);
  expect(mayHaveRequests({})).toBe(false);
});

test('the message says what happens to the pods', () => {
  expect(servingCondition('Unanswered', auto).message).toContain('pods leave by Evacuations');
  expect(servingCondition('NotServed', { ...auto, api: 'lifecycle' }).message).toContain('pods wait');
  expect(servingCondition('Served', auto).status).toBe('True');
  expect(servingCondition('Unknown', auto).status).toBe('Unknown');
});
