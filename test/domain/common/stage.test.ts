import { describe, expect, test } from '@jest/globals';
import { holdsNodes, stagesAfter, transitionProblem } from '../../../domain/common/stage.ts';

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
