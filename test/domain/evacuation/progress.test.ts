import { describe, expect, test } from '@jest/globals';
import type { PodDisruptionBudget } from '../../../api/core.ts';
import type { EvictionRequest, LifecycleEviction, ResponderStatus } from '../../../api/lifecycle.ts';
import { IMPERATIVE_RESPONDER, MAINTENANCE_REQUESTER } from '../../../api/names.ts';
import { evacuationProgress, evictionProgress } from '../../../domain/evacuation/progress.ts';
import { pod } from '../../kit/builders.ts';

const now = new Date('2026-01-01T12:00:00Z');
const ago = (seconds: number) => new Date(now.getTime() - seconds * 1_000).toISOString();
const target = { pod: { name: 'p', uid: '11111111-2222-4333-8444-555555555555' } };
const request: EvictionRequest = {
  metadata: { name: 'r', creationTimestamp: ago(20) },
  spec: { target, requester: MAINTENANCE_REQUESTER, intent: 'Eviction' },
};
const eviction = (responder: ResponderStatus, conditions: object[] = []): LifecycleEviction => ({
  metadata: { name: 'e', ownerReferences: [] },
  spec: { target },
  status: {
    conditions: conditions as never,
    targetResponders: [{ name: responder.name, priority: 1000, state: 'Active' }],
    responders: [responder],
  },
});
const running = pod();
const budget: PodDisruptionBudget = {
  metadata: { name: 'db', namespace: running.metadata.namespace ?? '' },
  spec: { selector: {}, minAvailable: 1 },
  status: {
    disruptionsAllowed: 0,
    currentHealthy: 2,
    desiredHealthy: 1,
    expectedPods: 2,
    observedGeneration: 0,
  },
};
const view = { now, responseMs: 30_000, budgets: [budget] };
const of = (found: { eviction?: LifecycleEviction; request?: EvictionRequest }, one = running) =>
  evictionProgress(one, { request, ...found }, view);

test('an Eviction and an Evacuation report the same about the evacuation', () => {
  const byEviction = of({
    eviction: eviction({
      name: 'acme.io/migrate',
      heartbeatTime: ago(5),
      message: 'copying',
      expectedCompletionTime: ago(-60),
    }),
  });
  const byEvacuation = evacuationProgress(
    running,
    {
      metadata: { name: 'e' },
      spec: { podRef: { name: 'p', uid: 'u' }, progressDeadlineSeconds: 1800 },
      status: {
        activeEvacuatorClass: 'acme.io/migrate',
        activeEvacuatorCompleted: false,
        evacuationProgressTimestamp: ago(5),
        expectedEvacuationFinishTime: ago(-60),
        failedEvictionCounter: 0,
        message: 'copying',
        conditions: [],
      },
    },
    now,
  );
  expect(byEviction).toEqual(byEvacuation);
});

describe('a pod whose eviction is requested is blocked', () => {
  test.each([
    { when: 'not while its request is young', found: {}, want: undefined },
    {
      when: 'when no controller answers',
      found: { request: { ...request, metadata: { name: 'r', creationTimestamp: ago(31) } } },
      want: 'EvictionRequestUnanswered',
    },
    {
      when: 'when the eviction API is next, and its budget allows none',
      found: { eviction: eviction({ name: IMPERATIVE_RESPONDER, heartbeatTime: ago(5) }) },
      want: 'DisruptionBudget',
    },
    {
      when: 'not by its budget while a responder moves it',
      found: { eviction: eviction({ name: 'acme.io/migrate', heartbeatTime: ago(5) }) },
      want: undefined,
    },
    {
      when: 'when the active responder does not report',
      found: { eviction: eviction({ name: 'acme.io/migrate', startTime: ago(61) }) },
      want: 'EvacuatorNotResponding',
    },
    {
      when: 'not while the active responder only says what it waits for',
      found: { eviction: eviction({ name: 'acme.io/migrate', startTime: ago(61), message: 'a backup' }) },
      want: undefined,
    },
    {
      when: 'when nobody interrupts a responder that has stopped to report',
      found: { eviction: eviction({ name: 'acme.io/migrate', heartbeatTime: ago(1_231) }) },
      want: 'EvacuatorNotResponding',
    },
    {
      when: 'when no responder has evicted it',
      found: {
        eviction: eviction({ name: 'acme.io/migrate' }, [
          {
            type: 'Failed',
            status: 'True',
            reason: 'NoFurtherResponder',
            message: '',
            lastTransitionTime: ago(1),
          },
        ]),
      },
      want: 'EvictionFailed',
    },
  ])('$when', ({ found, want }) => {
    expect(of(found).blocker?.reason).toBe(want);
  });

  test('when the apiserver does not serve the API, unless it has a request', () => {
    const unserved = { ...view, isServed: false };
    expect(evictionProgress(running, {}, unserved).blocker).toMatchObject({
      reason: 'EvictionRequestUnanswered',
      message: expect.stringContaining('does not serve lifecycle.k8s.io/v1alpha1'),
    });
    expect(evictionProgress(running, { request }, unserved).blocker).toBeUndefined();
    expect(evictionProgress(running, {}, view).blocker).toBeUndefined();
  });

  test('when finalizers keep its request, which was deleted', () => {
    const metadata = { ...request.metadata, deletionTimestamp: ago(1), finalizers: ['x/y'] };
    expect(of({ request: { ...request, metadata } }).blocker).toMatchObject({
      reason: 'EvictionRequestDeleted',
      message: expect.stringContaining('still has finalizers x/y'),
    });
  });

  test('when it does not terminate, whatever its Eviction says', () => {
    const stuck = pod({ deletionTimestamp: ago(60) });
    expect(of({ eviction: eviction({ name: IMPERATIVE_RESPONDER }) }, stuck).blocker?.reason).toBe(
      'StuckTerminating',
    );
  });
});
