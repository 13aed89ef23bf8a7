import { describe, expect, test } from '@jest/globals';
import { type Holder, nodeConditions } from '../../../domain/maintenance/nodeConditions.ts';

const holder = (name: string, stage: Holder['stage'], drained = false): Holder => ({ name, stage, drained });

describe('the conditions of a node', () => {
  test.each([
    { when: 'no maintenance holds it', holders: [], want: [] },
    {
      when: 'it is cordoned',
      holders: [holder('a', 'Cordon')],
      want: [
        'MaintenanceInProgress True AdminRequested: NodeMaintenance a (Cordon)',
        'DrainInProgress False NotRequested: No NodeMaintenance drains the node.',
        'Drained False NotRequested: No NodeMaintenance drains the node.',
      ],
    },
    {
      when: 'one of two drains it',
      holders: [holder('b', 'Drain'), holder('a', 'Cordon')],
      want: [
        'MaintenanceInProgress True AdminRequested: NodeMaintenance a (Cordon), b (Drain)',
        'DrainInProgress True AdminRequested: NodeMaintenance b (Drain)',
        'Drained False AdminRequested: NodeMaintenance b (Drain)',
      ],
    },
    {
      when: 'two drain it and one is done: the other still has pods to remove',
      holders: [holder('a', 'Drain', true), holder('b', 'Drain')],
      want: [
        'MaintenanceInProgress True AdminRequested: NodeMaintenance a (Drain), b (Drain)',
        'DrainInProgress True AdminRequested: NodeMaintenance a (Drain), b (Drain)',
        'Drained False AdminRequested: NodeMaintenance a (Drain), b (Drain)',
      ],
    },
    {
      when: 'it is drained',
      holders: [holder('a', 'Drain', true)],
      want: [
        'MaintenanceInProgress True AdminRequested: NodeMaintenance a (Drain)',
        'DrainInProgress False DrainCompleted: NodeMaintenance a (Drain)',
        'Drained True DrainCompleted: NodeMaintenance a (Drain)',
      ],
    },
  ])('$when', ({ holders, want }) => {
    const shown = nodeConditions(holders).map(
      ({ type, status, reason, message }) => `${type} ${status} ${reason}: ${message}`,
    );
    expect(shown).toEqual(want);
  });
});
