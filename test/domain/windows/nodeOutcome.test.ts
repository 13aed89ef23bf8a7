import { describe, expect, test } from '@jest/globals';
import { type NodeOutcome, outcomesByNode } from '../../../domain/windows/nodeOutcome.ts';

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
