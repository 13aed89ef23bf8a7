import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { DrainPlanEntry } from '../../../api/nodeMaintenance.ts';
import {
  compareEntries,
  completeDrainPlan,
  drainPlanProblems,
  entryKey,
  injectedEntries,
} from '../../../domain/drain/plan.ts';
import { daemons, labelled, pods, statics } from '../../kit/builders.ts';

const anyEntry: fc.Arbitrary<DrainPlanEntry> = fc
  .record({
    podType: fc.constantFrom('Default' as const, 'DaemonSet' as const, 'Static' as const),
    podPriority: fc.oneof(fc.integer({ min: -10, max: 10 }), fc.constantFrom(1_000_000_000, 2_147_483_647)),
    app: fc.option(fc.constantFrom('x', 'y'), { nil: undefined }),
  })
  .map(({ app, ...entry }) => (app === undefined ? entry : labelled(entry, { app })));

describe('the drain plan that is executed', () => {
  test('consists of the twelve entries of the KEP, in its order, without a plan', () => {
    const priorities = [1_000_000_000, 2_000_000_000, 2_000_001_000, 2_147_483_647];
    expect(completeDrainPlan()).toEqual([
      ...priorities.map(pods),
      ...priorities.map(daemons),
      ...priorities.map(statics),
    ]);
  });

  test("contains the user's entries at their places", () => {
    expect(completeDrainPlan([pods(5000), daemons(3000)]).slice(0, 6)).toEqual([
      pods(5000),
      ...[1_000_000_000, 2_000_000_000, 2_000_001_000, 2_147_483_647].map(pods),
      daemons(3000),
    ]);
  });

  test('is valid, complete and stable for any plan of the user', () => {
    fc.assert(
      fc.property(fc.array(anyEntry), (written) => {
        const distinct = [...new Map(written.map((entry) => [entryKey(entry), entry])).values()];
        const plan = completeDrainPlan(distinct);
        expect(drainPlanProblems(plan)).toEqual([]);
        expect(completeDrainPlan(plan)).toEqual(plan);
        expect(plan.map(entryKey)).toEqual(
          expect.arrayContaining([...injectedEntries, ...distinct].map(entryKey)),
        );
      }),
    );
  });
});

describe('a problem of a drain plan', () => {
  test.each([
    {
      when: 'in order',
      plan: [pods(1), labelled(pods(2), { app: 'x' }), pods(2), daemons(1), statics(0)],
      problems: [],
    },
    {
      when: 'podType out of order',
      plan: [daemons(1), pods(2)],
      problems: [
        'drainPlan[1] has podType Default after DaemonSet (the order is Default -> DaemonSet -> Static): move it before drainPlan[0]',
      ],
    },
    {
      when: 'podPriority descends',
      plan: [pods(2), pods(1)],
      problems: [
        'drainPlan[1] has podPriority 1 after 2 (ascending for each podType): move it before drainPlan[0]',
      ],
    },
    {
      when: 'a concrete selector follows its priority without one',
      plan: [pods(2), labelled(pods(2), { app: 'x' })],
      problems: [
        'drainPlan[1] has a podSelector and follows the entry of the same priority without one (concrete selectors are executed first): move it before drainPlan[0]',
      ],
    },
    {
      when: 'the same entry twice',
      plan: [
        labelled(pods(2), { app: 'x' }),
        labelled(pods(2), { app: 'y' }),
        labelled(pods(2), { app: 'x' }),
      ],
      problems: ['drainPlan[2] repeats drainPlan[0]: remove one of them'],
    },
  ])('$when', ({ plan, problems }) => {
    expect(drainPlanProblems(plan)).toEqual(problems);
  });

  test('none exactly when the entries are sorted and distinct', () => {
    fc.assert(
      fc.property(fc.array(anyEntry, { maxLength: 5 }), (plan) => {
        const sorted = plan.every(
          (entry, i) => i === 0 || compareEntries(plan[i - 1] as DrainPlanEntry, entry) <= 0,
        );
        const distinct = new Set(plan.map(entryKey)).size === plan.length;
        expect(drainPlanProblems(plan).length === 0).toBe(sorted && distinct);
      }),
    );
  });
});
