import fc from 'fast-check';
import type { Node } from '../../../api/core.ts';
import type { MaintenanceWindow } from '../../../api/maintenanceWindow.ts';
import { MAINTENANCE_FINALIZER, NODE_DISRUPTION_BUDGET_NAME } from '../../../api/names.ts';
import type { NodeDisruptionBudget, NodeReservation } from '../../../api/nodeDisruptionBudget.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { countOutOfService, limitsOf, outOfService } from '../../../domain/budget/nodeDisruptionBudget.ts';
import { isCompleted } from '../../../domain/common/stage.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import { decideWindow } from '../../../domain/windows/decideWindow.ts';
import {
  abandonedReservations,
  activeReservationsIn,
  isReservationActive,
  type ReservationInput,
  reservationsIn,
} from '../../../domain/windows/reservations.ts';
import {
  newWindowMaintenance,
  windowMaintenancesIn,
  windowMaintenancesOf,
} from '../../../domain/windows/windowMaintenance.ts';

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

describe('for every reservation', () => {
  const cases = fc.record({
    reservation: fc.record({
      node: fc.constantFrom('n', 'm'),
      window: fc.constantFrom('w', 'v'),
      since: fc.integer({ min: -10, max: 300 }).map(reserved),
    }),
    maintenances: fc.subarray([inProgress, completing, completed]),
    windows: fc.subarray(['w', 'v']).map((names) => new Set(names)),
    laterMs: fc.nat(300_000),
  });
  type Case = typeof cases extends fc.Arbitrary<infer C> ? C : never;
  const holds = (law: (given: Case) => void) => fc.assert(fc.property(cases, law), { numRuns: 1_000 });
  const isActive = ({ reservation, maintenances }: Case, at: number, requestingWindow?: string) =>
    isReservationActive(reservation, {
      maintenances,
      nowMs: at,
      ...(requestingWindow && { requestingWindow }),
    });

  test('time ends a reservation, and never renews it', () => {
    holds((given) => {
      for (const requestingWindow of ['w', 'v', undefined])
        if (isActive(given, nowMs + given.laterMs, requestingWindow))
          expect(isActive(given, nowMs, requestingWindow)).toBe(true);
    });
  });

  test('one whose node is in progress is active, for every window and at any time', () => {
    holds((given) => {
      const maintenances = [...given.maintenances, inProgress];
      for (const requestingWindow of ['w', 'v', undefined])
        expect(
          isReservationActive(
            { ...given.reservation, node: 'n', window: 'w' },
            { maintenances, nowMs: nowMs + given.laterMs, ...(requestingWindow && { requestingWindow }) },
          ),
        ).toBe(true);
    });
  });

  test('NodeMaintenances of other nodes and windows do not count', () => {
    holds((given) => {
      const { node, window } = given.reservation;
      const own = given.maintenances.filter((one) => one.node === node && one.window === window);
      for (const requestingWindow of ['w', 'v', undefined])
        expect(isActive(given, nowMs, requestingWindow)).toBe(
          isActive({ ...given, maintenances: own }, nowMs, requestingWindow),
        );
    });
  });

  test('its own window counts one only with a NodeMaintenance', () => {
    holds((given) => {
      const unused = { ...given, maintenances: [] };
      expect(isActive(unused, nowMs, given.reservation.window)).toBe(false);
    });
  });

  test('only one that is not active for its own window is abandoned, and none of a window that exists', () => {
    holds((given) => {
      const { reservation, maintenances, windows } = given;
      const abandoned = abandonedReservations([reservation], { maintenances, windows, nowMs });
      if (abandoned.length === 0) return;
      expect(isActive(given, nowMs, reservation.window)).toBe(false);
      expect(windows.has(reservation.window)).toBe(false);
    });
  });
});

