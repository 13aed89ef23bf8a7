import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { MAINTENANCE_FINALIZER } from '../../../api/names.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import {
  abandonedReservations,
  isReservationActive,
  type ReservationInput,
} from '../../../domain/windows/reservations.ts';

const nowMs = Date.parse('2026-11-21T12:00:00Z');
const reserved = (secondsAgo: number) => new Date(nowMs - secondsAgo * 1_000).toISOString();

/** The NodeMaintenance of the node. A completed one has no finalizer. */
function maintenanceIn(
  stage: NodeMaintenance['spec']['stage'],
  ...finalizers: string[]
): ReservationInput['maintenances'][number] {
  const stageStatuses = [{ name: stage, startTimestamp: reserved(0) }];
  const maintenance: NodeMaintenance = {
    metadata: { name: 'maintenance', finalizers },
    spec: { stage, nodeSelector: { nodeSelectorTerms: [] } },
    status: { ...emptyStatus, stageStatuses },
  };
  return { window: 'w', node: 'n', maintenance };
}

const inProgress = maintenanceIn('Drain', MAINTENANCE_FINALIZER);
const completing = maintenanceIn('Complete', MAINTENANCE_FINALIZER);
const completed = maintenanceIn('Complete');

describe('a reservation', () => {
  test.each([
    { when: 'is active while its node is in progress', maintenances: [inProgress], want: true },
    { when: 'is active while its node is being uncordoned', maintenances: [completing], want: true },
    {
      when: 'is not active after the uncordon, even if a user completed the maintenance',
      maintenances: [completed],
      want: false,
    },
    {
      when: 'is active for a maintenance in progress, even if an earlier one is completed',
      maintenances: [completed, inProgress],
      want: true,
    },
    { when: 'without a maintenance is not active for its own window', maintenances: [], want: false },
    {
      when: 'without a maintenance is active for other windows, because its window is about to start the node',
      maintenances: [],
      requestingWindow: 'v',
      want: true,
    },
    {
      when: 'without a maintenance is not active for other windows after a while',
      maintenances: [],
      requestingWindow: 'v',
      age: 121,
      want: false,
    },
  ])('$when', ({ maintenances, requestingWindow = 'w', age = 10, want }) => {
    const reservation = { node: 'n', window: 'w', since: reserved(age) };
    expect(isReservationActive(reservation, { maintenances, requestingWindow, nowMs })).toBe(want);
  });
});

describe('a reservation is abandoned', () => {
  test.each([
    { when: 'if its window was deleted before it started the node', maintenances: [], want: true },
    { when: 'but not while its window may be starting the node', maintenances: [], age: 29, want: false },
    { when: 'but not while its window exists', maintenances: [], windows: ['w'], want: false },
    { when: 'but not while its node is in progress', maintenances: [inProgress], want: false },
    { when: 'if its window was deleted, and its node is uncordoned', maintenances: [completed], want: true },
  ])('$when', ({ maintenances, windows = [], age = 31, want }) => {
    const reservations = [{ node: 'n', window: 'w', since: reserved(age) }];
    const abandoned = abandonedReservations(reservations, { windows: new Set(windows), maintenances, nowMs });
    expect(abandoned).toEqual(want ? reservations : []);
  });
});
