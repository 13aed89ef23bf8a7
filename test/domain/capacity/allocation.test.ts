import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Pod } from '../../../api/core.ts';
import { allocate, type PlacedDrain } from '../../../domain/capacity/allocation.ts';
import { withCordoned } from '../../../domain/capacity/clusterState.ts';
import { capacityNode, capacityPod, drawnCluster } from '../../kit/capacity.ts';

const drain = (name: string, pods: Pod[], differs: Partial<PlacedDrain> = {}): PlacedDrain => ({
  name,
  createdAt: `2026-01-0${name.length}T00:00:00Z`,
  waits: true,
  stoppedReason: undefined,
  endsByItself: false,
  pods,
  ...differs,
});
const ones = (count: number, node = 'held') =>
  Array.from({ length: count }, () => capacityPod({ cpu: '1', node }));
const held = capacityNode('held', { cpu: 32_000, unschedulable: true });

/** Allocates among drains of `pods` pods each, the oldest first, with `free` places. */
const outcome = (free: number, drains: readonly PlacedDrain[], reserved: readonly Pod[] = []) => {
  const pods = drains.flatMap((one) => one.pods);
  const nodes = [held, capacityNode('free', { cpu: free * 1_000 })];
  return allocate({ nodes, pods }, reserved, drains).map(({ name, unplaced, servedFirst, stopped }) => ({
    name,
    waiting: unplaced.length,
    ...(servedFirst.length > 0 && { servedFirst }),
    ...(stopped.length > 0 && { stopped: stopped.map((one) => one.name) }),
  }));
};

