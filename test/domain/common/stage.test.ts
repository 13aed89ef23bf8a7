import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { COMPLETED_ANNOTATION, MAINTENANCE_FINALIZER } from '../../../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../../api/nodeMaintenance.ts';
import {
  advanceProblem,
  destinationOf,
  holdsNodes,
  isCompleted,
  isDrained,
  missingFromProblem,
  stagesAfter,
  transitionProblem,
} from '../../../domain/common/stage.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';

// Rows are KEP-4212 > Supported Stage Transitions.
describe('a stage transition', () => {
  test.each([
    { from: 'Idle', to: 'Cordon' },
    { from: 'Idle', to: 'Drain' },
    { from: 'Idle', to: 'Complete' },
    { from: 'Cordon', to: 'Drain' },
    { from: 'Cordon', to: 'Complete' },
    { from: 'Drain', to: 'Complete' },
    { from: 'Drain', to: 'Drain' },
  ] as const)('$from -> $to is supported', ({ from, to }) => {
    expect(transitionProblem(from, to)).toBeUndefined();
  });

  test.each([
    {
      from: 'Cordon',
      to: 'Idle',
      problem: 'stage cannot go from Cordon back to Idle: choose Drain or Complete',
    },
    { from: 'Drain', to: 'Cordon', problem: 'stage cannot go from Drain back to Cordon: choose Complete' },
    { from: 'Drain', to: 'Idle', problem: 'stage cannot go from Drain back to Idle: choose Complete' },
    {
      from: 'Complete',
      to: 'Drain',
      problem: 'stage Complete is final: create a new NodeMaintenance instead',
    },
  ] as const)('$from -> $to is rejected with what to do instead', ({ from, to, problem }) => {
    expect(transitionProblem(from, to)).toBe(problem);
  });

  test('the stages are ordered Idle -> Cordon -> Drain -> Complete', () => {
    expect(stagesAfter('Idle')).toEqual(['Cordon', 'Drain', 'Complete']);
    expect(stagesAfter('Complete')).toEqual([]);
  });

  test('only Cordon and Drain hold nodes', () => {
    expect((['Idle', 'Cordon', 'Drain', 'Complete'] as const).filter(holdsNodes)).toEqual([
      'Cordon',
      'Drain',
    ]);
  });
});

describe('an order to advance', () => {
  const stage = fc.constantFrom<NodeMaintenanceStage>('Idle', 'Cordon', 'Drain', 'Complete');
  const optional = fc.option(stage, { nil: undefined });

  /** Carries out an order, as the workflow and the command line do. */
  const carriedOut = (current: NodeMaintenanceStage, order: Parameters<typeof destinationOf>[1]) =>
    advanceProblem(current, order) === undefined ? destinationOf(current, order) : current;

  test('that names its stage has the same effect once and twice', () => {
    fc.assert(
      fc.property(stage, stage, optional, (current, from, to) => {
        const once = carriedOut(current, { from, to });
        expect(carriedOut(once, { from, to })).toBe(once);
      }),
    );
  });

  test('that names another stage changes nothing', () => {
    fc.assert(
      fc.property(stage, stage, optional, (current, from, to) => {
        if (current !== from) expect(carriedOut(current, { from, to })).toBe(current);
      }),
    );
  });

  test('never goes back', () => {
    fc.assert(
      fc.property(stage, optional, optional, (current, from, to) => {
        const then = carriedOut(current, { from, to });
        expect(transitionProblem(current, then)).toBeUndefined();
      }),
    );
  });

  test.each([
    { current: 'Drain', order: {}, sinceMs: 9_999, isAsked: true },
    { current: 'Drain', order: {}, sinceMs: 10_000, isAsked: false },
    { current: 'Drain', order: { from: 'Drain' }, sinceMs: 0, isAsked: false },
    { current: 'Drain', order: { to: 'Complete' }, sinceMs: 0, isAsked: false },
    { current: 'Cordon', order: {}, sinceMs: 0, isAsked: false },
    { current: 'Complete', order: {}, sinceMs: 0, isAsked: false },
  ] as const)(
    '$order in $current, $sinceMs ms after its beginning, must name its stage: $isAsked',
    ({ current, order, sinceMs, isAsked }) => {
      expect(missingFromProblem(current, order, sinceMs) !== undefined).toBe(isAsked);
    },
  );
});

test('a stage that has not started must be named, for another reason', () => {
  expect(missingFromProblem('Drain', {}, undefined)).toContain('because stage Drain has not started yet');
  expect(missingFromProblem('Drain', {}, 0)).toContain('because stage Drain started less than 10 s ago');
});

describe('a maintenance that was completed, restored without its status,', () => {
  const restored = (stage: NodeMaintenanceStage, finalizers: string[] = []) =>
    ({
      metadata: { name: 'm', finalizers, annotations: { [COMPLETED_ANNOTATION]: '2026-01-01T00:00:00Z' } },
      spec: { stage, nodeSelector: { nodeSelectorTerms: [] } },
    }) as NodeMaintenance;

  test('is completed', () => {
    expect(isCompleted(restored('Complete'))).toBe(true);
  });

  test.each(['Idle', 'Cordon', 'Drain'] as const)(
    'starts in stage %s, if a user has copied it for that',
    (stage) => {
      expect(isCompleted(restored(stage))).toBe(false);
    },
  );

  test('is not completed while it has the finalizer', () => {
    expect(isCompleted(restored('Complete', [MAINTENANCE_FINALIZER]))).toBe(false);
  });
});

test.each([
  { observedGeneration: undefined, want: true },
  { observedGeneration: 2, want: true },
  { observedGeneration: 1, want: false },
  { observedGeneration: 5, want: false },
])(
  'Drained of generation $observedGeneration counts for generation 2: $want',
  ({ observedGeneration, want }) => {
    const drained = {
      type: 'Drained',
      status: 'True' as const,
      reason: 'R',
      message: '',
      lastTransitionTime: '',
    };
    const conditions = [{ ...drained, ...(observedGeneration !== undefined && { observedGeneration }) }];
    expect(
      isDrained({ metadata: { name: 'm', generation: 2 }, status: { ...emptyStatus, conditions } }),
    ).toBe(want);
    expect(isDrained({ metadata: { name: 'm', generation: 2 } })).toBe(false);
  },
);
