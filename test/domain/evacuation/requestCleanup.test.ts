import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type CleanupFacts, cleanupStep } from '../../../domain/evacuation/requestCleanup.ts';

const plain: CleanupFacts = {
  state: { kind: 'InProgress', responder: undefined },
  hasPod: true,
  isUnreported: true,
  isNeeded: true,
  hasEvacuation: false,
};
const withdrawn = (isSettled: boolean) => ({ kind: 'Withdrawn' as const, wasAnswered: true, isSettled });

describe('the leader', () => {
  test.each<{ when: string; differs: Partial<CleanupFacts>; forMs: number; want: string }>([
    { when: 'a drain needs it', differs: {}, forMs: 1e9, want: 'Keep' },
    { when: 'its pod is gone', differs: { hasPod: false, isUnreported: false }, forMs: 0, want: 'Delete' },
    {
      when: 'the controller may still report how it ended',
      differs: { hasPod: false },
      forMs: 0,
      want: 'Keep',
    },
    {
      when: 'the controller did not report in time',
      differs: { hasPod: false },
      forMs: 10_000,
      want: 'Delete',
    },
    { when: 'it was withdrawn', differs: { state: withdrawn(true) }, forMs: 0, want: 'Delete' },
    {
      when: 'its responder has not stopped yet',
      differs: { state: withdrawn(false) },
      forMs: 0,
      want: 'Keep',
    },
    {
      when: 'its responder never stops',
      differs: { state: withdrawn(false) },
      forMs: 60_000,
      want: 'Delete',
    },
    {
      when: 'its drain may not have published yet',
      differs: { isNeeded: false },
      forMs: 59_999,
      want: 'Keep',
    },
    { when: 'no drain needs it', differs: { isNeeded: false }, forMs: 60_000, want: 'Withdraw' },
    { when: 'its pod has an Evacuation, too', differs: { hasEvacuation: true }, forMs: 0, want: 'Withdraw' },
  ])('decides $want when $when', ({ differs, forMs, want }) => {
    expect(cleanupStep({ ...plain, ...differs }, forMs).kind).toBe(want);
  });

  test('never deletes a request that is not withdrawn while its pod exists', () => {
    const facts = fc.record({
      state: fc.constantFrom<CleanupFacts['state']>(
        plain.state,
        { kind: 'Unanswered', sinceMs: 0 },
        { kind: 'Refused', message: '' },
        { kind: 'Failed', atMs: 0, message: '' },
        { kind: 'Evicted' },
      ),
      hasPod: fc.constant(true),
      isUnreported: fc.boolean(),
      isNeeded: fc.boolean(),
      hasEvacuation: fc.boolean(),
    });
    fc.assert(
      fc.property(facts, fc.nat(), (one, forMs) => {
        expect(cleanupStep(one, forMs).kind).not.toBe('Delete');
      }),
    );
  });
});