describe('free places are divided among drains', () => {
  test.each([
    {
      when: 'both fit: nobody waits',
      free: 5,
      drains: [drain('a', ones(2)), drain('bb', ones(3))],
      want: [
        { name: 'a', waiting: 0 },
        { name: 'bb', waiting: 0 },
      ],
    },
    {
      when: 'one of them fits: the older one is served, the younger one takes what is left and says for whom it waits',
      free: 4,
      drains: [drain('bb', ones(3)), drain('a', ones(3))],
      want: [
        { name: 'a', waiting: 0 },
        { name: 'bb', waiting: 2, servedFirst: ['a'] },
      ],
    },
    {
      when: 'only the younger one fits as a whole: it is served first, so that its nodes return to the older one',
      free: 3,
      drains: [drain('a', ones(5)), drain('bb', ones(3))],
      want: [
        { name: 'bb', waiting: 0 },
        { name: 'a', waiting: 5, servedFirst: ['bb'] },
      ],
    },
    {
      when: 'several do not fit: none of them takes a place that might let another one finish',
      free: 4,
      drains: [drain('a', ones(3)), drain('bb', ones(3)), drain('ccc', ones(3))],
      want: [
        { name: 'a', waiting: 0 },
        { name: 'bb', waiting: 3, servedFirst: ['a'] },
        { name: 'ccc', waiting: 3, servedFirst: ['a'] },
      ],
    },
    {
      when: 'one has no pods left, and its window returns its nodes, with which another one may finish: none takes a place',
      free: 1,
      drains: [drain('a', ones(6)), drain('bb', ones(5)), drain('ccc', [], { endsByItself: true })],
      want: [
        { name: 'ccc', waiting: 0 },
        { name: 'a', waiting: 6, servedFirst: ['ccc'] },
        { name: 'bb', waiting: 5, servedFirst: ['ccc'] },
      ],
    },
    {
      when: 'one has no pods left, and a single other one does not fit: it takes the places that there are',
      free: 1,
      drains: [drain('a', ones(2)), drain('bb', [])],
      want: [
        { name: 'bb', waiting: 0 },
        { name: 'a', waiting: 1 },
      ],
    },
    {
      when: 'one has no pods left, and a user returns its nodes, perhaps much later: the others are served pod by pod',
      free: 1,
      drains: [drain('a', ones(6)), drain('bb', ones(5)), drain('ccc', [])],
      want: [
        { name: 'ccc', waiting: 0 },
        { name: 'a', waiting: 5 },
        { name: 'bb', waiting: 5, servedFirst: ['a'] },
      ],
    },
    {
      when: 'the oldest one is paused: it takes no place, and holds nobody back',
      free: 3,
      drains: [drain('a', ones(3), { stoppedReason: 'Paused' }), drain('bb', ones(3)), drain('ccc', ones(1))],
      want: [
        { name: 'bb', waiting: 0 },
        { name: 'ccc', waiting: 1, servedFirst: ['bb'], stopped: ['a'] },
        { name: 'a', waiting: 3, servedFirst: ['bb'] },
      ],
    },
    {
      when: 'the only one that fits as a whole is stopped: the others are served pod by pod before it',
      free: 2,
      drains: [
        drain('a', ones(1), { stoppedReason: 'WaitingForNodeLease' }),
        drain('bb', ones(3)),
        drain('ccc', ones(4)),
      ],
      want: [
        { name: 'bb', waiting: 1, stopped: ['a'] },
        { name: 'ccc', waiting: 4, servedFirst: ['bb'], stopped: ['a'] },
        { name: 'a', waiting: 1, servedFirst: ['bb', 'ccc'] },
      ],
    },
    {
      when: 'one that waits for a Lease does not wait for one that is paused',
      free: 3,
      drains: [
        drain('a', ones(3), { stoppedReason: 'Paused' }),
        drain('bb', ones(3), { stoppedReason: 'WaitingForNodeLease' }),
      ],
      want: [
        { name: 'a', waiting: 0 },
        { name: 'bb', waiting: 0 },
      ],
    },
    {
      when: 'one that waits for a Lease still drains its other nodes, with what nobody else needs',
      free: 4,
      drains: [drain('a', ones(4), { stoppedReason: 'WaitingForNodeLease' }), drain('bb', ones(3))],
      want: [
        { name: 'bb', waiting: 0 },
        { name: 'a', waiting: 3, servedFirst: ['bb'] },
      ],
    },
    {
      when: 'one that waits for a Lease takes no place while others wait until one of them can finish',
      free: 5,
      drains: [
        drain('a', ones(1), { stoppedReason: 'WaitingForNodeLease' }),
        drain('bb', ones(3)),
        drain('ccc', ones(4)),
        drain('dddd', ones(4)),
      ],
      want: [
        { name: 'bb', waiting: 0 },
        { name: 'ccc', waiting: 4, servedFirst: ['bb'], stopped: ['a'] },
        { name: 'dddd', waiting: 4, servedFirst: ['bb'], stopped: ['a'] },
        { name: 'a', waiting: 1, servedFirst: ['bb'] },
      ],
    },
    {
      when: 'none fits as a whole: pod by pod, the oldest first',
      free: 2,
      drains: [drain('a', ones(3)), drain('bb', ones(4))],
      want: [
        { name: 'a', waiting: 1 },
        { name: 'bb', waiting: 4, servedFirst: ['a'] },
      ],
    },
    {
      when: 'a drain that does not wait for capacity gets no place before those that do',
      free: 3,
      drains: [drain('a', ones(3), { waits: false }), drain('bb', ones(3))],
      want: [
        { name: 'bb', waiting: 0 },
        { name: 'a', waiting: 3 },
      ],
    },
    {
      when: 'a pod that fits nowhere waits for nobody',
      free: 3,
      drains: [drain('a', ones(1)), drain('bb', [capacityPod({ cpu: '8', node: 'held' })])],
      want: [
        { name: 'a', waiting: 0 },
        { name: 'bb', waiting: 1 },
      ],
    },
  ])('$when', ({ free, drains, want }) => {
    expect(outcome(free, drains)).toEqual(want);
  });

  test('and a place that is reserved for the replacement of a pod that leaves is not free', () => {
    expect(outcome(3, [drain('a', ones(3))], ones(1))).toEqual([{ name: 'a', waiting: 1 }]);
  });
});

test('the result does not depend on the order of the drains', () => {
  fc.assert(
    fc.property(drawnCluster, ({ nodes, pods, leaving }) => {
      const drains = leaving.map((one, index) => drain('x'.repeat(1 + (index % 9)) + index, [one]));
      const text = (list: readonly PlacedDrain[]) => JSON.stringify(allocate({ nodes, pods }, [], list));
      expect(text(drains.toReversed())).toBe(text(drains));
    }),
  );
});

