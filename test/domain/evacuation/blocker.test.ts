import { describe, expect, test } from '@jest/globals';
import type { Evacuation } from '../../../api/evacuation.ts';
import { BlockerReason, blockerOf, requiresIntervention } from '../../../domain/evacuation/blocker.ts';
import { mirrorPod, pod } from '../../kit/builders.ts';

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

describe('the blocker of a pod', () => {
  test.each([
    {
      when: 'there is neither an Evacuation nor a deletion',
      of: pod(),
      observed: undefined,
      want: undefined,
    },
    {
      when: 'its Evacuation is no longer blocked',
      of: pod(),
      observed: evacuation('False'),
      want: undefined,
    },
    {
      when: 'its Evacuation is blocked',
      of: pod(),
      observed: evacuation('True'),
      want: {
        reason: 'DisruptionBudget',
        message: 'PodDisruptionBudget shop/db allows no disruption now.',
      },
    },
    {
      when: 'its Evacuation is deleted but has finalizers',
      of: pod(),
      observed: {
        metadata: { name: 'e', deletionTimestamp: '2026-01-01T11:59:55Z', finalizers: ['x/y'] },
      },
      want: {
        reason: 'EvacuationDeleted',
        message:
          'The Evacuation of the pod was deleted but still has finalizers x/y: unless the controllers that own them remove them within 10 s, another Evacuation of the pod is created.',
      },
    },
    {
      when: 'it is terminating within its grace period',
      of: pod({ deletionTimestamp: '2026-01-01T11:59:55Z' }),
      observed: evacuation('True'),
      want: undefined,
    },
    {
      when: 'it exceeds its grace period because of finalizers',
      of: pod({ deletionTimestamp: '2026-01-01T11:59:49Z', finalizers: ['b/b', 'a/a'] }),
      observed: undefined,
      want: {
        reason: 'StuckTerminating',
        message:
          'The pod is still terminating although its grace period ended at 2026-01-01T11:59:49Z: finalizers a/a, b/b are still set; check the controllers that own them.',
      },
    },
    {
      when: 'it exceeds its grace period without finalizers',
      of: pod({ deletionTimestamp: '2026-01-01T11:59:49Z' }),
      observed: undefined,
      want: {
        reason: 'StuckTerminating',
        message:
          'The pod is still terminating although its grace period ended at 2026-01-01T11:59:49Z: the kubelet of node node-1 has not stopped it; check whether the node is running.',
      },
    },
  ])('$when', ({ of, observed, want }) => {
    expect(blockerOf(of, observed, now)).toEqual(want);
  });

  const asked = (seconds: number, status: Partial<NonNullable<Evacuation['status']>> = {}) => {
    const since = new Date(now.getTime() - seconds * 1_000).toISOString();
    const message =
      'Waiting for kubelet.k8s.io to respond, the agent of node node-1; next: kubelet.k8s.io again.';
    return {
      metadata: { name: 'e' },
      status: {
        activeEvacuatorClass: 'kubelet.k8s.io',
        activeEvacuatorSince: since,
        evacuationProgressTimestamp: since,
        activeEvacuatorCompleted: false,
        failedEvictionCounter: 0,
        conditions: [],
        message,
        ...status,
      },
    };
  };

  test.each([
    { when: 'it was asked 5 minutes ago', of: mirrorPod(), observed: asked(300), is: false },
    { when: 'it was asked more than 5 minutes ago', of: mirrorPod(), observed: asked(301), is: true },
    {
      when: 'it has responded',
      of: mirrorPod(),
      observed: asked(301, { message: 'static is terminating the pod.' }),
      is: false,
    },
    {
      when: 'another evacuator is active',
      of: mirrorPod(),
      observed: asked(301, { activeEvacuatorClass: 'data.io' }),
      is: false,
    },
    { when: 'the pod is not static', of: pod(), observed: asked(301), is: false },
  ])('is an agent that does not respond: when $when', ({ of, observed, is }) => {
    const want = {
      reason: 'EvacuatorNotResponding',
      message: `The agent of node node-1 has not responded to the Evacuation since ${observed.status.activeEvacuatorSince}: check its log, and that the manifest of the pod is in the folder of the kubelet.`,
    };
    expect(blockerOf(of, observed, now)).toEqual(is ? want : undefined);
  });

  test('requires intervention unless a budget is used up', () => {
    const resolvesItself = Object.values(BlockerReason).filter(
      (reason) => !requiresIntervention({ reason, message: '' }),
    );
    expect(resolvesItself).toEqual(['DisruptionBudget']);
  });
});