describe('windows that reserve nodes of the same budgets', () => {
  const names = ['n1', 'n2', 'n3', 'n4', 'n5'];
  const windows = ['v', 'w'];
  const clusters = fc.record({
    cordoned: fc.subarray(names, { maxLength: 2 }),
    allowed: fc.nat(4),
    /** A budget of some nodes. */
    pool: fc.record({ allowed: fc.nat(2), nodes: fc.subarray(names) }),
    maxUnavailable: fc.integer({ min: 1, max: 4 }),
    events: fc.array(
      fc.oneof(
        /** A pass of a window, whose worker may crash before it starts the nodes that it has reserved. */
        fc.record({ kind: fc.constant('Pass' as const), window: fc.nat(1), crashes: fc.boolean() }),
        /** The maintenance of a node reaches Complete, or has uncordoned it. */
        fc.record({ kind: fc.constant('Complete' as const), index: fc.nat(5), isUncordoned: fc.boolean() }),
        fc.record({ kind: fc.constant('Wait' as const), seconds: fc.nat(200) }),
      ),
      { maxLength: 16 },
    ),
  });
  type Drawn = typeof clusters extends fc.Arbitrary<infer C> ? C : never;

  /** A cluster in which windows start nodes as `activities/windows/startNodes.ts` does. */
  class Simulation {
    readonly nodes: readonly Node[];
    readonly #drawn: Drawn;
    #maintenances: NodeMaintenance[] = [];
    #reservations: readonly NodeReservation[] = [];
    #nowMs = nowMs;

    constructor(drawn: Drawn) {
      this.#drawn = drawn;
      const specOf = (name: string) => (drawn.cordoned.includes(name) ? { unschedulable: true } : {});
      this.nodes = names.map((name) => ({ metadata: { name, uid: `uid-${name}` }, spec: specOf(name) }));
    }

    get maintenances(): readonly NodeMaintenance[] {
      return this.#maintenances;
    }

    get budgets(): NodeDisruptionBudget[] {
      const { allowed, pool } = this.#drawn;
      const matchFields = [{ key: 'metadata.name', operator: 'In' as const, values: pool.nodes }];
      const status = { reservations: this.#reservations };
      return [
        { metadata: { name: NODE_DISRUPTION_BUDGET_NAME }, spec: { maxUnavailable: allowed }, status },
        {
          metadata: { name: 'pool' },
          spec: { maxUnavailable: pool.allowed, nodeSelector: { nodeSelectorTerms: [{ matchFields }] } },
        },
      ] as NodeDisruptionBudget[];
    }

    /** Returns the nodes that no other window may start. */
    get out(): Map<string, string> {
      const input = { maintenances: windowMaintenancesIn(this.#maintenances), nowMs: this.#nowMs };
      return this.#outWith(activeReservationsIn(this.budgets, input));
    }

    apply(event: Drawn['events'][number]): void {
      if (event.kind === 'Pass') this.#pass(windows[event.window] ?? '', event.crashes);
      if (event.kind === 'Complete') this.#complete(event.index, event.isUncordoned);
      if (event.kind === 'Wait') this.#nowMs += event.seconds * 1_000;
    }

    #outWith(reservations: readonly NodeReservation[]): Map<string, string> {
      return outOfService({ nodes: this.nodes, maintenances: this.#maintenances, reservations });
    }

    #pass(name: string, crashes: boolean): void {
      const all = windowMaintenancesIn(this.#maintenances);
      const active = reservationsIn(this.budgets).filter((one) =>
        isReservationActive(one, { maintenances: all, requestingWindow: name, nowMs: this.#nowMs }),
      );
      const window = this.#window(name);
      const { rollout } = decideWindow({
        window,
        phase: { policy: 'Finish', isEnding: false },
        requests: { approved: false, approvedNodes: [], paused: false },
        nodes: this.nodes,
        steps: windowMaintenancesOf(name, this.#maintenances).map((windowMaintenance) => ({
          windowMaintenance,
          step: isCompleted(windowMaintenance.maintenance)
            ? { kind: 'Succeeded', at: nowMs }
            : { kind: 'Wait', message: 'it is being drained' },
        })),
        budget: {
          reservations: active,
          limits: limitsOf(this.budgets, this.nodes),
          outOfService: this.#outWith(active),
        },
        areJobsMissing: false,
        notRebootable: new Map(),
        rejected: new Map(),
        rejectedBefore: new Set(),
        nowMs: this.#nowMs,
      });
      const starting = rollout.kind === 'Start' ? rollout.nodes : [];
      const since = new Date(this.#nowMs).toISOString();
      this.#reservations = [...active, ...starting.map((node) => ({ node, window: name, since }))];
      if (crashes) return;
      const created = starting.map((node) =>
        newWindowMaintenance(window, { name: node, uid: `uid-${node}` }),
      );
      for (const { metadata, ...one } of created)
        this.#maintenances.push({ ...one, metadata: { ...metadata, finalizers: [MAINTENANCE_FINALIZER] } });
    }

    #complete(index: number, isUncordoned: boolean): void {
      const maintenance = this.#maintenances[index];
      if (maintenance === undefined || isCompleted(maintenance)) return;
      const { metadata, spec } = maintenance;
      this.#maintenances[index] = {
        metadata: { ...metadata, finalizers: isUncordoned ? [] : [MAINTENANCE_FINALIZER] },
        spec: { ...spec, stage: 'Complete' },
        status: { ...emptyStatus, stageStatuses: [{ name: 'Complete', startTimestamp: reserved(0) }] },
      };
    }

    #window(name: string): MaintenanceWindow {
      const { maxUnavailable } = this.#drawn;
      const rollout = { maxUnavailable, order: { by: 'Name' }, soakSeconds: 0, maxFailures: 1 };
      const spec = { template: {}, work: { type: 'None' }, approval: 'None', rollout };
      return { metadata: { name }, spec } as unknown as MaintenanceWindow;
    }
  }

  /** Asserts the law after each event. */
  const holds = (law: (simulation: Simulation, drawn: Drawn) => void) =>
    fc.assert(
      fc.property(clusters, (drawn) => {
        const simulation = new Simulation(drawn);
        for (const event of drawn.events) {
          simulation.apply(event);
          law(simulation, drawn);
        }
      }),
      { numRuns: 500 },
    );

  test('never take more nodes out of service together than any budget allows', () => {
    holds(({ budgets, nodes, out }, { cordoned }) => {
      for (const limit of limitsOf(budgets, nodes)) {
        const before = cordoned.filter((name) => limit.nodes.has(name)).length;
        expect(countOutOfService(limit, out)).toBeLessThanOrEqual(Math.max(limit.allowed, before));
      }
    });
  });

  test('never maintain a node at the same time, and maintain none that they have not reserved', () => {
    holds(({ budgets, maintenances }) => {
      const busy = windowMaintenancesIn(maintenances).filter(({ maintenance }) => !isCompleted(maintenance));
      expect(new Set(busy.map(({ node }) => node)).size).toBe(busy.length);
      const held = reservationsIn(budgets).map(({ node, window }) => `${node} ${window}`);
      for (const { node, window } of busy) expect(held).toContain(`${node} ${window}`);
    });
  });
});
