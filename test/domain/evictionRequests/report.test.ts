import { describe, expect, test } from '@jest/globals';
import type { LifecycleEviction, ResponderState, ResponderStatus } from '../../../api/lifecycle.ts';
import {
  assignmentOf,
  replacedResponder,
  reportDelayMs,
  withCompletion,
  withHeartbeat,
  withMessage,
} from '../../../domain/evictionRequests/report.ts';

const name = 'example.com/mover';
const startTime = '2026-11-25T12:00:00Z';
const at = (seconds: number) => new Date(Date.parse(startTime) + seconds * 1_000);

function eviction(
  state: ResponderState,
  status: Partial<ResponderStatus> = {},
  differs: Partial<LifecycleEviction['metadata']> = {},
): LifecycleEviction {
  return {
    metadata: { name: 'pod-1-web', namespace: 'default', ...differs },
    spec: { target: { pod: { name: 'web', uid: '00000000-0000-4000-8000-000000000001' } } },
    status: {
      targetResponders: [
        { name, priority: 10_000, state },
        { name: 'example.com/other', priority: 1_000, state: 'Inactive' },
      ],
      responders: [{ name, startTime, ...status }, { name: 'example.com/other' }],
    },
  };
}

describe('A responder acts', () => {
  test.each([
    { when: 'it is Active', of: eviction('Active'), acts: true },
    { when: 'not when it is Inactive', of: eviction('Inactive'), acts: false },
    { when: 'not when it is Canceled', of: eviction('Canceled'), acts: false },
    {
      when: 'not when it has completed',
      of: eviction('Active', { completionTime: startTime }),
      acts: false,
    },
    {
      when: 'not when the Eviction is deleted',
      of: eviction('Active', {}, { deletionTimestamp: startTime }),
      acts: false,
    },
  ])('$when', ({ of, acts }) => {
    expect(assignmentOf(of, name) !== undefined).toBe(acts);
  });
});

describe('A heartbeat', () => {
  test.each([
    { when: 'the first one is due at once', status: {}, afterSeconds: 0, waitSeconds: 0 },
    {
      when: 'another message waits until 20 s have passed',
      status: { heartbeatTime: startTime, message: 'other' },
      afterSeconds: 5,
      waitSeconds: 15,
    },
    {
      when: 'another message is due after 20 s',
      status: { heartbeatTime: startTime, message: 'other' },
      afterSeconds: 20,
      waitSeconds: 0,
    },
    {
      when: 'the same message waits for five minutes',
      status: { heartbeatTime: startTime, message: 'waits' },
      afterSeconds: 20,
      waitSeconds: 280,
    },
  ])('$when', ({ status, afterSeconds, waitSeconds }) => {
    const report = { message: 'waits', now: at(afterSeconds) };
    expect(reportDelayMs({ name, startTime, ...status }, report)).toBe(waitSeconds * 1_000);
  });

  test('never goes back, whatever the clock of the process', () => {
    const status = { name, startTime, heartbeatTime: '2026-11-25T12:05:00Z' };
    expect(withHeartbeat(status, { message: 'm', now: at(0) }).heartbeatTime).toBe('2026-11-25T12:05:00Z');
    expect(withHeartbeat({ name, startTime }, { message: 'm', now: at(-3) }).heartbeatTime).toBe(startTime);
  });

  test('contains an expected time that the apiserver accepts', () => {
    const expected = (expectedCompletionTime: Date) =>
      withHeartbeat({ name, startTime }, { message: 'm', expectedCompletionTime, now: at(60) })
        .expectedCompletionTime;
    expect(expected(at(120))).toBe('2026-11-25T12:02:00Z');
    expect(expected(at(0))).toBe('2026-11-25T12:01:00Z');
    expect(expected(new Date(Number.NaN))).toBeUndefined();
    // The apiserver accepts ten years. One day less leaves room for a difference of the clocks.
    expect(Date.parse(expected(new Date('9999-12-31T00:00:00Z')) ?? '')).toBe(
      at(60 + 3_649 * 86_400).getTime(),
    );
  });

  test('has a message of one line and at most 4000 characters', () => {
    const { message } = withMessage({ name }, `a\n${'b'.repeat(5_000)}`);
    expect(message).toHaveLength(4_000);
    expect(message).toMatch(/^a b/);
  });
});

test('A completion is not before the start', () => {
  expect(withCompletion({ name, startTime }, { message: 'done', now: at(-2) })).toEqual({
    name,
    startTime,
    completionTime: startTime,
    message: 'done',
  });
});

test('A report replaces the entry of its responder only', () => {
  const next = { name, startTime, message: 'm' };
  expect(replacedResponder(eviction('Active'), next)).toEqual([next, { name: 'example.com/other' }]);
});
