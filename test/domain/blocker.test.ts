import { describe, expect, test } from '@jest/globals';
import type { Evacuation } from '../../api/evacuation.ts';
import { BlockerReason, blockerOf, needsAPerson } from '../../domain/blocker.ts';
import { pod } from '../kit/builders.ts';

const now = new Date('2026-01-01T12:00:00Z');
const evacuation = (status: 'True' | 'False'): Pick<Evacuation, 'status' | 'metadata'> => ({
  metadata: { name: 'e' },
  status: {
    activeEvacuatorCompleted: false,
    failedEvictionCounter: 0,
    message: '',
    conditions: [
      {
        type: 'Blocked',
        status,
        reason: BlockerReason.DisruptionBudget,
        message: 'PodDisruptionBudget shop/db allows no disruption now.',
        lastTransitionTime: '2026-01-01T11:00:00Z',
      },
    ],
  },
});

describe('what keeps a pod from leaving', () => {
  test.each([
    { when: 'nothing is known', of: pod(), seen: undefined, want: undefined },
    { when: 'its Evacuation goes on again', of: pod(), seen: evacuation('False'), want: undefined },
    {
      when: 'its Evacuation is blocked',
      of: pod(),
      seen: evacuation('True'),
      want: {
        reason: 'DisruptionBudget',
        message: 'PodDisruptionBudget shop/db allows no disruption now.',
      },
    },
    {
      when: 'its Evacuation was deleted and others hold it',
      of: pod(),
      seen: {
        metadata: { name: 'e', deletionTimestamp: '2026-01-01T11:59:55Z', finalizers: ['x/y'] },
      },
      want: {
        reason: 'EvacuationDeleted',
        message:
          'Somebody deleted its Evacuation; the next can only be made when its finalizers x/y are gone: see to the controllers that own them.',
      },
    },
    {
      when: 'it is on its way out: what blocked it is over',
      of: pod({ deletionTimestamp: '2026-01-01T11:59:55Z' }),
      seen: evacuation('True'),
      want: undefined,
    },
    {
      when: 'it is overdue and held by finalizers',
      of: pod({ deletionTimestamp: '2026-01-01T11:59:49Z', finalizers: ['b/b', 'a/a'] }),
      seen: undefined,
      want: {
        reason: 'StuckTerminating',
        message:
          'It should have ended at 2026-01-01T11:59:49Z, but its finalizers a/a, b/b hold it: see to the controllers that own them.',
      },
    },
    {
      when: 'it is overdue and nobody ends it',
      of: pod({ deletionTimestamp: '2026-01-01T11:59:49Z' }),
      seen: undefined,
      want: {
        reason: 'StuckTerminating',
        message:
          'It should have ended at 2026-01-01T11:59:49Z, but the kubelet of node node-1 has not ended it: see whether the node is alive.',
      },
    },
  ])('$when', ({ of, seen, want }) => {
    expect(blockerOf(of, seen, now)).toEqual(want);
  });

  test('waiting mends a budget that is used up, and nothing else', () => {
    const waitable = Object.values(BlockerReason).filter((reason) => !needsAPerson({ reason, message: '' }));
    expect(waitable).toEqual(['DisruptionBudget']);
  });
});
