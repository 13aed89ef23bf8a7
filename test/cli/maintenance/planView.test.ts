import { describe, expect, test } from '@jest/globals';
import { BlockerReason } from '../../../domain/evacuation/blocker.ts';
import { type CapacityEffect, planLines, type PlanReport } from '../../../cli/maintenance/planView.ts';

const report: PlanReport = {
  nodes: ['node-1'],
  held: [],
  halted: [],
  warnings: [],
  tiers: [],
  remaining: [],
  budgets: [],
  blocked: false,
};

test('a plan whose pods cannot be evacuated says that its deadline deletes them', () => {
  const blockers = [{ reason: BlockerReason.DisruptionBudgetNeverAllows, message: 'never' }];
  const pod = {
    pod: 'shop/web',
    node: 'node-1',
    podType: 'Default',
    priority: 0,
    evacuators: [],
    blockers,
    notes: [],
  } as const;
  const stuck = { ...report, tiers: [{ tier: 1, selects: 'all', pods: [pod] }] };
  expect(planLines({ ...stuck, blocked: true }, false).at(-1)).toBe(
    'BLOCKED: 1 pod cannot be evacuated without intervention.',
  );
  expect(planLines({ ...stuck, deletesAtDeadline: true }, false).at(-1)).toBe(
    '1 pod cannot be evacuated without intervention, and is deleted at the drain deadline.',
  );
});

test('a plan of a maintenance that is paused is blocked', () => {
  const halted = ['it is paused: kubectl maintenance resume rack-7'];
  expect(planLines({ ...report, halted, blocked: true }, false).at(-1)).toBe(
    'BLOCKED: it is paused: kubectl maintenance resume rack-7.',
  );
});

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
    const capacity = { pods: 2, unplaced, notCompared: 0, unreadClaims: 0, effect };
    expect(planLines({ ...report, blocked, capacity }, false).slice(-2)).toEqual([text, conclusion]);
  });
});
