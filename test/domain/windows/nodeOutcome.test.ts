import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { isCompleted } from '../../../domain/common/stage.ts';
import {
  canAdvance,
  type NodeOutcome,
  nodeOutcomeOf,
  outcomesByNode,
} from '../../../domain/windows/nodeOutcome.ts';
import { isCancelled, nodeResultOf } from '../../../domain/windows/nodeResult.ts';
import { anyOutcomes } from '../../kit/windowOutcomes.ts';
import { anyMaintenance, maintenanceOf } from '../../kit/windowNode.ts';

const succeeded = (at: number): NodeOutcome => ({ state: 'Succeeded', at });
const failed = (reason: string): NodeOutcome => ({ state: 'Failed', reason, message: '' });

describe('of a node with two NodeMaintenances', () => {
  test.each<{ when: string; first: NodeOutcome; second: NodeOutcome }>([
    { when: 'the newer success', first: succeeded(2), second: succeeded(1) },
    { when: 'the failure with the first reason', first: failed('JobFailed'), second: failed('NodeNotReady') },
    { when: 'a failure before one in progress', first: failed('JobFailed'), second: { state: 'InProgress' } },
    { when: 'one in progress before a success', first: { state: 'InProgress' }, second: succeeded(1) },
    { when: 'a success before one that remains', first: succeeded(1), second: { state: 'Remaining' } },
  ])('$when counts, in any order', ({ first, second }) => {
    const want = new Map([['n', first]]);
    expect(
      outcomesByNode([
        ['n', first],
        ['n', second],
      ]),
    ).toEqual(want);
    expect(
      outcomesByNode([
        ['n', second],
        ['n', first],
      ]),
    ).toEqual(want);
  });
});

test('the outcome of every NodeMaintenance follows from its result, and from whether its node is uncordoned', () => {
  const maintenances = fc.record(anyMaintenance).map(maintenanceOf);
  fc.assert(
    fc.property(maintenances, (maintenance) => {
      const { state } = nodeOutcomeOf(maintenance);
      const result = nodeResultOf(maintenance);
      const isOver = isCompleted(maintenance);
      expect({
        succeeded: state === 'Succeeded',
        failed: state === 'Failed',
        again: state === 'Remaining',
      }).toEqual({
        succeeded: result?.status === 'True' && isOver,
        failed: result?.status === 'False' && !isCancelled(result),
        again: isCancelled(result) && isOver,
      });
      expect(canAdvance(maintenance)).toBe(state === 'InProgress' || state === 'Failed');
    }),
    { numRuns: 500 },
  );
});

describe('for all outcomes', () => {
  const holds = (law: (outcomes: [string, NodeOutcome][], others: [string, NodeOutcome][]) => void) =>
    fc.assert(fc.property(anyOutcomes, anyOutcomes, law), { numRuns: 500 });

  test('a node has one of its own outcomes, and none exactly if all of them remain', () => {
    holds((outcomes) => {
      const byNode = outcomesByNode(outcomes);
      for (const [node] of outcomes) {
        const own = outcomes.filter(([name, { state }]) => name === node && state !== 'Remaining');
        const one = byNode.get(node);
        if (one === undefined) expect(own).toEqual([]);
        else expect(own).toContainEqual([node, one]);
      }
    });
  });

  test('no failure is hidden by another outcome, and nothing in progress by a success', () => {
    holds((outcomes) => {
      const byNode = outcomesByNode(outcomes);
      for (const [node, { state }] of outcomes) {
        const shown = byNode.get(node)?.state;
        if (state === 'Failed') expect(shown).toBe('Failed');
        if (state === 'InProgress') expect(['Failed', 'InProgress']).toContain(shown);
      }
    });
  });

  test('neither their order nor their grouping matters', () => {
    holds((outcomes, others) => {
      const together = outcomesByNode([...outcomes, ...others]);
      expect(outcomesByNode([...outcomes, ...others].toReversed())).toEqual(together);
      expect(outcomesByNode([...outcomesByNode(outcomes), ...outcomesByNode(others)])).toEqual(together);
    });
  });
});
