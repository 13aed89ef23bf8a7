import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { PodDisruptionBudget, StatefulSet } from '../../../api/core.ts';
import type { Replica } from '../../../domain/evacuation/replacement.ts';
import { statefulSetStep } from '../../../domain/evacuation/statefulSet.ts';
import { pod } from '../../kit/builders.ts';

const now = new Date('2026-01-01T12:00:00Z');
const ago = (seconds: number) => new Date(now.getTime() - seconds * 1_000).toISOString();

const statefulSet = (
  spec: Partial<StatefulSet['spec']> = {},
  metadata: Partial<StatefulSet['metadata']> = {},
): StatefulSet => ({
  metadata: { name: 'db', namespace: 'default', uid: 's', ...metadata },
  spec: { replicas: 1, selector: { matchLabels: { app: 'db' } }, ...spec },
});

/** A budget of pods with the label `app: db`; with these numbers it can never allow a disruption. */
const budget = (
  status: Partial<NonNullable<PodDisruptionBudget['status']>> = {},
  name = 'db',
): PodDisruptionBudget => ({
  metadata: { name, namespace: 'default' },
  spec: { selector: { matchLabels: { app: 'db' } }, minAvailable: 1 },
  status: { disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1, ...status },
});

const consent = { 'evacuation.coordination.k8s.io/priority_statefulset.apps.k8s.io': '10000/controller' };
const first = (differs: Parameters<typeof pod>[0] = {}) =>
  pod({ name: 'db-0', uid: 'db-0', labels: { app: 'db' }, annotations: consent, ...differs });

type State = 'ready' | 'starting' | 'terminating';
const replica = (name: string, state: State = 'ready', readyFor = 100): Replica => ({
  metadata: { name, uid: name, ...(state === 'terminating' && { deletionTimestamp: ago(1) }) },
  status: {
    conditions: [
      { type: 'Ready', status: state === 'starting' ? 'False' : 'True', lastTransitionTime: ago(readyFor) },
    ],
  },
});

const three = statefulSet({ replicas: 3 });
const never3 = budget({ currentHealthy: 3, desiredHealthy: 3, expectedPods: 3 });

describe('a pod of a StatefulSet whose owner permits it', () => {
  test.each([
    { when: 'it is the only one, and its budget can never allow a disruption', want: { kind: 'Delete' } },
    {
      when: 'all other pods are available',
      of: three,
      budgets: [never3],
      others: [replica('db-1'), replica('db-2')],
      want: { kind: 'Delete' },
    },
    {
      when: 'another pod is terminating',
      of: three,
      budgets: [never3],
      others: [replica('db-2', 'terminating'), replica('db-1')],
      want: {
        kind: 'Wait',
        message:
          'Waiting for the other pods of StatefulSet default/db, 1 of 2 are available: db-2 is terminating.',
      },
    },
    {
      when: 'several other pods are not available',
      of: three,
      budgets: [never3],
      others: [replica('db-2', 'starting'), replica('db-1', 'terminating')],
      want: {
        kind: 'Wait',
        message:
          'Waiting for the other pods of StatefulSet default/db, 0 of 2 are available: db-1 is terminating, 1 more not available.',
      },
    },
    {
      when: 'another pod does not exist yet',
      of: three,
      budgets: [never3],
      others: [replica('db-1')],
      want: {
        kind: 'Wait',
        message:
          'Waiting for the other pods of StatefulSet default/db, 1 of 2 are available: a pod has not been created yet.',
      },
    },
    {
      when: 'another pod has not been Ready long enough',
      of: statefulSet({ replicas: 2, minReadySeconds: 30 }),
      others: [replica('db-1', 'ready', 29)],
      want: {
        kind: 'Wait',
        message:
          'Waiting for the other pods of StatefulSet default/db, 0 of 1 are available: db-1 has not been Ready for 30 s yet (minReadySeconds).',
      },
    },
    {
      when: 'the number of replicas is the default',
      of: { ...statefulSet(), spec: { selector: {} } },
      want: { kind: 'Delete' },
    },
  ])(
    'is deleted alone, or waits: $when',
    ({ of = statefulSet(), budgets = [budget()], others = [], want }) => {
      expect(
        statefulSetStep({ pod: first(), statefulSet: of, pods: [replica('db-0'), ...others], budgets, now }),
      ).toEqual(want);
    },
  );

  test.each([
    {
      when: 'its budget can allow a disruption',
      budgets: [budget({ desiredHealthy: 0 })],
      message: 'PodDisruptionBudget default/db can allow a disruption.',
    },
    { when: 'no budget selects it', budgets: [], message: 'No PodDisruptionBudget selects the pod.' },
    {
      when: 'two budgets select it',
      budgets: [budget(), budget({}, 'other')],
      message: 'More than one PodDisruptionBudget selects the pod.',
    },
    {
      when: 'it does not run',
      of: first({ phase: 'Pending' }),
      message: 'PodDisruptionBudget default/db does not protect the pod in its current state.',
    },
    {
      when: 'its StatefulSet is being deleted',
      set: statefulSet({}, { deletionTimestamp: ago(1) }),
      message: 'StatefulSet default/db is being deleted.',
    },
    {
      when: 'its StatefulSet is scaled to 0',
      set: statefulSet({ replicas: 0 }),
      message: 'StatefulSet default/db is scaled to 0.',
    },
    {
      when: 'its owner does not permit it, whatever the Evacuation says',
      of: first({ annotations: {} }),
      message: 'The pod has no annotation for statefulset.apps.k8s.io, by which its owner permits it.',
    },
  ])(
    'is left to the eviction API: $when',
    ({ of = first(), set = statefulSet(), budgets = [budget()], message }) => {
      expect(statefulSetStep({ pod: of, statefulSet: set, pods: [replica('db-0')], budgets, now })).toEqual({
        kind: 'Skip',
        message,
      });
    },
  );

  test('is deleted exactly if all others are available, in whatever order they are listed', () => {
    const states = fc.array(fc.constantFrom<State>('ready', 'starting', 'terminating'), { maxLength: 5 });
    fc.assert(
      fc.property(states, fc.integer({ min: 1, max: 6 }), fc.nat(), (others, replicas, offset) => {
        const pods = others.map((state, i) => replica(`db-${i + 1}`, state));
        const at = offset % (pods.length + 1);
        const rotated = [...pods.slice(at), replica('db-0'), ...pods.slice(0, at)];
        const input = { pod: first(), statefulSet: statefulSet({ replicas }), budgets: [budget()], now };
        const step = statefulSetStep({ ...input, pods: rotated });
        const isSafe = others.every((state) => state === 'ready') && others.length >= replicas - 1;
        expect(step.kind).toBe(isSafe ? 'Delete' : 'Wait');
        expect(statefulSetStep({ ...input, pods: rotated.toReversed() })).toEqual(step);
      }),
    );
  });

  test('is never deleted while its budget can allow a disruption', () => {
    const numbers = fc.record({
      disruptionsAllowed: fc.nat(3),
      currentHealthy: fc.nat(5),
      expectedPods: fc.integer({ min: 2, max: 5 }),
    });
    fc.assert(
      fc.property(numbers, fc.nat(), (status, below) => {
        const desiredHealthy = below % status.expectedPods;
        const budgets = [budget({ ...status, desiredHealthy })];
        const input = { pod: first(), statefulSet: statefulSet(), pods: [replica('db-0')], budgets, now };
        expect(statefulSetStep(input).kind).toBe('Skip');
      }),
    );
  });
});
