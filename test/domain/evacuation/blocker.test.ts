import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Evacuation } from '../../../api/evacuation.ts';
import { BlockerReason, blockerOf, requiresIntervention } from '../../../domain/evacuation/blocker.ts';
import { activationMessage, inapplicableReason } from '../../../domain/evacuation/evacuatorSelection.ts';
import { daemonPod, mirrorPod, pod } from '../../kit/builders.ts';

const now = new Date('2026-01-01T12:00:00Z');
const spec: Evacuation['spec'] = {
  podRef: { name: 'p', uid: 'u' },
  progressDeadlineSeconds: 1800,
  evacuators: [
    { evacuatorClass: 'kubelet.k8s.io', priority: 2, role: 'controller' },
    { evacuatorClass: 'data.io', priority: 1, role: 'x' },
  ],
};
const evacuation = (status: 'True' | 'False'): Pick<Evacuation, 'spec' | 'status' | 'metadata'> => ({
  metadata: { name: 'e' },
  spec,
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
        spec,
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

  const asked = (
    seconds: number,
    activeEvacuatorClass = 'kubelet.k8s.io',
    status: Partial<NonNullable<Evacuation['status']>> = {},
  ) => {
    const since = new Date(now.getTime() - seconds * 1_000).toISOString();
    return {
      metadata: { name: 'e' },
      spec,
      status: {
        activeEvacuatorClass,
        activeEvacuatorSince: since,
        evacuationProgressTimestamp: since,
        activeEvacuatorCompleted: false,
        failedEvictionCounter: 0,
        conditions: [],
        message: activationMessage({ spec }, activeEvacuatorClass, mirrorPod()),
        ...status,
      },
    };
  };
  const silentAgent =
    'The agent of node node-1 does not respond to the Evacuation: check its log, and that the manifest of the pod is in the folder of the kubelet.';
  const silentEvacuator =
    'Evacuator data.io does not respond to the Evacuation: check that a program serves this class; next: the eviction API.';

  test.each([
    { when: 'an agent was asked 10 s ago', of: mirrorPod(), observed: asked(10), want: undefined },
    {
      when: 'an agent was asked more than 10 s ago',
      of: mirrorPod(),
      observed: asked(11),
      want: silentAgent,
    },
    {
      when: 'an agent has responded',
      of: mirrorPod(),
      observed: asked(301, 'kubelet.k8s.io', { message: 'static is terminating the pod.' }),
      want: undefined,
    },
    {
      when: 'the agent is asked for a pod that is not static, and the next evacuator follows at once',
      of: pod(),
      observed: asked(11),
      want: undefined,
    },
    { when: 'an evacuator was asked 10 s ago', of: pod(), observed: asked(10, 'data.io'), want: undefined },
    {
      when: 'an evacuator was asked more than 10 s ago',
      of: pod(),
      observed: asked(11, 'data.io'),
      want: silentEvacuator,
    },
    {
      when: 'an evacuator has completed',
      of: pod(),
      observed: asked(301, 'data.io', { activeEvacuatorCompleted: true }),
      want: undefined,
    },
  ])('is an evacuator that does not respond: when $when', ({ of, observed, want }) => {
    expect(blockerOf(of, observed, now)).toEqual(
      want === undefined ? undefined : { reason: 'EvacuatorNotResponding', message: want },
    );
  });

  test('is, in its first minute, every evacuator that has written nothing, and only such a one', () => {
    const classes = fc.constantFrom('data.io', 'kubelet.k8s.io', 'daemonset.apps.k8s.io');
    const written = fc.constantFrom({}, { message: 'Copying.' }, { activeEvacuatorCompleted: true });
    fc.assert(
      fc.property(
        classes,
        fc.constantFrom(pod(), daemonPod(), mirrorPod()),
        written,
        (name, of, response) => {
          const isServed = inapplicableReason(name, of) === undefined;
          const isSilent = Object.keys(response).length === 0;
          const { reason } = blockerOf(of, asked(60, name, response), now) ?? {};
          expect(reason).toBe(isServed && isSilent ? 'EvacuatorNotResponding' : undefined);
        },
      ),
    );
  });

  test('requires intervention unless a budget is used up', () => {
    const resolvesItself = Object.values(BlockerReason).filter(
      (reason) => !requiresIntervention({ reason, message: '' }),
    );
    expect(resolvesItself).toEqual(['DisruptionBudget']);
  });
});
