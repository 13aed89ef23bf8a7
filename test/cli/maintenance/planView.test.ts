import { describe, expect, test } from '@jest/globals';
import { type CapacityEffect, planLines, type PlanReport } from '../../../cli/maintenance/planView.ts';

const report: PlanReport = {
  nodes: ['node-1'],
  held: [],
  warnings: [],
  tiers: [],
  remaining: [],
  budgets: [],
  blocked: false,
};

describe('a plan whose pods fit on no other node', () => {
  test.each<{ effect: CapacityEffect; blocked: boolean; text: string; conclusion: string }>([
    {
      effect: 'Pending',
      blocked: false,
      text: 'Capacity: 1 of 2 pods that leave fit on no other node and would be Pending: shop/web (no cpu).',
      conclusion: 'Nothing blocks the drain.',
    },
    {
      effect: 'Waits',
      blocked: true,
      text: 'Capacity: 1 of 2 pods that leave fit on no other node and wait until they do: shop/web (no cpu).',
      conclusion: 'BLOCKED: 1 pod waits until there is room on other nodes.',
    },
    {
      effect: 'WaitsUntilDeadline',
      blocked: false,
      text: 'Capacity: 1 of 2 pods that leave fit on no other node and wait until they do: shop/web (no cpu).',
      conclusion: '1 pod waits until there is room on other nodes, or until the drain deadline.',
    },
  ])('says what happens to them: $effect', ({ effect, blocked, text, conclusion }) => {
    const unplaced = [{ pod: 'shop/web', node: 'node-1', message: 'no cpu' }];
    const capacity = { pods: 2, unplaced, otherSchedulers: 0, unreadClaims: 0, effect };
    expect(planLines({ ...report, blocked, capacity }, false).slice(-2)).toEqual([text, conclusion]);
  });
});
