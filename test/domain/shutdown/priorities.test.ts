import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { drainPlanProblems } from '../../../domain/drain/plan.ts';
import {
  drainPlanOf,
  parseShutdownPriorities,
  type ShutdownPriority,
  totalSeconds,
} from '../../../domain/shutdown/priorities.ts';

const int32 = fc.integer({ min: -2_147_483_648, max: 2_147_483_647 });
const groups = fc.uniqueArray(
  fc.record({ priority: int32, seconds: fc.option(fc.integer({ min: 0, max: 86_400 }), { nil: undefined }) }),
  { selector: ({ priority }) => priority, maxLength: 80 },
);

function parsed(text: string): readonly ShutdownPriority[] {
  const result = parseShutdownPriorities(text);
  if (!result.ok) throw new Error(result.problem);
  return result.priorities;
}

describe('the priorities of a shutdown', () => {
  test('are those of the kubelet, in ascending order', () => {
    expect(parsed('2000000000, 1000:120,0:60')).toEqual([
      { priority: 0, seconds: 60 },
      { priority: 1000, seconds: 120 },
      { priority: 2_000_000_000 },
    ]);
    expect(parsed(' ')).toEqual([]);
  });

  test('are read as they were written, and become a valid drain plan', () => {
    fc.assert(
      fc.property(groups, (wanted) => {
        const text = wanted.map(({ priority, seconds }) =>
          seconds === undefined ? `${priority}` : `${priority}:${seconds}`,
        );
        const priorities = parsed(text.join(','));
        expect(priorities.map(({ priority, seconds }) => [priority, seconds])).toEqual(
          wanted
            .toSorted((a, b) => a.priority - b.priority)
            .map(({ priority, seconds }) => [priority, seconds]),
        );
        expect(drainPlanProblems(drainPlanOf(priorities))).toEqual([]);
      }),
    );
  });

  test('of any text are read or rejected with one line', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const result = parseShutdownPriorities(text);
        if (!result.ok) expect(result.problem).not.toMatch(/\n/);
      }),
    );
  });

  test.each([
    { text: 'high:60', because: 'PRIORITY or PRIORITY:SECONDS' },
    { text: '1000:-1', because: 'got "1000:-1"' },
    { text: '2147483648', because: '32 bits' },
    { text: '0:86401', because: 'at most 86400 seconds' },
    { text: '0:1,,5', because: 'got ""' },
    { text: '5:1,5', because: 'priority 5 is there twice: remove one' },
    { text: Array.from({ length: 81 }, (_, i) => i).join(','), because: 'at most 80' },
  ])('$text is rejected', ({ text, because }) => {
    expect(parseShutdownPriorities(text)).toEqual({ ok: false, problem: expect.stringContaining(because) });
  });

  test('are passed to the drain plan of every pod type, without their seconds', () => {
    expect(drainPlanOf(parsed('0:60,1000:120'))).toEqual([
      { podPriority: 0, podType: 'Default' },
      { podPriority: 1000, podType: 'Default' },
      { podPriority: 0, podType: 'DaemonSet' },
      { podPriority: 1000, podType: 'DaemonSet' },
      { podPriority: 0, podType: 'Static' },
      { podPriority: 1000, podType: 'Static' },
    ]);
  });

  test.each([
    { text: '0:60,1000:120', total: 180 },
    { text: '0:60,1000', total: undefined },
    { text: '', total: undefined },
  ])('$text may take $total seconds', ({ text, total }) => {
    expect(totalSeconds(parsed(text))).toBe(total);
  });
});
