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
  return allocate({ nodes, pods }, reserved, drains).map(({ name, unplaced, servedFirst }) => ({
    name,
    waiting: unplaced.length,
    ...(servedFirst.length > 0 && { servedFirst }),
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
      when: 'one has no pods left, and its nodes may let another one finish: none takes a place',
      free: 1,
      drains: [drain('a', ones(6)), drain('bb', ones(5)), drain('ccc', [])],
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
  /** Nodes with a number of pods each; a maintenance holds some of them; other nodes have free places. */
  const drawnMaintenances = fc.record({
    free: fc.integer({ min: 0, max: 6 }),
    held: fc.array(fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 2 }), {
      minLength: 2,
      maxLength: 5,
    }),
  });
  const placesPerNode = 4;

  interface World {
    free: number;
    /** Maintenance -> pods that are left on its nodes, and the number of its nodes. */
    open: Map<string, { pods: number; nodes: number }>;
  }

  const worldOf = (drawn: { free: number; held: number[][] }): World => ({
    free: drawn.free,
    open: new Map(
      drawn.held.map((nodes, index) => [
        `m${index}`,
        { pods: nodes.reduce((sum, pods) => sum + pods, 0), nodes: nodes.length },
      ]),
    ),
  });

  const completed = (world: World, name: string) => {
    world.free += (world.open.get(name)?.nodes ?? 0) * placesPerNode;
    world.open.delete(name);
  };

  /** One after another, whichever fits. */
  const finishesInSequence = (world: World): boolean => {
    for (;;) {
      const next = [...world.open].find(([, { pods }]) => pods <= world.free);
      if (next === undefined) return world.open.size === 0;
      world.free -= next[1].pods;
      completed(world, next[0]);
    }
  };

  /** All at once, each pod when the allocation lets it leave. */
  const finishesTogether = (world: World): boolean => {
    for (;;) {
      const drains = [...world.open].map(
        ([name, { pods }]): PlacedDrain => ({ name, createdAt: name, waits: true, pods: ones(pods) }),
      );
      const nodes = withCordoned(
        [held, capacityNode('free', { cpu: world.free * 1_000 })],
        new Set(['held']),
      );
      const facts = { nodes, pods: drains.flatMap(({ pods }) => pods) };
      let moved = 0;
      for (const { name, unplaced } of allocate(facts, [], drains)) {
        const own = world.open.get(name);
        if (own === undefined) continue;
        moved += own.pods - unplaced.length;
        world.free -= own.pods - unplaced.length;
        own.pods = unplaced.length;
      }
      const done = [...world.open].filter(([, { pods }]) => pods === 0);
      for (const [name] of done) completed(world, name);
      if (moved === 0 && done.length === 0) return world.open.size === 0;
    }
  };

  test('all finish if they could finish one after another', () => {
    fc.assert(
      fc.property(drawnMaintenances, (drawn) => {
        if (finishesInSequence(worldOf(drawn))) expect(finishesTogether(worldOf(drawn))).toBe(true);
      }),
      { numRuns: 2000 },
    );
  });
});