describe('maintenances that compete for capacity', () => {
  /**
   * Nodes with a number of pods each; a maintenance holds some of them; other nodes have free places. Its user, or its window, completes a
   * maintenance as soon as its last pod has left, unless it is stopped. One that is drained from the beginning is kept, unless it has a window.
   */
  const drawnMaintenances = fc.record({
    free: fc.integer({ min: 0, max: 6 }),
    held: fc.array(
      fc.record({
        nodes: fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 2 }),
        endsByItself: fc.boolean(),
        stoppedReason: fc.oneof(
          { weight: 3, arbitrary: fc.constant(undefined) },
          { weight: 1, arbitrary: fc.constantFrom('Paused' as const, 'WaitingForNodeLease' as const) },
        ),
      }),
      { minLength: 2, maxLength: 6 },
    ),
  });
  type Drawn = typeof drawnMaintenances extends fc.Arbitrary<infer T> ? T : never;
  const placesPerNode = 4;

  interface Maintenance extends Pick<PlacedDrain, 'stoppedReason' | 'endsByItself'> {
    /** Pods that are left on its nodes. */
    pods: number;
    nodes: number;
  }

  interface World {
    free: number;
    open: Map<string, Maintenance>;
  }

  const worldOf = ({ free, held: maintenances }: Drawn): World => ({
    free,
    open: new Map(
      maintenances.map(({ nodes, endsByItself, stoppedReason }, index) => {
        const own = nodes.reduce((sum, count) => sum + count, 0);
        const kept = own === 0 && !endsByItself ? ('Drained' as const) : undefined;
        return [
          `m${index}`,
          { pods: own, nodes: nodes.length, endsByItself, stoppedReason: stoppedReason ?? kept },
        ] as const;
      }),
    ),
  });

  const proceeds = ({ stoppedReason }: Maintenance) => stoppedReason === undefined;
  const isDone = ({ open }: World) => ![...open.values()].some(proceeds);

  const completed = (world: World, name: string) => {
    world.free += (world.open.get(name)?.nodes ?? 0) * placesPerNode;
    world.open.delete(name);
  };

  /** Runs maintenances one after another, whichever fits. */
  const finishesInSequence = (world: World): boolean => {
    for (;;) {
      const next = [...world.open].find(([, one]) => proceeds(one) && one.pods <= world.free);
      if (next === undefined) return isDone(world);
      world.free -= next[1].pods;
      completed(world, next[0]);
    }
  };

  /** All at once, each pod when the allocation lets it leave. */
  const finishesTogether = (world: World): boolean => {
    for (;;) {
      const drains = [...world.open].map(
        ([name, { pods, stoppedReason, endsByItself }]): PlacedDrain => ({
          name,
          createdAt: name,
          waits: true,
          stoppedReason,
          endsByItself,
          pods: ones(pods),
        }),
      );
      const nodes = withCordoned(
        [held, capacityNode('free', { cpu: world.free * 1_000 })],
        new Set(['held']),
      );
      const facts = { nodes, pods: drains.flatMap(({ pods }) => pods) };
      let moved = 0;
      for (const { name, unplaced } of allocate(facts, [], drains)) {
        const own = world.open.get(name);
        if (own === undefined || own.stoppedReason === 'Paused') continue;
        moved += own.pods - unplaced.length;
        world.free -= own.pods - unplaced.length;
        own.pods = unplaced.length;
      }
      const done = [...world.open].filter(([, one]) => proceeds(one) && one.pods === 0);
      for (const [name] of done) completed(world, name);
      if (moved === 0 && done.length === 0) return isDone(world);
    }
  };

  test('all that proceed finish if they could finish one after another', () => {
    fc.assert(
      fc.property(drawnMaintenances, (drawn) => {
        if (finishesInSequence(worldOf(drawn))) expect(finishesTogether(worldOf(drawn))).toBe(true);
      }),
      { numRuns: 2000 },
    );
  });
});
